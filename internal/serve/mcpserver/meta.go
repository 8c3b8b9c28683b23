package mcpserver

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/offer"
)

// resolveTool looks up the tool of a call. Meta-tools are replaced with the tool that they call, or
// answered without using the call path; only run_code is called like a tool.
func (r *request) resolveTool() *toolyard.Error {
	if !r.view.Gate.IsMetaTool(r.name) {
		tool, ok := r.view.Lookup(r.name)
		if !ok {
			return r.unknownTool()
		}
		r.tool = tool
		return nil
	}
	r.meta = r.name
	t, err := r.gate.menu(r.view).Resolve(r.name, r.Args, offer.Requester{Caller: r.Caller, Checked: r.params != nil}) // an MCP message is checked as a whole
	if err != nil {
		return err
	}
	if r.meta == gates.RunCode {
		r.meta = ""
	}
	if r.answer = t.Answer; t.Tool != nil {
		r.name, r.tool, r.Args = t.Name, t.Tool, t.Args
	}
	return nil
}

// menu returns what models can request at a gate.
func (g *gate) menu(v *view) *offer.Menu {
	o := &g.server.opts
	return &offer.Menu{View: v.View, Index: func() *offer.Index { return g.index(v) }, Down: g.isDown, Results: o.Results, Now: o.Now}
}

// Menu returns what models can request at a gate, for callers other than MCP clients.
func (s *Server) Menu(gate string) (*offer.Menu, error) {
	g, err := s.gate(gate)
	if err != nil {
		return nil, err
	}
	return g.menu(g.view.Load()), nil
}

// Hint returns the signature of a tool, for a model that called it without having its schema.
func (s *Server) Hint(name string, t *toolyard.Tool) string { return s.signatures.Hint(name, t) }

// encodeMeta encodes the result of a meta-tool, or its refusal. A model can correct a tool name
// that it passes to a meta-tool, so an unknown name is reported as a result too.
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
	return "\n" + r.gate.server.Hint(r.name, r.tool)
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
	previous *offer.Index // of the previous view; nil for none
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
