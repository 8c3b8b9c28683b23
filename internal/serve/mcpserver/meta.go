package mcpserver

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/offer"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// resolveTool looks up the tool of a call. The meta-tools that call a tool are replaced by that tool
// here, before a call exists: everything after this sees only the tool that they name. The other
// meta-tools are answered without the call path.
func (r *request) resolveTool() *toolyard.Error {
	if r.view.Gate.IsMetaTool(r.name) {
		return r.resolveMeta()
	}
	return r.lookUp()
}

func (r *request) lookUp() *toolyard.Error {
	tool, ok := r.view.Lookup(r.name)
	if !ok {
		return r.unknownTool()
	}
	r.tool = tool
	return nil
}

func (r *request) resolveMeta() *toolyard.Error {
	r.meta = r.name
	if r.params == nil { // not from an MCP client, whose messages are checked as a whole
		if err := strictjson.Check(r.Args); err != nil {
			return toolyard.Errorf(toolyard.Invalid, "Invalid arguments for %s: %w", r.meta, err)
		}
	}
	switch r.meta {
	case gates.SearchTools:
		q, err := offer.ParseSearch(r.Args)
		r.answer = func(context.Context) (*toolyard.Result, error) {
			return textResult(r.gate.index(r.view).Search(q, r.gate.isDown())), nil
		}
		return err
	case gates.DescribeTools:
		names, err := offer.ParseDescribe(r.Args)
		r.answer = func(context.Context) (*toolyard.Result, error) {
			return textResult(r.gate.index(r.view).Describe(names, r.gate.isDown())), nil
		}
		return err
	case gates.RunCode:
		return r.resolveCode()
	case gates.ReadResult:
		return r.resolveReadResult()
	}
	return r.unwrap()
}

// resolveCode looks up the tool that runs code. Unlike other meta-tools it is called like a tool.
func (r *request) resolveCode() *toolyard.Error {
	r.meta, r.tool = "", r.view.Gate.Code
	if r.tool == nil {
		return toolyard.Errorf(toolyard.Unavailable, "This server cannot run code.")
	}
	return nil
}

// unwrap replaces a meta-tool by the tool that it calls, which is looked up like the tool of any
// other call.
func (r *request) unwrap() *toolyard.Error {
	call, err := offer.ParseCall(r.meta, r.Args)
	switch {
	case err != nil:
		return err
	case call.Name == "":
		return call.MissingName(r.meta, func(name string) bool { _, ok := r.view.Lookup(name); return ok })
	case r.view.Gate.IsMetaTool(call.Name):
		return toolyard.Errorf(toolyard.Invalid, "%s cannot call %s: call %s directly.", r.meta, call.Name, call.Name)
	}
	r.name, r.Args = call.Name, call.Args
	if err := r.lookUp(); err != nil {
		return err
	}
	if r.meta == gates.CallTool && !r.tool.IsReadOnly() {
		return toolyard.Errorf(toolyard.Invalid, "%s is not read-only: call it with %s.", r.name, gates.CallWriteTool)
	}
	return nil
}

func textResult(text string) *toolyard.Result {
	return &toolyard.Result{Content: []toolyard.Content{toolyard.Text(text)}}
}

// encodeMeta encodes the result of a meta-tool, or its refusal. A model can correct the name of a
// tool that it passes to a meta-tool, so an unknown one is a result too.
func (r *request) encodeMeta(res *toolyard.Result, err error) ([]byte, *jsonrpc.Error) {
	if err != nil {
		te := toolyard.AsError(err)
		if r.view.Gate.Errors == gates.ErrorsAsProtocol {
			return nil, r.refusal(te)
		}
		res = te.Result()
	}
	return r.gate.appendResult(nil, r.era, nil, res), nil
}

// signature returns the signature of the tool, for a model that called it with invalid arguments
// without having its schema; empty if the client listed the tool.
func (r *request) signature(e *toolyard.Error) string {
	if r.meta == "" || e.Code != toolyard.Invalid {
		return ""
	}
	s := r.gate.server.signatures.Of(r.tool)
	if !s.Complete {
		return "\n" + r.name + s.Long()
	}
	return "\n" + r.name + "(" + s.Params + ")"
}

// isDown returns a function that reports whether a server is unavailable.
func (g *gate) isDown() func(server string) bool {
	if g.server.opts.Down == nil {
		return func(string) bool { return false }
	}
	ids := g.server.opts.Down()
	return func(server string) bool { return slices.Contains(ids, server) }
}

// lazyIndex is the index of a view, built by the first search.
type lazyIndex struct {
	mu       sync.Mutex
	built    atomic.Pointer[offer.Index]
	previous *offer.Index // of the view before; nil for none
}

// last returns the newest index that was built.
func (l *lazyIndex) last() *offer.Index {
	if x := l.built.Load(); x != nil {
		return x
	}
	return l.previous
}

// index returns the index of a view.
func (g *gate) index(v *view) *offer.Index {
	l := &v.search
	if x := l.built.Load(); x != nil {
		return x
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.built.Load()
	if x == nil {
		x = offer.NewIndex(v.View, &g.server.signatures, l.previous)
		l.built.Store(x)
	}
	return x
}
