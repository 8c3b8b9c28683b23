package agent

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent/model"
)

// codeRun is a run of code that the model wrote. Its calls count as the query's calls and are
// evidence; the code's return value is not, because the model determines it.
type codeRun struct {
	*conversation

	open sync.WaitGroup // calls in progress

	state sync.Mutex
	ended bool
	made  []*callResult // in the order of their evidence
}

type codeRunKey struct{}

// CallFromCode makes a call from code on behalf of the query whose model wrote the code. The
// function makes the actual call, with the tool's name and arguments. If the code does not belong
// to a query, the function is called directly.
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
	case target.Code: // refused by the tool
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

// admit decides whether a call of the code runs. Unlike the model itself, code may repeat a call.
func (r *codeRun) admit(call *callResult) *toolyard.Error {
	if failed := r.failures[call.key()]; failed != nil { // set between turns only
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

// end refuses further calls and waits for those in progress.
func (r *codeRun) end() {
	r.state.Lock()
	r.ended = true
	r.state.Unlock()
	r.open.Wait()
}

// runCode runs code that the model wrote.
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
