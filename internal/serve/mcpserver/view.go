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

// gate is a published gate. Its view is replaced as a whole.
type gate struct {
	server *Server
	sse    sync.Map // *sseConnection by ID
	view   atomic.Pointer[view]
	closed context.Context
	close  context.CancelFunc
}

// view is a gates.View and its encoded lists.
type view struct {
	*gates.View
	changed        [kinds]chan struct{}       // each is closed when its kind changes
	renewed        chan struct{}              // closed when there is a newer view
	lists          map[string][2]func() *list // by method and era
	headerBindings func() map[*toolyard.Tool][]paramheader.Binding
	search         lazyIndex
}

// kind is a kind of list. Clients are notified of changes by kind.
type kind int

const (
	toolKind kind = iota
	promptKind
	resourceKind
	kinds
)

func newGate(s *Server) *gate {
	g := &gate{server: s}
	g.closed, g.close = context.WithCancel(context.Background())
	return g
}

// current returns the current view, or nil before the first one.
func (g *gate) current() *gates.View {
	if v := g.view.Load(); v != nil {
		return v.View
	}
	return nil
}

// publish replaces the view and notifies clients of changed lists.
func (g *gate) publish(v *gates.View) {
	old := g.view.Load()
	next := &view{View: v, renewed: make(chan struct{}), lists: make(map[string][2]func() *list, len(listings))}
	next.headerBindings = sync.OnceValue(func() map[*toolyard.Tool][]paramheader.Binding { return bindHeaders(v.Tools) })
	if old != nil {
		next.search.previous = old.search.last()
	}
	var changed []kind
	for k := range kinds {
		if old != nil && same(k, old.View, v) {
			next.changed[k] = old.changed[k]
			continue
		}
		next.changed[k] = make(chan struct{})
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
		close(old.changed[k])
	}
	close(old.renewed)
}

// same reports whether two views list the same definitions of a kind.
func same(k kind, a, b *gates.View) bool {
	switch k {
	case toolKind:
		return a.Gate.Show == b.Gate.Show && slices.Equal(a.Gate.MetaTools(), b.Gate.MetaTools()) && slices.EqualFunc(a.Listed(), b.Listed(), sameDefinition)
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

// listed returns the resources of a view that appear in lists.
func listed(v *gates.View) []*toolyard.Resource {
	return slices.DeleteFunc(slices.Clone(v.Resources), func(r *toolyard.Resource) bool { return r.Unlisted })
}

// sameDefinition reports whether two tools have the same definition.
func sameDefinition(a, b gates.NamedTool) bool {
	return a.Name == b.Name && a.Note == b.Note && (a.Tool == b.Tool || a.Digest() == b.Digest())
}

// era is one of the two incompatible families of MCP versions.
type era int

const (
	legacyEra era = iota
	modernEra
)

// capabilities returns the capabilities, which are the same for all gates. Prompts and resources
// are always declared: sources may add some later, but clients read the capabilities only once.
func capabilities() *mcp.ServerCapabilities {
	return &mcp.ServerCapabilities{
		Tools:       &mcp.ToolCapabilities{ListChanged: true},
		Prompts:     &mcp.PromptCapabilities{ListChanged: true},
		Resources:   &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true},
		Completions: &mcp.CompletionCapabilities{},
		Logging:     &mcp.LoggingCapabilities{}, //nolint:staticcheck // deprecated but still in use
	}
}
