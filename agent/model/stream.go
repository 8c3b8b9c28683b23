package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/framing"
	"github.com/toolyard/toolyard/internal/trust/outbound"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// read decodes a response into a turn. requestSize is used to estimate token counts that the
// provider does not report.
func read(r io.Reader, api API, decode func(*builder) decoder, requestSize int, on func(Event)) (*Turn, *Error) {
	b := &builder{turn: Turn{API: api}, on: on}
	f := b.read(framing.NewEventReader(r, MaxEvent, 0), decode(b))
	if f == nil {
		f = b.finish(requestSize)
	}
	if f != nil {
		f.retry = f.retry && !b.begun
		f.Usage = b.turn.Usage
		return nil, f
	}
	return &b.turn, nil
}

// builder collects a turn. The decoders for all wire formats write to it.
type builder struct {
	turn  Turn
	begun bool // whether an event has been used
	on    func(Event)
	text  strings.Builder
	parts int
	ended bool // whether the provider has given a reason for the end
	used  bool // whether the provider has sent token counts
}

func (b *builder) read(events *framing.EventReader, d decoder) *Error {
	for {
		event, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return asFailure(d.end())
		case err != nil:
			return streamFailure(err)
		case len(event.Data) == 0:
			continue
		case !utf8.Valid(event.Data):
			return fail(Invalid, "an event is not valid UTF-8")
		}
		last, err := d.event(event.Data)
		if err != nil || last {
			return asFailure(err)
		}
		b.begun = true
	}
}

// errIncomplete is returned for a stream that ends before its last event.
var errIncomplete = &Error{Kind: Unavailable, Message: "the response ended before it was complete", retry: true}

// errNoID is returned for a call to which no answer could be assigned.
var errNoID = errors.New("a call has no ID")

// asFailure converts a decoder's error. Untyped errors mean that the wire format was violated.
func asFailure(err error) *Error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*Error](err); ok {
		own := *f
		return &own
	}
	return fail(Invalid, "%v", err)
}

// streamFailure describes a stream that could not be read.
func streamFailure(err error) *Error {
	if _, large := errors.AsType[*outbound.TooLargeError](err); large || errors.Is(err, framing.ErrLongEvent) {
		return fail(Invalid, "%v", err)
	}
	f := fail(Unavailable, "the response was interrupted: %v", err)
	f.retry = true
	return f
}

// addText adds a part of the answer.
func (b *builder) addText(part string) {
	if part != "" {
		b.text.WriteString(part)
		b.on(Event{Text: part})
	}
}

// addPart counts one more part of the turn.
func (b *builder) addPart() error {
	if b.parts++; b.parts > maxParts {
		return fmt.Errorf("the turn has more than %d parts", maxParts)
	}
	return nil
}

// beginCall reports a call that has started.
func (b *builder) beginCall(name string) { b.on(Event{Call: name}) }

// addCall adds a call with its arguments exactly as the model wrote them. It assigns an ID if the
// call has none.
func (b *builder) addCall(id, name, arguments string) error {
	if len(b.turn.Calls) == MaxCalls {
		return fmt.Errorf("the turn has more than %d calls", MaxCalls)
	}
	if name == "" {
		return errors.New("a call has no function name")
	}
	if len(arguments) > MaxEvent {
		return fmt.Errorf("the arguments for %s exceed %d bytes", untrusted.Quote(name), MaxEvent)
	}
	taken := func(id string) bool {
		for _, c := range b.turn.Calls {
			if c.ID == id {
				return true
			}
		}
		return false
	}
	if id == "" {
		for n := len(b.turn.Calls) + 1; id == "" || taken(id); n++ {
			id = fmt.Sprintf("call_%d", n)
		}
	}
	if taken(id) {
		return fmt.Errorf("two calls have the same ID %s", untrusted.Quote(id))
	}
	call := FunctionCall{ID: id, Name: name}
	call.Arguments, call.Invalid = parseArguments(arguments)
	b.turn.Calls = append(b.turn.Calls, call)
	return nil
}

// parseArguments returns the arguments as an object, or the reason why they are not one. Missing
// arguments and null count as an empty object.
func parseArguments(text string) (object json.RawMessage, reason string) {
	switch text = strings.TrimSpace(text); {
	case text == "" || text == "null":
		return json.RawMessage("{}"), ""
	case strictjson.Check([]byte(text)) != nil:
		return nil, "the arguments are not valid JSON: " + strictjson.Check([]byte(text)).Error()
	case text[0] != '{':
		return nil, "the arguments are not a JSON object"
	}
	return json.RawMessage(text), ""
}

// invalidateLast marks the last call as invalid because the turn ended in the middle of it.
func (b *builder) invalidateLast(reason string) {
	if n := len(b.turn.Calls); n > 0 {
		b.turn.Calls[n-1].Arguments, b.turn.Calls[n-1].Invalid = nil, reason
	}
}

// stop sets the reason why the turn ended.
func (b *builder) stop(s Stop) { b.turn.Stop, b.ended = s, true }

// finish completes the turn after the last event.
func (b *builder) finish(requestSize int) *Error {
	t := &b.turn
	if !b.ended {
		return asFailure(errIncomplete)
	}
	t.Text = b.text.String()
	switch {
	case t.Stop == StopLength, t.Stop == StopContext:
		b.invalidateLast("the turn reached the output limit in the middle of this call")
	case len(t.Calls) > 0:
		t.Stop = StopCalls
	case t.Stop == StopCalls:
		t.Stop = StopEnd
	}
	if !b.used {
		t.Usage = Usage{Input: estimate(requestSize), Output: estimate(len(t.Text) + len(t.Raw)), Estimated: true}
	}
	return nil
}

// estimate returns the typical number of tokens for a size in bytes.
func estimate(bytes int) int64 { return int64(bytes+3) / 4 }

// count sets the usage to the provider's counts. Negative counts are ignored.
func (b *builder) count(u Usage) {
	for _, n := range []*int64{&u.Input, &u.Cached, &u.CacheWrite, &u.Output, &u.Reasoning} {
		*n = max(*n, 0)
	}
	b.turn.Usage, b.used = u, true
}

// isObject reports whether data is a JSON object.
func isObject(data json.RawMessage) bool { return jsonobject.Kind(data) == '{' && valid(data) }

// valid is like [json.Valid]. The strict check, which is several times faster, accepts nearly all
// data.
func valid(data json.RawMessage) bool { return strictjson.Check(data) == nil || json.Valid(data) }
