package script

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/jsvm"
)

// Hooks are an agent's functions Create and Next, in a TypeScript file. Hooks are also a
// [toolyard.Source] that has no tools: Run loads the file and follows its changes.
type Hooks struct{ provider *Provider }

// NewHooks returns an agent's hooks. The file replaces Options.Dir and Options.Glob; the grant for
// "*" applies.
func NewHooks(agent, file string, opts Options) (*Hooks, error) {
	p, err := NewProvider(agent, file, opts, nil)
	if err != nil {
		return nil, err
	}
	p.folder.hooks = true
	return &Hooks{p}, nil
}

// Run implements [toolyard.Source]. It publishes no tools.
func (h *Hooks) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	return h.provider.Run(ctx, publish)
}

// Problems returns the file's problems.
func (h *Hooks) Problems() []toolyard.Problem { return h.provider.Problems() }

// hookTime is the time limit for a hook call.
const hookTime = time.Second

// Has reports whether there is a hook with that name. If the file cannot be loaded, it reports true
// for every name and calls fail, because an agent must not run without the hooks that restrict it.
func (h *Hooks) Has(name string) bool {
	fn := h.provider.fn.Load()
	return fn == nil || slices.Contains(fn.names, name)
}

// Call calls a hook with a call's context and an argument. It returns the hook's return value as
// JSON, or null if there is none. Hooks cannot use ctx.mcp.
func (h *Hooks) Call(ctx context.Context, c *toolyard.Call, name string, argument json.RawMessage) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	p := h.provider
	select {
	case <-p.loaded:
	case <-ctx.Done():
		return nil, fmt.Errorf("the hook's script is not loaded yet: %w", ctx.Err())
	}
	fn := p.fn.Load()
	if fn == nil {
		return nil, fmt.Errorf("the hook's script cannot be loaded: %v", p.Problems())
	}
	if !slices.Contains(fn.names, name) {
		return json.RawMessage("null"), nil
	}
	request, err := json.Marshal(map[string]any{"hook": map[string]any{"name": name, "ctx": contextOf(c), "argument": argument}})
	if err != nil {
		return nil, err
	}
	o := &hostAPI{call: &toolyard.Call{ID: c.ID, Tool: c.Tool, Caller: c.Caller, Gate: c.Gate, Mode: c.Mode, AsOf: c.AsOf}, reach: fn.reach, loads: make(chan struct{}, maxLoads)}
	answer, err := fn.pool.Run(ctx, &jsvm.Run{
		Module: fn.module, Request: request, Now: c.AsOf, Shared: fn.shared, Nested: true, Host: o.answer, Notify: func(string, json.RawMessage) {},
		Log: func(level slog.Level, text string) {
			p.folder.opts.Log.Log(ctx, level, text, "agent", p.folder.kind, "hook", name) //nolint:sloglint // the script's own text
		},
	})
	if err != nil {
		return nil, explained(err)
	}
	var returned struct {
		Text  *string
		Value json.RawMessage
	}
	if err := json.Unmarshal(answer, &returned); err != nil || returned.Text != nil {
		return nil, fmt.Errorf("the hook must return an object or null")
	}
	if returned.Value == nil {
		return json.RawMessage("null"), nil
	}
	return returned.Value, nil
}
