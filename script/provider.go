package script

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/jsvm"
)

// Provider provides a kind of context with a TypeScript file. The file's default export takes the
// caller and the as-of time, and returns an object. A Provider is also a [toolyard.Source] that has
// no tools: Run loads the file and follows its changes.
type Provider struct {
	folder  *Folder
	links   func(context.Context, toolyard.Caller) (map[string]string, error)
	fn      atomic.Pointer[function]
	loaded  chan struct{} // closed after the first load
	first   sync.Once
	failing atomic.Bool

	mu      sync.Mutex
	missing bool // whether the file does not exist
}

// function is a provider's default export.
type function struct {
	pool   *jsvm.Pool
	module *jsvm.Module
	shared bool
	reach  *reach
	names  []string // names of the hooks; nil for a provider
}

// NewProvider returns the provider for a kind of context. The file replaces Options.Dir and
// Options.Glob; the grant for "*" applies. links returns the values that a caller has linked; it
// may be nil.
func NewProvider(kind, file string, opts Options, links func(context.Context, toolyard.Caller) (map[string]string, error)) (*Provider, error) {
	opts.Dir, opts.Glob = filepath.Split(file)
	folder, err := New(opts)
	if err != nil {
		return nil, err
	}
	folder.kind = kind
	return &Provider{folder: folder, links: links, loaded: make(chan struct{})}, nil
}

// Run implements [toolyard.Source]. It publishes no tools.
func (p *Provider) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	return p.folder.run(ctx, func(l *loader) {
		var fn *function
		for _, f := range l.files {
			fn = f.provider
		}
		p.fn.Store(fn)
		p.mu.Lock()
		p.missing = len(l.files) == 0
		p.mu.Unlock()
		p.first.Do(func() { close(p.loaded) })
		publish(toolyard.Offer{Problems: p.Problems()})
	})
}

// Problems returns the file's problems.
func (p *Provider) Problems() (problems []toolyard.Problem) {
	p.mu.Lock()
	missing := p.missing
	p.mu.Unlock()
	subject := p.folder.section()
	if missing {
		return []toolyard.Problem{{Source: subject, Subject: subject, Message: "file not found: " + filepath.Join(p.folder.opts.Dir, p.folder.opts.Glob), Fix: "Create it; Toolyard loads it as soon as it exists."}}
	}
	for _, one := range p.folder.Problems() {
		one.Source = subject
		problems = append(problems, one)
	}
	return problems
}

// section returns the configuration section to which the folder's only file belongs.
func (f *Folder) section() string {
	if f.hooks {
		return "agents." + f.kind
	}
	return "context." + f.kind
}

// cacheName separates the caches of different folders, and of different providers in the same folder.
func (f *Folder) cacheName() string {
	if f.kind == "" {
		return f.dir
	}
	return f.dir + "\x00" + f.opts.Glob + "\x00" + f.section()
}

func (l *loader) declareRequest(d *declaration) json.RawMessage {
	if l.folder.hooks {
		return json.RawMessage(`{"declareHooks":true}`)
	}
	if l.folder.kind != "" {
		return json.RawMessage(`{"declareProvider":true}`)
	}
	return d.request()
}

// finishProvider creates the function for a file that provides context.
func (l *loader) finishProvider(f *file, e *entry, said *declared) *file {
	def := said.Tools[0]
	if err := def.check(); err != nil {
		return f.fail(err)
	}
	f.provider = &function{
		pool: l.pool, module: jsvm.NewModule(f.path, e.Code, e.Map), shared: def.Shared, reach: l.folder.reach("*", def.Permissions), names: said.Hooks,
	}
	said.Exports = slices.DeleteFunc(said.Exports, func(name string) bool { return slices.Contains(said.Hooks, name) })
	l.warn(f, said, said.Tools)
	return f
}

// providerCaller is the first argument of a provider's function.
type providerCaller struct {
	ID      string            `json:"id"`
	Account string            `json:"account"`
	Roles   []string          `json:"roles"`
	Links   map[string]string `json:"links"`
}

// Provide implements [toolyard.ContextProvider].
func (p *Provider) Provide(ctx context.Context, caller toolyard.Caller, asOf time.Time) (json.RawMessage, error) {
	select {
	case <-p.loaded:
	case <-ctx.Done():
		return nil, p.unavailable("its script is not loaded yet", ctx.Err())
	}
	fn := p.fn.Load()
	if fn == nil {
		return nil, p.unavailable("its script cannot be loaded", nil)
	}
	request, err := p.request(ctx, caller, asOf)
	if err != nil {
		return nil, p.unavailable("the caller's links cannot be read", err)
	}
	o := &hostAPI{call: &toolyard.Call{Caller: caller, AsOf: asOf}, reach: fn.reach, loads: make(chan struct{}, maxLoads)}
	answer, err := fn.pool.Run(ctx, &jsvm.Run{
		Module: fn.module, Request: request, Now: asOf, Shared: fn.shared, Host: o.answer, Notify: func(string, json.RawMessage) {},
		Log: func(level slog.Level, text string) { p.folder.opts.Log.Log(ctx, level, text, "context", p.folder.kind) }, //nolint:sloglint // the script's own text
	})
	p.report(ctx, err)
	if err != nil {
		return nil, p.unavailable("its script failed", explained(err))
	}
	return p.object(answer)
}

func (p *Provider) request(ctx context.Context, caller toolyard.Caller, asOf time.Time) (json.RawMessage, error) {
	c := providerCaller{Roles: append([]string{}, caller.Roles...), Links: map[string]string{}}
	if caller.Authenticated() {
		c.ID, c.Account = caller.ID, caller.Account
		if p.links != nil {
			links, err := p.links(ctx, caller)
			if err != nil {
				return nil, err
			}
			c.Links = links
		}
	}
	return json.Marshal(map[string]any{"provide": map[string]any{"caller": c, "asOf": asOf.UnixMilli()}})
}

// explained adds the position in the author's file to an exception.
func explained(err error) error {
	if e, ok := errors.AsType[*jsvm.Exception](err); ok {
		return &Thrown{e.Error(), e.Stack, e.File, e.Line, e.Column}
	}
	return err
}

// object returns the object that the function returned. Null and undefined mean that there is no
// data about the caller.
func (p *Provider) object(answer json.RawMessage) (json.RawMessage, error) {
	var returned struct {
		Text  *string
		Value json.RawMessage
	}
	if err := json.Unmarshal(answer, &returned); err != nil {
		return nil, p.unavailable("its script failed", err)
	}
	value := bytes.TrimSpace(returned.Value)
	switch {
	case returned.Text == nil && (len(value) == 0 || string(value) == "null"):
		return nil, toolyard.Errorf(toolyard.NoData, "Context %s has no data for you.", p.folder.kind)
	case returned.Text != nil || value[0] != '{':
		return nil, p.unavailable("its script did not return an object", nil)
	}
	return value, nil
}

func (p *Provider) unavailable(why string, cause error) error {
	return &toolyard.Error{Code: toolyard.Unavailable, Message: fmt.Sprintf("Context %s is unavailable: %s.", p.folder.kind, why), Err: cause}
}

// report logs when the script starts failing and when it recovers.
func (p *Provider) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err == nil:
		if p.failing.Swap(false) {
			p.folder.opts.Log.Info("context provider recovered", "kind", p.folder.kind)
		}
	case !p.failing.Swap(true):
		p.folder.opts.Log.Warn("context provider is failing", "kind", p.folder.kind, "error", explained(err))
	}
}
