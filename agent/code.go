package agent

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent/model"
)

// codeRun is a run of the model's code. Its calls count as the query's calls and are evidence. The
// code's return value is not evidence, because the model determines it.
type codeRun struct {
	*conversation

	open sync.WaitGroup // counts calls in progress

	state sync.Mutex
	ended bool
	made  []*callResult // in the order of their evidence
}

type codeRunKey struct{}

// CallFromCode makes a call from code on behalf of the query whose model wrote the code. call makes
// the actual call, with the tool's name and arguments. If the code does not belong to a query,
// CallFromCode just calls it.
func CallFromCode(ctx context.Context, name string, args json.RawMessage, call func(name string, args json.RawMessage) (*toolyard.Call, *toolyard.Result, error)) (*toolyard.Call, *toolyard.Result, error) {
	run, ok := ctx.Value(codeRunKey{}).(*codeRun)
	if !ok {
		return call(name, args)
	}
	if !run.enter() {
		return nil, nil, context.Canceled
	}
	defer run.open.Done()
	target, refused := run.resolve(name, args)
	switch {
	case refused != nil:
		return nil, nil, refused
	case target.Answer != nil:
		res, err := target.Answer(ctx)
		return nil, res, err
	case target.Code: // the tool itself refuses this
		return call(target.Tool.Name, target.Args)
	}
	r := &callResult{FunctionCall: model.FunctionCall{Name: name, Arguments: args}, target: target}
	if refused := run.admit(r); refused != nil {
		return nil, nil, refused
	}
	var inner *toolyard.Call
	var res *toolyard.Result
	var err error
	run.runTool(ctx, r, func() (string, *toolyard.Result, error) {
		inner, res, err = call(target.Tool.Name, target.Args)
		if inner == nil {
			return "", res, err
		}
		return inner.ID, res, err
	})
	return inner, res, err
}

// enter registers a call, unless the run has ended.
func (r *codeRun) enter() bool {
	r.state.Lock()
	defer r.state.Unlock()
	if r.ended {
		return false
	}
	r.open.Add(1)
	return true
}

// admit decides whether a call from code runs. Unlike the model, code may repeat a call.
func (r *codeRun) admit(call *callResult) *toolyard.Error {
	if failed := r.failures[call.key()]; failed != nil { // changed only between turns
		return failed
	}
	if refused := r.number(call); refused != nil {
		return refused
	}
	r.state.Lock()
	defer r.state.Unlock()
	r.made = append(r.made, call)
	return nil
}

// end refuses further calls and waits until those in progress have ended.
func (r *codeRun) end() {
	r.state.Lock()
	r.ended = true
	r.state.Unlock()
	r.open.Wait()
}

// runCode runs the model's code.
func (c *conversation) runCode(ctx context.Context, r *callResult) {
	run := &codeRun{conversation: c}
	r.start = c.root.opts.Now()
	_, res, err := c.agent.opts.Gate.Call(context.WithValue(ctx, codeRunKey{}, run), c.call, r.target.Tool.Name, r.target.Args)
	run.end()
	c.receive(r, res, err)
	r.made = run.made
}

// sources lists the evidence of calls made by code, such as "e1 vat_rate, e2 vat_rate".
func sources(calls []*callResult) string {
	var list []string
	for _, call := range calls {
		list = append(list, call.evidence()+" "+call.target.Tool.Name)
	}
	return strings.Join(list, ", ")
}
