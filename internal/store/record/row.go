package record

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// maxName is the maximum size of a name in a row, in bytes. Some names, such as sessions and error
// codes, are chosen by clients and tools.
const maxName = 256

// maxMessage is the maximum size of an error message in a row, in bytes.
const maxMessage = 500

// Row returns the row for a call. The row does not share memory with the call.
func Row(c *toolyard.Call, o toolyard.Outcome, args Arguments) *store.CallRow {
	at := c.Start // the same whether the row is created at settlement or later
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
	if !c.AsOf.IsZero() && !c.AsOf.Equal(c.Start) {
		row.AsOf = c.AsOf.UTC().Truncate(time.Microsecond)
	}
	if o.Result != nil {
		row.ResultSize = o.Result.Size()
	}
	if c.Receipt != nil && !c.Receipt.Replayed {
		row.Price = c.Receipt.Price
	}
	return row
}

// message returns the error message with secrets removed. It omits messages from tools with
// contexts, because they may contain data about the caller.
func (a Arguments) message(tool *toolyard.Tool, o toolyard.Outcome) string {
	if a.Redact == nil || len(tool.Contexts) > 0 {
		return ""
	}
	return untrusted.Truncate(clean(strings.ToValidUTF8(a.Redact(said(o)), "\uFFFD")), maxMessage)
}

// said returns the text of an error, or the first text of an error result.
func said(o toolyard.Outcome) string {
	switch {
	case o.Err != nil:
		return o.Err.Redacted().Error()
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

// marks returns a call's timeline in whole microseconds, which is the store's precision.
func marks(c *toolyard.Call) (list []store.Mark) {
	for step, at := range c.Timeline() {
		list = append(list, store.Mark{Step: step, At: at.Truncate(time.Microsecond)})
	}
	return list
}

// charged reports whether the call was written together with its charge.
func charged(c *toolyard.Call) bool {
	return c.Receipt != nil && c.Receipt.Price > 0 && !c.Receipt.Replayed
}

// name returns a string that every store accepts: truncated, valid UTF-8, and free of NUL.
func name(s string) string {
	if len(s) <= maxName && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	s = strings.ToValidUTF8(strings.Clone(untrusted.Prefix(s, maxName)), "")
	return strings.ReplaceAll(s, "\x00", "")
}
