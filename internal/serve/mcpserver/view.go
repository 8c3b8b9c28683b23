package mcpserver

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/trust/paramheader"
)

// gate is one gate for as long as it exists. What it shows is swapped as a whole.
type gate struct {
	server *Server
	sse    sync.Map // connections over HTTP+SSE, *sseConnection by their ids
	view   atomic.Pointer[view]
	closed context.Context
	end    context.CancelFunc
}

// view is a gates.View with what was encoded of it.
type view struct {
	*gates.View
	next  [kinds]chan struct{}       // each is closed when its kind has changed
	lists map[string][2]func() *list // by method, for each era
	binds func() map[*toolyard.Tool][]paramheader.Binding
}

// kind is one of the things that a gate lists, and tells its callers of when they change.
type kind int

const (
	toolKind kind = iota
	promptKind
	resourceKind
	kinds
)

func newGate(s *Server) *gate {
	g := &gate{server: s}
	g.closed, g.end = context.WithCancel(context.Background())
	return g
}

// shown is what the gate shows now, nil before anything.
func (g *gate) shown() *gates.View {
	if v := g.view.Load(); v != nil {
		return v.View
	}
	return nil
}

// show swaps what the gate shows, and tells its callers of the kinds that differ.
func (g *gate) show(v *gates.View) {
	old := g.view.Load()
	next := &view{View: v, lists: make(map[string][2]func() *list, len(listings))}
	next.binds = sync.OnceValue(func() map[*toolyard.Tool][]paramheader.Binding { return bindHeaders(v.Tools) })
	var changed []kind
	for k := range kinds {
		if old != nil && same(k, old.View, v) {
			next.next[k] = old.next[k]
			continue
		}
		next.next[k] = make(chan struct{})
		changed = append(changed, k)
	}
	for method, l := range listings {
		if !slices.Contains(changed, l.kind) {
			next.lists[method] = old.lists[method]
			continue
		}
		next.lists[method] = [2]func() *list{
			legacyEra: sync.OnceValue(func() *list { return l.encode(v, legacyEra) }),
			modernEra: sync.OnceValue(func() *list { return l.encode(v, modernEra) }),
		}
	}
	g.view.Store(next)
	if old == nil {
		return
	}
	for _, k := range changed {
		close(old.next[k])
	}
}

// same reports whether callers see no difference between what two views have of a kind.
func same(k kind, a, b *gates.View) bool {
	switch k {
	case toolKind:
		return slices.EqualFunc(a.Tools, b.Tools, sameDefinition)
	case promptKind:
		return slices.EqualFunc(a.Prompts, b.Prompts, func(p, q gates.NamedPrompt) bool {
			return p.Name == q.Name && bytes.Equal(p.Definition, q.Definition)
		})
	default:
		return slices.EqualFunc(listed(a), listed(b), func(r, s *toolyard.Resource) bool {
			return r.URI == s.URI && r.Template == s.Template && bytes.Equal(r.Definition, s.Definition)
		})
	}
}

// listed are the resources of a view that its lists have.
func listed(v *gates.View) []*toolyard.Resource {
	return slices.DeleteFunc(slices.Clone(v.Resources), func(r *toolyard.Resource) bool { return r.Unlisted })
}

// sameDefinition reports whether callers see no difference between two tools.
func sameDefinition(a, b gates.NamedTool) bool {
	return a.Name == b.Name && a.Note == b.Note && (a.Tool == b.Tool || a.Digest() == b.Digest())
}

// era is one of the two wires of MCP.
type era int

const (
	legacyEra era = iota
	modernEra
)

// capabilities are what every gate offers. Prompts and resources are declared although
// their lists may be empty until a source has some: a session cannot learn of them later.
func capabilities() *mcp.ServerCapabilities {
	return &mcp.ServerCapabilities{
		Tools:       &mcp.ToolCapabilities{ListChanged: true},
		Prompts:     &mcp.PromptCapabilities{ListChanged: true},
		Resources:   &mcp.ResourceCapabilities{ListChanged: true},
		Completions: &mcp.CompletionCapabilities{},
		Logging:     &mcp.LoggingCapabilities{}, //nolint:staticcheck // deprecated, not gone
	}
}
