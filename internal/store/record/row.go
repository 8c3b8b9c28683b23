package record

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// maxName is how many bytes a row keeps of a name. Some names are strangers' own: the
// session that a client sends, the code that a tool makes up.
const maxName = 256

// maxMessage is how many bytes it keeps of what a failure says.
const maxMessage = 500

// Row is a call as it is kept. It holds on to nothing that the call refers to.
func Row(c *toolyard.Call, o toolyard.Outcome, args Arguments) *store.CallRow {
	at := c.Start // the same for a row that is made when the call is settled, and one made later
	if at.IsZero() {
		at = o.Start
	}
	sent := c.CallerArgs()
	row := &store.CallRow{
		ID: name(c.ID), At: at.UTC().Truncate(time.Microsecond), Elapsed: o.Elapsed,
		Gate: name(c.Gate), Mode: c.Mode, Caller: name(c.Caller.ID), Account: name(c.Caller.Account), Session: name(c.Session),
		Server: name(c.Tool.Server), Tool: name(c.Tool.Name), Generation: c.Generation,
		Code: toolyard.Code(name(string(o.Code()))), ArgsSize: len(sent), Args: args.kept(sent),
		Parent: name(c.Parent), Message: args.message(c.Tool, o), Marks: marks(c),
	}
	if o.Result != nil {
		row.ResultSize = o.Result.Size()
	}
	if c.Receipt != nil && !c.Receipt.Replayed {
		row.Price = c.Receipt.Price
	}
	return row
}

// message is what a failure says, without secrets. What a tool says that has the caller's own
// data is left out: it may be about that.
func (a Arguments) message(tool *toolyard.Tool, o toolyard.Outcome) string {
	if a.Redact == nil || len(tool.Contexts) > 0 {
		return ""
	}
	return untrusted.Truncate(clean(strings.ToValidUTF8(a.Redact(said(o)), "\uFFFD")), maxMessage)
}

// said is the text of an error, or the first one of a result that is an error.
func said(o toolyard.Outcome) string {
	switch {
	case o.Err != nil:
		return o.Err.Error()
	case o.Result == nil || !o.Result.IsError:
		return ""
	}
	for _, item := range o.Result.Items() {
		if text, ok := item.(toolyard.Text); ok {
			return string(text)
		}
	}
	return ""
}

// marks returns the timeline of a call in whole microseconds, the precision of the store.
func marks(c *toolyard.Call) (list []store.Mark) {
	for step, at := range c.Timeline() {
		list = append(list, store.Mark{Step: step, At: at.Truncate(time.Microsecond)})
	}
	return list
}

// charged reports whether the call was written with its charge.
func charged(c *toolyard.Call) bool {
	return c.Receipt != nil && c.Receipt.Price > 0 && !c.Receipt.Replayed
}

// name is a text that every store takes: bounded, UTF-8, without NUL. One that is fine
// already is not copied.
func name(s string) string {
	if len(s) <= maxName && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	s = strings.ToValidUTF8(strings.Clone(untrusted.Prefix(s, maxName)), "")
	return strings.ReplaceAll(s, "\x00", "")
}
