package toolyard

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/base/tracecontext"
)

// Mode determines whether a gate allows only reads or also writes. Tools declare their [Effects].
type Mode string

// The possible modes.
const (
	Read  Mode = "read"
	Write Mode = "write"
)

// Effects describes what a tool does to the outside world. The zero value means that the tool does
// not declare its effects; it then counts as a write. A read-only tool can be called in both modes,
// any other tool only in mode [Write]; see [Mode].
type Effects string

// ReadOnly are the effects of a tool that changes nothing.
const ReadOnly Effects = "read"

// Caller is the user or program that makes a call.
type Caller struct {
	ID      string
	Account string   // the account that pays for the call
	Roles   []string // such as viewer and operator
}

// Authenticated reports whether the caller has an identity. The ID of an unauthenticated caller
// is "anonymous" or empty.
func (c Caller) Authenticated() bool { return c.ID != "" && c.ID != ident.Anonymous }

// Call is one invocation of a tool. It is a parameter, not a context value, so that the caller
// and the as-of time are explicit everywhere.
//
// A [Policy] may replace Args and no other field. The call path itself sets Start, Receipt and
// MaxResult.
type Call struct {
	ID             string          // unique
	Tool           *Tool           // resolved before any policy runs
	Args           json.RawMessage // a JSON object
	Caller         Caller
	Gate           string    // name of the gate
	Mode           Mode      // mode of the gate
	Surface        Surface   // surface of the gate
	AsOf           time.Time // the time that the call refers to: now, or a past time in a backtest
	Start          time.Time // time at which the call arrived
	IdempotencyKey string
	Session        string // the session that pays for the call; empty if the caller's account pays

	Request
	Environment
}

// Request is the part of a [Call] that the MCP client sends along with the arguments.
type Request struct {
	ClientCapabilities json.RawMessage                           // declared by the client; use [Call.Supports]
	Trace              tracecontext.Trace                        // trace context of the request
	Meta               map[string]json.RawMessage                // the request's _meta, except for the members that Toolyard handles
	InputResponses     json.RawMessage                           // answers to the input requests in an earlier result, by key
	RequestState       string                                    // state that the earlier result asked the client to send back
	OnProgress         func(done, total float64, message string) // use [Call.Progress]
}

// Environment is the part of a [Call] that the platform provides.
type Environment struct {
	Log     *slog.Logger // use [Call.Logger]
	Clients *Clients     // use [Client]
	Toolbox Toolbox      // gives access to the gate's other tools; may be nil

	AsOfSet    bool     // whether the caller set AsOf; if not, AsOf is the arrival time of the outermost call
	Parent     string   // ID of the call whose tool made this one
	Depth      int      // number of enclosing calls
	Generation uint64   // generation of the catalog
	MaxResult  int      // in bytes; zero for no limit. Larger results are not validated
	Receipt    *Receipt // set when the call is settled; nil if nothing was charged

	timeline []timelineEntry
}

// timelineEntry is the time at which a call reached a step of the call path.
type timelineEntry struct {
	step string
	at   time.Duration
}

// maxSteps is the initial capacity of a timeline.
const maxSteps = 12

// Mark adds a step of the call path to the call's timeline. Only the platform calls it.
func (c *Call) Mark(step string, at time.Time) {
	if c.timeline == nil {
		c.timeline = make([]timelineEntry, 0, maxSteps)
	}
	if c.Start.IsZero() {
		c.Start = at
	}
	c.timeline = append(c.timeline, timelineEntry{step, at.Sub(c.Start)})
}

// Ran reports whether the call reached its tool. If it did not, a policy refused it.
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

// Progress reports progress to the caller, if the caller requested it. A total of zero is
// unknown. It ignores NaN and infinite values, which JSON cannot represent.
func (c *Call) Progress(done, total float64, message string) {
	finite := !math.IsNaN(done+total) && !math.IsInf(done+total, 0)
	if c.OnProgress != nil && finite {
		c.OnProgress(done, total, message)
	}
}

// Supports reports whether the client declared a capability, such as "sampling", or part of one,
// such as "elicitation.url".
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

// Logger returns a logger that adds the call ID and the tool to each record. It is never nil.
func (c *Call) Logger() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log.With("call", c.ID, "tool", c.Tool.Name)
}

// CallerArgs returns the arguments that the caller sent, without injected ones.
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

// Policy is a step of the call path: it wraps the handler for the rest of the path. Use
// yard.Options.Policies to add your own.
type Policy func(next Handler) Handler

// Clients are the connections that a program lends to tools in Go, such as a database or a
// payment service. Tools find them by type. The zero value has no clients.
type Clients struct{ lent map[reflect.Type]loan }

type loan struct {
	client any
	modes  []Mode
}

// Lend adds a client of type T, usually an interface. Calls in the given modes can use it, or
// all calls if no mode is given.
func Lend[T any](c *Clients, client T, modes ...Mode) {
	if c.lent == nil {
		c.lent = make(map[reflect.Type]loan)
	}
	c.lent[reflect.TypeFor[T]()] = loan{client, modes}
}

// Client returns the client of type T. It returns false if there is none for the call's mode.
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

// Join returns the combined clients of c and all others. It returns an error if two of them lend
// a client of the same type. Any of them may be nil.
func (c *Clients) Join(others ...*Clients) (*Clients, error) {
	joined := &Clients{lent: make(map[reflect.Type]loan)}
	for _, c := range append(others, c) {
		if c == nil {
			continue
		}
		for t, l := range c.lent {
			if _, twice := joined.lent[t]; twice {
				return nil, fmt.Errorf("more than one client of type %v is provided", t)
			}
			joined.lent[t] = l
		}
	}
	return joined, nil
}
