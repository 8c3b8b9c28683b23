// Package agent answers questions with a language model and a gate's tools.
//
// An [Agent] is offered as one tool, ask_NAME. In a loop, it requests a turn from the model, sends
// the turn's calls through the gate's call path and returns the results to the model, until the
// model answers or a limit is reached. The evidence for an answer is built from the calls that ran,
// never from the model's text. Hooks can restrict what an agent does, and delegate a query to
// another agent; see [Hooks].
package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent/model"
	"github.com/toolyard/toolyard/internal/trust/taint"
)

// Options configure an Agent.
type Options struct {
	Name         string
	Description  string                 // description of its tool, for callers
	Instructions func() (string, error) // returns the instructions for the model; called for every query
	Model        Model
	Gate         Gate
	Mode         toolyard.Mode            // mode of the gate
	Hooks        Hooks                    // may be nil
	Delegate     func(name string) *Agent // returns nil if this agent must not delegate to the named one; may be nil
	Limits       Limits                   // zero values select the defaults
	Price        toolyard.Price           // price of a response
	Store        Store                    // may be nil
	Redact       func(string) string      // redacts secrets in text; may be nil
	Now          func() time.Time         // defaults to time.Now
	Log          *slog.Logger             // may be nil
}

// Model is a language model with its prices, which are used to limit the cost of a query.
type Model struct {
	Name string
	model.Model
	MaxOutput                      int            // tokens per turn; 8192 if zero
	InputUSD, CachedUSD, OutputUSD toolyard.Money // per million tokens
}

// Limits apply to a whole query, including the agents that it is delegated to.
type Limits struct {
	Calls                     int            // 100 if zero
	Turns                     int            // 30 if zero
	Time                      time.Duration  // 3 minutes if zero
	InputTokens, OutputTokens int64          // total of all turns; 400,000 and 20,000 if zero
	USD                       toolyard.Money // the model's cost; unlimited if zero
	Parallel                  int            // concurrent calls; 8 if zero
}

// MaxCalls is the largest number of calls that a query can be allowed.
const MaxCalls = 100

// Store stores queries and their evidence.
type Store interface {
	// SaveQuery stores a query. It is called repeatedly while the query runs, with the outcome
	// [Running], and once at the end.
	SaveQuery(context.Context, *Run) error
}

// Agent answers questions. It is safe for concurrent use.
type Agent struct {
	opts Options
	tool *toolyard.Tool
}

// New returns an agent.
func New(opts Options) (*Agent, error) {
	l := &opts.Limits
	setDefault(&l.Calls, MaxCalls)
	setDefault(&l.Turns, 30)
	setDefault(&l.Time, 3*time.Minute)
	setDefault(&l.InputTokens, 400_000)
	setDefault(&l.OutputTokens, 20_000)
	setDefault(&l.Parallel, 8)
	setDefault(&opts.Model.MaxOutput, 8192)
	if l.Calls > MaxCalls {
		return nil, fmt.Errorf("agent %s: the maximum number of calls is %d", opts.Name, MaxCalls)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Redact == nil {
		opts.Redact = func(text string) string { return text }
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	a := &Agent{opts: opts}
	var err error
	a.tool, err = toolyard.NewTool(a.spec(), a.handle)
	return a, err
}

func setDefault[T comparable](value *T, def T) {
	var zero T
	if *value == zero {
		*value = def
	}
}

// Origin is the prefix of the origin of an agent's tool. The agent's name follows it.
const Origin = "agent "

// ToolName returns the name of an agent's tool.
func ToolName(agent string) string { return "ask_" + agent }

// Tool returns the agent's tool.
func (a *Agent) Tool() *toolyard.Tool { return a.tool }

// Run implements [toolyard.Source].
func (a *Agent) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	publish(toolyard.Offer{Tools: []*toolyard.Tool{a.tool}})
	<-ctx.Done()
	return nil
}

// MaxTime returns the maximum duration of a query.
func (a *Agent) MaxTime() time.Duration { return a.opts.Limits.Time }

func (a *Agent) spec() toolyard.Spec {
	s := toolyard.Spec{
		Name: ToolName(a.opts.Name), Origin: Origin + a.opts.Name, Category: "agents", Description: a.opts.Description,
		Input: inputSchema, Terms: toolyard.Terms{Price: a.opts.Price, Latency: "slow"},
	}
	if s.Description == "" {
		s.Description = "Answers a question with the help of this platform's tools, and cites the evidence."
	}
	s.Price.Query = s.Price.USD
	if a.opts.Mode == toolyard.Read {
		s.Effects = toolyard.ReadOnly
	}
	return s
}

// Query is a question to an agent. It contains the arguments of the agent's tool.
type Query struct {
	Text  string   `json:"query"`
	Shape Shape    `json:"shape,omitempty"`
	Tools []string `json:"tools,omitempty"`
	AsOf  string   `json:"asOf,omitempty"`
}

// Shape determines what a response contains.
type Shape string

// The shapes.
const (
	AnswerOnly         Shape = "answer"
	AnswerWithEvidence Shape = "answer_with_evidence"
	EvidenceOnly       Shape = "evidence_only"
)

var inputSchema = json.RawMessage(`{"type":"object","required":["query"],"properties":{` +
	`"query":{"type":"string","minLength":1,"maxLength":32768,"description":"The question."},` +
	`"shape":{"type":"string","enum":["answer","answer_with_evidence","evidence_only"],"default":"answer_with_evidence","description":"What the response contains."},` +
	`"tools":{"type":"array","maxItems":100,"items":{"type":"string","minLength":1,"maxLength":200},"description":"Use only these tools."},` +
	`"asOf":{"type":"string","maxLength":64,"description":"Answer as of this time, in RFC 3339. Only if the agent supports it."}}}`)

// handle is the handler of the agent's tool.
func (a *Agent) handle(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
	var q Query
	if err := json.Unmarshal(c.Args, &q); err != nil {
		return nil, toolyard.Errorf(toolyard.Invalid, "The arguments are not a valid query: %w", err)
	}
	answer, err := a.Ask(ctx, c, &q)
	if err != nil {
		return nil, err
	}
	return answer.result(q.Shape)
}

// Ask answers a query on behalf of a call to the agent's tool.
func (a *Agent) Ask(ctx context.Context, c *toolyard.Call, q *Query) (*Answer, error) {
	parent, err := a.asOf(c, q)
	if err != nil {
		return nil, err
	}
	start := a.opts.Now()
	if taint.From(ctx) == nil { // otherwise the query belongs to a code run or to another query
		ctx = taint.With(ctx, &taint.Tracker{})
	}
	ctx, cancel := context.WithDeadline(ctx, start.Add(a.opts.Limits.Time))
	defer cancel()
	r := &run{
		root: a, call: parent, query: q, start: start, events: observer(ctx), failures: make(map[string]*toolyard.Error), seen: make(map[string]int),
	}
	r.saveProgress(ctx)
	text, err := r.answer(ctx)
	answer := r.finish(text)
	if err != nil {
		answer.Outcome = Failed
		err = r.failure(ctx, err)
	}
	r.save(ctx, r.record(answer, err))
	return answer, err
}

// asOf returns the parent of the query's calls, which has the query's as-of time.
func (a *Agent) asOf(c *toolyard.Call, q *Query) (*toolyard.Call, error) {
	parent := *c
	parent.Session = "" // an agent's calls are free for its caller
	if q.AsOf == "" {
		return &parent, nil
	}
	at, err := time.Parse(time.RFC3339, q.AsOf)
	switch {
	case !a.opts.Gate.CallerClock():
		return nil, toolyard.Errorf(toolyard.Invalid, "Agent %s does not let callers set the as-of time. Omit asOf.", a.opts.Name)
	case err != nil:
		return nil, toolyard.Errorf(toolyard.Invalid, "asOf must be a time in RFC 3339 format, such as 2026-01-31T09:30:00Z.")
	case at.After(a.opts.Now()):
		return nil, toolyard.Errorf(toolyard.Invalid, "asOf is in the future.")
	}
	parent.AsOf, parent.AsOfSet = at.UTC(), true
	return &parent, nil
}

// Event reports the progress of a query. Either Tool or Text is set.
type Event struct {
	Tool   string // the tool's name at the gate
	Server string
	Status string // calling, done or failed
	Text   string // next part of the model's text
}

type observerKey struct{}

// Observe returns a context in which a query reports its progress. The function is called from one
// goroutine at a time.
func Observe(ctx context.Context, on func(Event)) context.Context {
	return context.WithValue(ctx, observerKey{}, on)
}

func observer(ctx context.Context) func(Event) {
	on, _ := ctx.Value(observerKey{}).(func(Event))
	return on
}
