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

// resolveTool looks up the tool of a call. A meta-tool that calls a tool is replaced with that
// tool. The others are answered without the call path, except run_code, which is called like a
// tool.
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
	t, err := r.gate.menu(r.view).Resolve(r.name, r.Args, offer.Requester{Caller: r.Caller, Checked: r.params != nil}) // MCP messages are checked as a whole
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

// menu returns the menu of tools and meta-tools that models can use at the gate.
func (g *gate) menu(v *view) *offer.Menu {
	o := &g.server.opts
	return &offer.Menu{View: v.View, Index: func() *offer.Index { return g.index(v) }, Down: g.isDown, Results: o.Results, Now: o.Now}
}

// Menu is like menu, for callers other than MCP clients.
func (s *Server) Menu(gate string) (*offer.Menu, error) {
	g, err := s.gate(gate)
	if err != nil {
		return nil, err
	}
	return g.menu(g.view.Load()), nil
}

// Hint returns a tool's signature, for a model that called the tool without seeing its schema.
func (s *Server) Hint(name string, t *toolyard.Tool) string { return s.signatures.Hint(name, t) }

// encodeMeta encodes a meta-tool's result or error. If a model passes an unknown tool name to a
// meta-tool, the error is also encoded as a result, because the model can correct it.
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

// signature returns the tool's signature if a model called it with invalid arguments without seeing
// its schema. It returns "" if the client listed the tool.
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

// lazyIndex is a view's index. The first search builds it.
type lazyIndex struct {
	mu       sync.Mutex
	built    atomic.Pointer[offer.Index]
	previous *offer.Index // index of the previous view; may be nil
}

// last returns the most recently built index.
func (l *lazyIndex) last() *offer.Index {
	if x := l.built.Load(); x != nil {
		return x
	}
	return l.previous
}

// index returns a view's index.
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
