package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent/model"
)

// run is one query. Its limits and counters are those of the first agent, also after a delegation.
type run struct {
	root  *Agent
	call  *toolyard.Call // the parent of all calls
	query *Query
	start time.Time
	stop  Stop

	mu     sync.Mutex // serializes events
	events func(Event)

	calls    []*callResult
	failures map[string]*toolyard.Error // permanent failures, by call
	seen     map[string]int             // how often a call was requested
	missing  []string                   // unknown tools that the model requested
	turns    []Turn
	usage    model.Usage
	cost     toolyard.Money
	offered  int       // number of tools
	saved    time.Time // when the query was last stored
}

// Stop is why a query ended.
type Stop string

// The reasons. All but StopEnd and StopHook are followed by one last turn without tools.
const (
	StopEnd       Stop = "end"       // the model answered
	StopHook      Stop = "hook"      // a hook returned the answer
	StopCalls     Stop = "calls"     // the limit of calls
	StopTurns     Stop = "turns"     // the limit of turns
	StopTime      Stop = "time"      // 80 % of the time limit
	StopTokens    Stop = "tokens"    // the limit of input or output tokens
	StopMoney     Stop = "money"     // the limit of the model's cost
	StopRepeated  Stop = "repeated"  // the model requested one call three times
	StopFailing   Stop = "failing"   // only failed calls in three turns in a row
	StopMalformed Stop = "malformed" // the model sent a call that cannot be read, twice
	StopRefused   Stop = "refused"   // the model declined to answer
)

const (
	maxRepeats   = 3   // requests of one call
	maxFailing   = 3   // turns in a row with only failed calls
	minOutput    = 512 // tokens without which a turn is not worth its input
	bytesPerUnit = 3   // bytes per token, at least: estimates are too high rather than too low
)

// lastTurn asks for the answer when a limit is reached.
const lastTurn = "No more tools can be called. Answer now, from the results that you have. If they do not answer the question, say so."

// conversation is the part of a query that one agent handles.
type conversation struct {
	*run
	agent       *Agent
	path        []string // names of the agents that handled the query, ending with this one
	system      string
	tools       map[string]Tool // by name of the function
	functions   []model.Function
	messages    []model.Message
	maxOutput   int
	temperature *float64
	malformed   int // turns with calls that cannot be read
	failing     int // turns in a row with only failed calls
}

// handover passes a query to another agent.
type handover struct {
	agent    *Agent
	messages []model.Message
}

// final is the answer of a query.
type final struct {
	text string
	data []byte // JSON of a hook; nil if the model answered
}

// answer runs the query until an agent answers it.
func (r *run) answer(ctx context.Context) (final, error) {
	to := &handover{r.root, []model.Message{{Text: r.query.Text}}}
	var path []string
	for {
		c := &conversation{run: r, agent: to.agent, path: append(path, to.agent.opts.Name), messages: to.messages}
		path = c.path
		done, next, err := c.open(ctx)
		if err == nil && done == nil && next == nil {
			done, next, err = c.converse(ctx)
		}
		if err != nil {
			return final{}, err
		}
		if done != nil {
			return *done, nil
		}
		to = next
	}
}

// converse exchanges turns with the model until it answers or a hook decides.
func (c *conversation) converse(ctx context.Context) (*final, *handover, error) {
	for {
		c.trim()
		limit, possible := c.limit()
		if limit != "" {
			c.stop = limit
			if !possible || c.query.Shape == EvidenceOnly {
				return &final{}, nil, nil
			}
			c.messages = append(c.messages, model.Message{Text: lastTurn})
		}
		turn, err := c.turn(ctx, limit != "")
		if refused(err) {
			c.stop = StopRefused
			return &final{}, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		c.saveProgress(ctx)
		c.messages = append(c.messages, model.Message{Turn: turn})
		var results []*callResult
		if limit == "" {
			if results, err = c.runCalls(ctx, turn.Calls); err != nil {
				return nil, nil, err
			}
			c.saveProgress(ctx)
		}
		data, next, err := c.next(ctx, turn, results)
		if err != nil || data != nil || next != nil {
			return data, next, err
		}
		if limit != "" || !c.continues(turn) {
			return &final{text: turn.Text}, nil, nil
		}
	}
}

func refused(err error) bool {
	failed, ok := errors.AsType[*model.Error](err)
	return ok && failed.Kind == model.Refused
}

// continues reports whether the conversation goes on after a turn, and prepares its next request.
func (c *conversation) continues(turn *model.Turn) bool {
	if turn.Stop == model.StopMalformed && len(turn.Calls) == 0 {
		c.noteMalformed()
		c.messages = append(c.messages, model.Message{Text: "Your last call could not be read. Repeat it with valid JSON arguments, or answer."})
		return true
	}
	return len(turn.Calls) > 0 || turn.Stop == model.StopPause
}

func (c *conversation) noteMalformed() {
	if c.malformed++; c.malformed > 1 {
		c.stop = StopMalformed
	}
}

// limit returns the limit that is reached, after which one last turn may follow, and whether
// another turn is possible at all.
func (c *conversation) limit() (stop Stop, possible bool) {
	l, estimate := &c.root.opts.Limits, c.estimate()
	input, output := l.InputTokens-c.usage.Input, l.OutputTokens-c.usage.Output
	price, left := c.price(model.Usage{Input: estimate, Output: minOutput}), l.USD-c.cost
	elapsed := c.root.opts.Now().Sub(c.start)
	switch {
	case len(c.turns) >= l.Turns:
		return StopTurns, false
	case output < minOutput || (len(c.turns) > 0 && input < estimate):
		return StopTokens, false
	case l.USD > 0 && left < price:
		return StopMoney, false
	case c.stop != "":
		return c.stop, true
	case len(c.turns) == l.Turns-1:
		return StopTurns, true
	case elapsed*5 >= l.Time*4:
		return StopTime, true
	case output < 2*minOutput || input < 2*estimate:
		return StopTokens, true
	case l.USD > 0 && left < 2*price:
		return StopMoney, true
	}
	return "", true
}

// estimate returns an upper bound of the input tokens of the next turn.
func (c *conversation) estimate() int64 {
	size := len(c.system) + len(lastTurn)
	for _, f := range c.functions {
		size += len(f.Name) + len(f.Description) + len(f.Parameters)
	}
	for i := range c.messages {
		size += messageSize(&c.messages[i])
	}
	return int64(size/bytesPerUnit) + 1
}

func messageSize(m *model.Message) int {
	size := len(m.Text) + 32
	if t := m.Turn; t != nil {
		size += max(len(t.Raw), len(t.Text))
	}
	for i := range m.Answers {
		size += len(m.Answers[i].Text)
	}
	return size
}

// trim removes the oldest results from the conversation if fewer than three more turns of its size
// are possible. The results of the last turn stay.
func (c *conversation) trim() {
	excess := 3*c.estimate() - (c.root.opts.Limits.InputTokens - c.usage.Input)
	for i := 0; i < len(c.messages)-1 && excess > 0; i++ {
		answers := slices.Clone(c.messages[i].Answers)
		for j := range answers {
			const removed = `{"removed":"to save space"}`
			if saved := len(answers[j].Text) - len(removed); saved > 0 && excess > 0 {
				answers[j].Text = removed
				excess -= 3 * int64(saved/bytesPerUnit)
			}
		}
		c.messages[i].Answers = answers
	}
}

// turn asks the model for its next turn.
func (c *conversation) turn(ctx context.Context, last bool) (*model.Turn, error) {
	m, began := &c.agent.opts.Model, c.root.opts.Now()
	turn, err := m.Turn(ctx, &model.Request{
		System: c.system, Tools: c.functions, Messages: c.messages, NoTools: last, MaxOutput: c.affordable(), Temperature: c.temperature,
	}, func(e model.Event) {
		if e.Text != "" {
			c.report(Event{Text: e.Text})
		}
	})
	t := Turn{Agent: c.agent.opts.Name, Model: m.Name, Start: began.Sub(c.start), Elapsed: c.root.opts.Now().Sub(began)}
	if failed, ok := errors.AsType[*model.Error](err); ok {
		t.Usage, t.Error = failed.Usage, string(failed.Kind)
	}
	if turn != nil {
		t.Usage, t.Calls, t.Text = turn.Usage, len(turn.Calls), turn.Text
	}
	t.Cost = c.price(t.Usage)
	c.turns, c.cost = append(c.turns, t), c.cost+t.Cost
	addUsage(&c.usage, t.Usage)
	return turn, err
}

func addUsage(sum *model.Usage, u model.Usage) {
	sum.Input += u.Input
	sum.Cached += u.Cached
	sum.CacheWrite += u.CacheWrite
	sum.Output += u.Output
	sum.Reasoning += u.Reasoning
	sum.Estimated = sum.Estimated || u.Estimated
}

// affordable returns the output tokens that the next turn may use.
func (c *conversation) affordable() int {
	l, m := &c.root.opts.Limits, &c.agent.opts.Model
	most := min(int64(c.maxOutput), l.OutputTokens-c.usage.Output)
	if l.USD > 0 && m.OutputUSD > 0 {
		left := l.USD - c.cost - c.price(model.Usage{Input: c.estimate()})
		most = min(most, int64(left)*million/int64(m.OutputUSD))
	}
	return int(max(most, 1))
}

const million = 1_000_000

// price returns the cost of tokens, rounded up.
func (c *conversation) price(u model.Usage) toolyard.Money {
	m := &c.agent.opts.Model
	cached := min(u.Cached, u.Input)
	nano := (u.Input-cached)*int64(m.InputUSD) + cached*int64(m.CachedUSD) + u.Output*int64(m.OutputUSD)
	return toolyard.Money((nano + million - 1) / million)
}

// progressInterval is the minimum time between two stores of a running query.
const progressInterval = time.Second

// saveProgress stores the query while it runs, so that operators can follow it at every replica, and
// find it if its replica dies. No call of the query may be running.
func (r *run) saveProgress(ctx context.Context) {
	now := r.root.opts.Now()
	if r.root.opts.Store == nil || now.Sub(r.saved) < progressInterval {
		return
	}
	r.saved = now
	progress := r.finish(final{})
	progress.Outcome = Running
	record := r.record(progress, nil)
	record.Bodies = nil
	r.save(ctx, record)
}

func (r *run) save(ctx context.Context, record *Run) {
	if r.root.opts.Store == nil {
		return
	}
	if err := r.root.opts.Store.SaveQuery(context.WithoutCancel(ctx), record); err != nil {
		r.root.opts.Log.ErrorContext(ctx, "query could not be stored; its evidence cannot be read later", "query", r.call.ID, "error", err)
	}
}

// report passes an event to the observer of the query.
func (r *run) report(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.events != nil {
		r.events(e)
	}
}

// failure converts the error that ended a query. The text of a provider is logged, not sent.
func (r *run) failure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, context.DeadlineExceeded) {
			return toolyard.Errorf(toolyard.Timeout, "The query took longer than %v and was stopped.", r.root.opts.Limits.Time)
		}
		return cause
	}
	if failed, ok := errors.AsType[*model.Error](err); ok {
		r.root.opts.Log.WarnContext(ctx, "model failed", "query", r.call.ID, "agent", r.root.opts.Name, "error", r.root.opts.Redact(failed.Error()))
		return &toolyard.Error{Code: toolyard.Unavailable, Message: "The language model of the agent " + r.root.opts.Name + " is unavailable. Nothing was charged.", Err: err}
	}
	return err
}
