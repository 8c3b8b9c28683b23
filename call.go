package toolyard

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Mode is what a call may do: only read, or also change the world.
type Mode string

// The two modes.
const (
	Read  Mode = "read"
	Write Mode = "write"
)

// ReadOnly is the Modes of a tool that changes nothing: it may run in both kinds
// of gate. A tool that does not say so runs only where writing is allowed.
var ReadOnly = []Mode{Read, Write}

// Caller is who makes a call.
type Caller struct {
	ID      string   // who
	Account string   // who pays
	Roles   []string // what they may do
}

// Anonymous is the ID of a caller whom nobody asked who they are.
const Anonymous = "anonymous"

// Known reports whether it is known who calls.
func (c Caller) Authenticated() bool { return c.ID != "" && c.ID != Anonymous }

// Call is one invocation of a tool. It is a parameter, not a context value, so
// that no code can forget whose call it is and at which time it is asked.
type Call struct {
	ID             string          // unique, for the record and the log
	Tool           *Tool           // resolved before any policy runs
	Args           json.RawMessage // one JSON object; the only field a policy may replace
	Caller         Caller
	Gate           string    // the gate it came through
	Mode           Mode      // the gate's mode
	Surface        Surface   // the gate's surface
	AsOf           time.Time // the time that the call is about: now, or a backtest's
	Start          time.Time // when it came in, for the record
	IdempotencyKey string    // idempotency key, empty for none
	Session        string    // the open budget that pays for it, empty for the account of the caller

	Parent             string          // the id of the call that this one was made inside of, empty for none
	Generation         uint64          // of the catalog that the tool is from
	Receipt            *Receipt        // what it cost; nil before it is settled, and for a call that nothing was taken for
	Marks              []Mark          // when it came to each step of its path; for whoever keeps the record
	Log                *slog.Logger    // where tools log; use [Call.Logger]
	Clients            *Clients        // what the platform lends to tools; use [Client]
	Toolbox            Toolbox         // what else the gate offers, nil for nothing
	Depth              int             // how many calls of tools this one is inside of
	ClientCapabilities json.RawMessage // what the calling client declared that it can do; use [Call.Supports]
	Trace              Trace           // the trace that the call belongs to
	Meta               Meta            // what else the client sent along for whoever answers
	InputResponses     json.RawMessage // what the client answers to an unfinished result, by key; nil for nothing
	RequestState       string          // what the unfinished result wanted back with the answers
	OnProgress         func(Progress)  // where progress goes; use [Call.Progress]
	MaxResult          int             // how many bytes the result may have, 0 for no limit; a larger one is not validated
}

// Mark is when a call came to a step of its path, counted from the first.
type Mark struct {
	Step string        `json:"step"`
	At   time.Duration `json:"atNs"`
}

// The steps at which the tool of a call begins to run, and has run. What follows is settling.
const (
	StepRun = "run"
	StepRan = "ran"
)

// Ran reports whether a call got as far as its tool. One that did not was refused before.
func (c *Call) Ran() bool {
	return slices.ContainsFunc(c.Marks, func(m Mark) bool { return m.Step == StepRun })
}

// Meta are members of the _meta of a request that mean nothing to us.
type Meta map[string]json.RawMessage

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
		o, _ := members(at)
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
	list, ok := orderedMembers(c.Args)
	if !ok {
		return c.Args
	}
	return appendObject(slices.DeleteFunc(list, func(m member) bool {
		_, ours := injected[m.key]
		return ours
	}))
}

// Handler runs a call.
type Handler func(context.Context, *Call) (*Result, error)

// Policy is one step of the call path: it wraps what comes after it.
type Policy func(next Handler) Handler

// Chain puts policies in front of run; the first one listed acts first.
func Chain(run Handler, policies ...Policy) Handler {
	for _, p := range slices.Backward(policies) {
		run = p(run)
	}
	return run
}

// Run is the end of the call path: it runs the tool and checks its output.
func Run(ctx context.Context, c *Call) (*Result, error) { return c.Tool.run(ctx, c) }

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
