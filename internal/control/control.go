// Package control implements the operator's view of a running yard: the data that the API, the
// console and the registry show, and the changes that operators can make.
package control

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/upstream"
)

// State is a snapshot of a yard's settings and its upstream servers by ID.
type State struct {
	*settings.Settings
	Upstreams map[string]*upstream.Server
}

// Yard is the running yard that a Control shows and changes.
type Yard interface {
	State() State
	Snapshot() *httpapi.Snapshot
	Offer() catalog.Offer // all tools, with the terms applied
	StoreUp() bool
	// Limits returns the state of limits shared by replicas, by key.
	Limits(ctx context.Context, keys []string) (map[string]ledger.LimitUsage, error)
	SpendLimits(ctx context.Context, periods map[string]ledger.Period) (map[string]ledger.SpendUsage, error)
	// CheckTools returns an error if the settings refer to tools that the yard does not have. It
	// checks this only once the yard is ready.
	CheckTools(s *settings.Settings) error
	Reload() error
	// Identify returns the caller that sent a request.
	Identify(r *http.Request) (toolyard.Caller, error)
	// Authorize returns an error if a caller may not use a gate.
	Authorize(c toolyard.Caller, g *gates.Gate) error
	Packs() []httpapi.PackItem
	// RunAction runs a pack's action for an operator.
	RunAction(ctx context.Context, pack, action string, caller toolyard.Caller, args json.RawMessage) (*toolyard.Result, error)
}

// Options holds the parts of a yard that never change.
type Options struct {
	Version   string // version of the program
	Replica   string
	Started   time.Time
	Arguments string // how much of the arguments is recorded; empty uses the configured level
	Keys      bool   // callers authenticate with API keys from the store

	Store     *store.Store // may be nil
	Loader    *settings.Loader
	Admission *admission.Controller
	MCP       *mcpserver.Server
	Approvals httpapi.Approvals // may be nil
	Now       func() time.Time
}

// Control implements [httpapi.Yard].
type Control struct {
	opts     Options
	yard     Yard
	listings atomic.Pointer[listings]
}

var _ httpapi.Yard = (*Control)(nil)

// New returns a Control for a yard.
func New(yard Yard, o Options) *Control { return &Control{opts: o, yard: yard} }

// About implements [httpapi.Yard].
func (c *Control) About() httpapi.About {
	s := c.yard.State()
	a := httpapi.About{
		Name: s.Name, Version: c.opts.Version, Store: "none", StoreUp: c.yard.StoreUp(), Arguments: c.opts.Arguments,
		Replica: c.opts.Replica, Since: c.opts.Started.UTC(), Keys: c.opts.Keys,
	}
	if a.Arguments == "" {
		a.Arguments = s.Record.Arguments
	}
	if c.opts.Store != nil {
		a.Store = c.opts.Store.Kind()
	}
	return a
}

// Config implements [httpapi.Yard].
func (c *Control) Config() *config.Config { return c.yard.State().Config }

// Snapshot implements [httpapi.Yard].
func (c *Control) Snapshot() *httpapi.Snapshot { return c.yard.Snapshot() }

// Approvals implements [httpapi.Yard].
func (c *Control) Approvals() httpapi.Approvals { return c.opts.Approvals }

// Packs implements [httpapi.Yard].
func (c *Control) Packs() []httpapi.PackItem { return c.yard.Packs() }

// RunAction implements [httpapi.Yard].
func (c *Control) RunAction(ctx context.Context, pack, action string, caller toolyard.Caller, args json.RawMessage) (*toolyard.Result, error) {
	return c.yard.RunAction(ctx, pack, action, caller, args)
}

// Gates returns the current gates.
func (c *Control) Gates() []*gates.Gate { return c.yard.State().Gates }

// GateName returns the gate's name. If name is empty, it is the only gate or the default gate.
func (c *Control) GateName(name string) string {
	if name != "" {
		return name
	}
	if gates := c.opts.MCP.Gates(); len(gates) == 1 {
		return gates[0]
	}
	return config.DefaultGate
}

// View returns a gate's current view.
func (c *Control) View(gate string) (*gates.View, bool) { return c.opts.MCP.View(c.GateName(gate)) }

// Down implements [httpapi.Yard].
func (c *Control) Down() (ids []string) {
	for id, s := range c.yard.State().Upstreams {
		if !s.Up() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Limits implements [httpapi.Yard].
func (c *Control) Limits(ctx context.Context) (limits []httpapi.Limit, err error) {
	s := c.yard.State()
	var keys []string
	index := make(map[string]int)
	add := func(limit admission.LimitRef, listed httpapi.Limit) {
		if _, ok := index[limit.Key]; ok {
			return
		}
		index[limit.Key] = len(limits)
		limits = append(limits, listed)
		if !limit.Local && limit.Limit.Per == "" {
			keys = append(keys, limit.Key)
		}
	}
	for _, g := range s.Gates {
		for _, limit := range s.GateLimits(g.Name) {
			listed := limitOf(limit)
			listed.Kind, listed.Gate = "gate", g.Name
			add(limit, listed)
		}
	}
	for _, t := range c.yard.Snapshot().Tools {
		for _, limit := range s.LimitsOf("", t) {
			listed := limitOf(limit)
			listed.Kind, listed.Server = "server", t.Server
			if strings.HasPrefix(limit.Key, settings.ToolLimitKey(t)) {
				listed.Kind, listed.Tool = "tool", t.Name
			}
			add(limit, listed)
		}
	}
	for key, lane := range c.opts.Admission.Limits() {
		if i, ok := index[settings.LimitKey(key)]; ok {
			limits[i].Waiting, limits[i].Running = limits[i].Waiting+lane.Waiting, limits[i].Running+lane.Running
		}
	}
	shared, err := c.yard.Limits(ctx, keys)
	for key, state := range shared {
		l := &limits[index[key]]
		l.Used, l.Running = state.Used, max(l.Running, state.Running)
		if state.Next.After(c.opts.Now()) {
			l.NextAt = state.Next.UTC()
		}
	}
	if err != nil {
		return limits, err
	}
	spend, err := c.spendLimits(ctx)
	return append(limits, spend...), err
}

// spendLimits returns the spend limits of gates, servers and tools. For limits shared by all
// callers, it includes the usage.
func (c *Control) spendLimits(ctx context.Context) (limits []httpapi.Limit, err error) {
	s := c.yard.State()
	index, shared := make(map[string]int), make(map[string]ledger.Period)
	add := func(l settings.SpendLimit, listed httpapi.Limit) {
		if _, ok := index[l.Key]; ok {
			return
		}
		index[l.Key] = len(limits)
		listed.Name, listed.Per, listed.Period, listed.MaxUSD = l.Name, l.Per, string(l.Period), &l.Max
		unused, _ := ledger.SpendUsed(nil, l.Period, c.opts.Now()) // cannot fail
		listed.RenewsAt = unused.Renews
		limits = append(limits, listed)
		if l.Per == "" {
			shared[l.Key] = l.Period
		}
	}
	for _, g := range s.Gates {
		for _, l := range s.GateSpendLimits(g.Name) {
			add(l, httpapi.Limit{Kind: "gate", Gate: g.Name})
		}
	}
	for _, t := range c.yard.Snapshot().Tools {
		for _, l := range s.SpendLimitsOf("", t) {
			listed := httpapi.Limit{Kind: "server", Server: t.Server}
			if strings.HasPrefix(l.Key, settings.ToolLimitKey(t)+"/") {
				listed.Kind, listed.Tool = "tool", t.Name
			}
			add(l, listed)
		}
	}
	usage, err := c.yard.SpendLimits(ctx, shared)
	for key := range shared {
		used := usage[key].Spent // zero if the limit has never been used
		limits[index[key]].SpentUSD = &used
	}
	return limits, err
}

func limitOf(limit admission.LimitRef) httpapi.Limit {
	return httpapi.Limit{
		Name: limit.Name, PerMinute: limit.Limit.PerMinute, Concurrency: limit.Limit.Concurrency,
		CooldownMs: limit.Limit.Cooldown.Milliseconds(), Per: limit.Limit.Per, Local: limit.Local,
	}
}
