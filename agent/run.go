package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent/model"
)

// run is one query. Its limits and counters belong to the first agent, even after delegation.
type run struct {
	root  *Agent
	call  *toolyard.Call // parent of all calls
	query *Query
	start time.Time
	stop  Stop

	events func(Event)

	mu       sync.Mutex                 // serializes events; guards the fields that calls from code change during a turn: stop, calls, missing and tally
	calls    []*callResult              // tool calls, in the order of their evidence
	failures map[string]*toolyard.Error // permanent failures, keyed by call
	seen     map[string]int             // number of requests for each call
	missing  []string                   // unknown tools that the model requested
	saved    time.Time                  // time when the query was last stored
	tally
}

// tally counts the resources that a query has used.
type tally struct {
	turns   []Turn
	usage   model.Usage
	cost    toolyard.Money
	offered int // number of tools offered
	others  int // code runs, and requests that needed no call
	steps   int // turns and calls that were reported as progress
}

// Stop is the reason why a query ended.
type Stop string

// Possible reasons. After all except StopEnd and StopHook, one last turn with no tools follows.
const (
	StopEnd       Stop = "end"       // the model answered
	StopHook      Stop = "hook"      // a hook returned the answer
	StopCalls     Stop = "calls"     // the call limit was reached
	StopTurns     Stop = "turns"     // the turn limit was reached
	StopTime      Stop = "time"      // 80 % of the time limit was used
	StopTokens    Stop = "tokens"    // the limit on input or output tokens was reached
	StopMoney     Stop = "money"     // the limit on the model's cost was reached
	StopRepeated  Stop = "repeated"  // the model requested the same call three times
	StopFailing   Stop = "failing"   // all calls failed in three consecutive turns
	StopMalformed Stop = "malformed" // the model twice sent a call that could not be parsed
	StopRefused   Stop = "refused"   // the model declined to answer
)

const (
	maxRepeats = 3 // requests for the same call
	maxFailing = 3 // consecutive turns in which all calls failed
)

// handover passes a query to another agent.
type handover struct {
	agent    *Agent
	messages []model.Message
}

// final is the answer to a query.
type final struct {
	text string
	data []byte // JSON returned by a hook; nil if the model answered
}

// answer runs the query until an agent answers it.
func (r *run) answer(ctx context.Context) (final, error) {
	to := &handover{r.root, []model.Message{{Text: r.query.Text}}}
	var path []string
	for {
		c := &conversation{run: r, agent: to.agent, path: append(path, to.agent.opts.Name), messages: to.messages, shortened: make(map[int][]string)}
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

// progressInterval is the minimum time between two saves of a running query.
const progressInterval = time.Second

// saveProgress stores the query while it runs, so that operators can follow it on any replica and
// find it if its replica dies. None of the query's calls may be running.
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
		r.root.opts.Log.ErrorContext(ctx, "could not store the query; its evidence will not be available later", "query", r.call.ID, "error", err)
	}
}

// progress reports the start of a turn or a call to the caller of the agent's tool.
func (r *run) progress(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps++
	r.call.Progress(float64(r.steps), float64(r.root.opts.Limits.Turns+r.root.opts.Limits.Calls), message)
}

// report passes an event to the query's observer.
func (r *run) report(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.events != nil {
		r.events(e)
	}
}

// failure converts the error that ended a query. A provider's text is logged but not sent.
func (r *run) failure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, context.DeadlineExceeded) {
			return toolyard.Errorf(toolyard.Timeout, "The query timed out after %v and was stopped.", r.root.opts.Limits.Time)
		}
		return cause
	}
	if failed, ok := errors.AsType[*model.Error](err); ok {
		r.root.opts.Log.WarnContext(ctx, "model request failed", "query", r.call.ID, "agent", r.root.opts.Name, "error", r.root.opts.Redact(failed.Error()))
		return &toolyard.Error{Code: toolyard.Unavailable, Message: "Agent " + r.root.opts.Name + "'s language model is unavailable. Nothing was charged.", Err: err}
	}
	return err
}
