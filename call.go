package toolyard

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
)

// Mode is what a gate allows: only reading, or also writing. See [Effects] for what a tool
// does.
type Mode string

// The modes.
const (
	Read  Mode = "read"
	Write Mode = "write"
)

// Effects is what a tool does to the outside world. The zero value means that the tool does
// not declare its effects, and counts as a write. See [Mode] for what a gate allows: a
// read-only tool can be called in both modes, any other only in mode [Write].
type Effects string

// ReadOnly is declared by a tool that changes nothing.
const ReadOnly Effects = "read"

// Caller is the user or program that makes a call.
type Caller struct {
	ID      string
	Account string   // pays for the call
	Roles   []string // such as viewer and operator
}

// Anonymous is the ID of an unauthenticated caller.
const Anonymous = "anonymous"

// Authenticated reports whether the caller has an identity.
func (c Caller) Authenticated() bool { return c.ID != "" && c.ID != Anonymous }

// Call is one invocation of a tool. It is a parameter, not a context value, so
// that no code can forget whose call it is and at which time it is asked.
type Call struct {
	ID             string          // unique, for the record and the log
	Tool           *Tool           // resolved before any policy runs
	Args           json.RawMessage // a JSON object; the only field that your own policies may replace
	Caller         Caller
	Gate           string    // the gate it came through
	Mode           Mode      // the gate's mode
	Surface        Surface   // the gate's surface
	AsOf           time.Time // the time that the call is about: now, or a backtest's
	Start          time.Time // when it came in, for the record
	IdempotencyKey string    // idempotency key, empty for none
	Session        string    // the open budget that pays for it, empty for the account of the caller

	Parent     string   // the id of the call that this one was made inside of, empty for none
	Generation uint64   // of the catalog that the tool is from
	Receipt    *Receipt // what it cost; nil before it is settled, and for a call that nothing was taken for

	Log                *slog.Logger               // where tools log; use [Call.Logger]
	Clients            *Clients                   // what the platform lends to tools; use [Client]
	Toolbox            Toolbox                    // what else the gate offers, nil for nothing
	Depth              int                        // how many calls of tools this one is inside of
	ClientCapabilities json.RawMessage            // what the calling client declared that it can do; use [Call.Supports]
	Trace              Trace                      // the trace that the call belongs to
	Meta               map[string]json.RawMessage // what else the client sent along for whoever answers
	InputResponses     json.RawMessage            // what the client answers to an unfinished result, by key; nil for nothing
	RequestState       string                     // what the unfinished result wanted back with the answers
	OnProgress         func(Progress)             // where progress goes; use [Call.Progress]
	MaxResult          int                        // how many bytes the result may have, 0 for no limit; a larger one is not validated

	timeline []timelineEntry
}

// timelineEntry is the time at which a call reached a step of the call path.
type timelineEntry struct {
	step string
	at   time.Duration
}

// maxSteps is the number of steps for which a timeline has room without growing.
const maxSteps = 12

// Mark adds a step of the call path to the timeline of the call. The platform calls it.
func (c *Call) Mark(step string, at time.Time) {
	if c.timeline == nil {
		c.timeline = make([]timelineEntry, 0, maxSteps)
	}
	if c.Start.IsZero() {
		c.Start = at
	}
	c.timeline = append(c.timeline, timelineEntry{step, at.Sub(c.Start)})
}

// Ran reports whether the call got as far as its tool. Otherwise a policy refused it.
func (c *Call) Ran() bool {
	return slices.ContainsFunc(c.timeline, func(e timelineEntry) bool { return e.step == "run" })
}

// Timeline returns the steps of the call path that the call has reached, with the time since
// Start.
func (c *Call) Timeline() iter.Seq2[string, time.Duration] {
	return func(yield func(string, time.Duration) bool) {
		for _, e := range c.timeline {
			if !yield(e.step, e.at) {
				return
			}
		}
	}
}

// Trace is a W3C trace context, as the caller sent it.
type Trace struct{ Parent, State, Baggage string }

// Progress tells a caller how far a long call has come. Total is zero when it is
// not known.
type Progress struct {
	Done, Total float64
	Message     string
}

// Progress reports progress to the caller, if the caller wants to know. JSON has no NaN
// and no infinity: such progress is not reported.
func (c *Call) Progress(done, total float64, message string) {
	finite := !math.IsNaN(done+total) && !math.IsInf(done+total, 0)
	if c.OnProgress != nil && finite {
		c.OnProgress(Progress{done, total, message})
	}
}

// Supports reports whether the calling client declared a capability: "sampling", or
// "elicitation.url" for a part of one.
func (c *Call) Supports(capability string) bool {
	at := c.ClientCapabilities
	for name := range strings.SplitSeq(capability, ".") {
		o, _ := jsonobject.Map(at)
		if at = o[name]; at == nil {
			return false
		}
	}
	return true
}

// Logger returns a logger whose lines carry the call's id and tool. It is never nil.
func (c *Call) Logger() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log.With("call", c.ID, "tool", c.Tool.Name)
}

// Sent are the arguments that the caller sent, without those that the platform put in.
func (c *Call) CallerArgs() json.RawMessage {
	if len(c.Tool.Contexts) == 0 {
		return c.Args
	}
	injected := c.Tool.Injected()
	list, ok := jsonobject.Members(c.Args)
	if !ok {
		return c.Args
	}
	return jsonobject.Join(slices.DeleteFunc(list, func(m jsonobject.Member) bool {
		_, ours := injected[m.Key]
		return ours
	}))
}

// Handler runs a call.
type Handler func(context.Context, *Call) (*Result, error)

// Policy is one step of the call path: it wraps what comes after it.
type Policy func(next Handler) Handler

// Clients are the live connections that the platform lends to tools that run in
// this process: market data, a broker, a home. Each is found by its type. The zero
// value lends nothing.
type Clients struct{ lent map[reflect.Type]loan }

type loan struct {
	client any
	modes  []Mode
}

// Lend adds a client of type T, usually an interface. It is lent to calls in the
// given modes, or to all when none is given.
func Lend[T any](c *Clients, client T, modes ...Mode) {
	if c.lent == nil {
		c.lent = make(map[reflect.Type]loan)
	}
	c.lent[reflect.TypeFor[T]()] = loan{client, modes}
}

// Client returns the client of type T for this call, and false when the platform
// has none for the call's mode: a broker is not there in a read-only gate.
func Client[T any](c *Call) (client T, ok bool) {
	if c.Clients == nil {
		return client, false
	}
	l, ok := c.Clients.lent[reflect.TypeFor[T]()]
	if !ok || (len(l.modes) > 0 && !slices.Contains(l.modes, c.Mode)) {
		return client, false
	}
	return l.client.(T), true
}
