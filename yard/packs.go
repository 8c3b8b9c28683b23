package yard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/trust/outbound"
	"github.com/toolyard/toolyard/internal/trust/secret"
)

// maxPackResponse limits the size of the HTTP responses that packs receive, in bytes.
const maxPackResponse = 64 << 20

// packHost opens, replaces and closes packs. Only one goroutine at a time may do so.
type packHost struct {
	opts    *Options
	log     *slog.Logger
	journal Journal // shared by all packs
	partial bool    // skip packs whose secrets cannot be read here
	slots   map[string]*packSlot

	stopped chan struct{}
	closing sync.WaitGroup // waits for retire

	mu       sync.Mutex
	retiring []*openPack // no longer in use, but not closed yet; replaced as a whole
}

func newPackHost(opts *Options, log *slog.Logger, j Journal, partial bool) *packHost {
	return &packHost{opts: opts, log: log, journal: j, partial: partial, slots: make(map[string]*packSlot), stopped: make(chan struct{})}
}

// open opens a configuration's packs. Packs whose settings have not changed are taken from old.
func (h *packHost) open(c *config.Source, vault *secret.Vault, old map[string]*openPack) (packs map[string]*openPack, err error) {
	packs = make(map[string]*openPack, len(c.Packs))
	var faults config.Faults
	for _, name := range slices.Sorted(maps.Keys(c.Packs)) {
		p, failed := h.openOne(c, name, vault, old[name])
		if faults = append(faults, failed...); p != nil {
			packs[name] = p
		}
	}
	if len(faults) > 0 {
		h.discard(packs, old)
		return nil, faults
	}
	return packs, nil
}

// discard closes packs that were opened but are not in use.
func (h *packHost) discard(packs, inUse map[string]*openPack) {
	for name, p := range packs {
		if inUse[name] != p {
			p.close(h.stopped)
		}
	}
}

// openOne opens a pack, or returns old if its settings have not changed.
func (h *packHost) openOne(c *config.Source, name string, vault *secret.Vault, old *openPack) (*openPack, config.Faults) {
	registered, ok := h.opts.Packs[name]
	if !ok {
		known := slices.Sorted(maps.Keys(h.opts.Packs))
		message := "unknown pack" + spelling.DidYouMean(name, known)
		fix := "This program includes no packs."
		if len(known) > 0 {
			fix = "Available packs: " + strings.Join(known, ", ") + "."
		}
		return nil, config.Faults{c.At(toolyard.Problem{Subject: "packs." + name, Message: message, Fix: fix}, "packs", name)}
	}
	raw, failed := h.reveal(c, name, vault)
	if len(failed) > 0 {
		if h.partial {
			return nil, nil
		}
		return nil, failed
	}
	raw, issues := complete(registered.Settings, raw)
	for i := range issues {
		issues[i].Message = vault.Redact(issues[i].Message)
	}
	if len(issues) > 0 {
		return nil, c.Located(issues, "packs", name)
	}
	if old != nil && bytes.Equal(old.settings, raw) && reflect.DeepEqual(old.private, c.PrivateNetworks) {
		return old, nil
	}
	p := newOpenPack(name, h.log.With("pack", name))
	p.settings, p.private = raw, c.PrivateNetworks
	p.http = outbound.NewHTTPClient(hostsIn(raw), outbound.Network{Private: config.Prefixes(c.PrivateNetworks)}, outbound.Limits{Body: maxPackResponse})
	source, err := h.callOpen(p, registered.Open)
	if err != nil {
		return nil, packFaults(c, vault, err, "packs", name)
	}
	p.source = source
	if err := p.readActions(); err != nil {
		p.close(h.stopped)
		return nil, packFaults(c, vault, err, "packs", name)
	}
	return p, nil
}

// complete sets the defaults of settings and validates them. A nil schema allows no settings.
func complete(schema *toolyard.Schema, raw json.RawMessage) (json.RawMessage, []toolyard.Issue) {
	if schema == nil {
		schema = noSettings
	}
	completed, issues, err := schema.Complete(context.Background(), raw)
	if err != nil {
		issues = []toolyard.Issue{{Message: err.Error()}}
	}
	return completed, issues
}

var noSettings = toolyard.SchemaFor[struct{}]()

// callOpen calls Open with a deadline. A source that is opened too late is closed.
func (h *packHost) callOpen(p *openPack, open func(context.Context, PackSetup) (toolyard.Source, error)) (toolyard.Source, error) {
	ctx, cancel := context.WithTimeout(context.Background(), packOpenTimeout)
	defer cancel()
	setup := PackSetup{
		Settings: slices.Clone(p.settings), Dir: filepath.Dir(h.opts.ConfigFile), HTTP: p.http, Now: h.opts.Process.Now, Log: p.log,
		Journal: checkedJournal{backend: h.journal, prefix: p.name + "/", now: h.opts.Process.Now},
	}
	type opened struct {
		source toolyard.Source
		err    error
	}
	done := make(chan opened, 1)
	go func() {
		var o opened
		func() {
			defer recoverPack(p.log, &o.err)
			o.source, o.err = open(ctx, setup)
		}()
		if o.err == nil && o.source == nil {
			o.err = errors.New("the pack returned no source")
		}
		done <- o
	}()
	select {
	case o := <-done:
		return o.source, o.err
	case <-ctx.Done():
		go func() {
			if o := <-done; o.source != nil {
				_ = closeSource(o.source, p.log)
			}
		}()
		return nil, fmt.Errorf("the pack did not open within %v", packOpenTimeout)
	}
}

// packFaults locates a pack's error in the configuration.
func packFaults(c *config.Source, vault *secret.Vault, err error, at ...string) config.Faults {
	e, ok := errors.AsType[*toolyard.Error](err)
	if !ok || len(e.Issues) == 0 {
		return config.Faults{c.At(toolyard.Problem{Subject: strings.Join(at, "."), Message: vault.Redact(err.Error())}, at...)}
	}
	issues := slices.Clone(e.Issues)
	for i := range issues {
		issues[i].Message = vault.Redact(issues[i].Message)
		if issues[i].Location == nil && issues[i].Path != "" {
			issues[i].Location = strings.Split(issues[i].Path, ".")
		}
	}
	return c.Located(issues, at...)
}

// reveal returns a pack's settings with secret references replaced. Values whose names suggest a
// secret are redacted too.
func (h *packHost) reveal(c *config.Source, name string, vault *secret.Vault) (json.RawMessage, config.Faults) {
	var value any
	d := json.NewDecoder(bytes.NewReader(c.Packs[name]))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, config.Faults{c.At(toolyard.Problem{Subject: "packs." + name, Message: err.Error()}, "packs", name)}
	}
	var faults config.Faults
	value = replaceStrings(value, nil, func(text string, steps []string) string {
		expanded, isSecret, err := vault.Expand(text)
		if err != nil {
			at := append([]string{"packs", name}, steps...)
			faults = append(faults, c.At(toolyard.Problem{Subject: strings.Join(at, "."), Message: err.Error()}, at...))
			return text
		}
		if !isSecret && len(steps) > 0 && config.LooksSecret(steps[len(steps)-1]) {
			vault.Hide(expanded.Reveal())
		}
		return expanded.Reveal()
	})
	if len(faults) > 0 {
		return nil, faults
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, config.Faults{c.At(toolyard.Problem{Subject: "packs." + name, Message: err.Error()}, "packs", name)}
	}
	return raw, nil
}

// replaceStrings replaces the strings in a JSON value, in a fixed order.
func replaceStrings(value any, steps []string, replace func(text string, steps []string) string) any {
	switch v := value.(type) {
	case string:
		return replace(v, steps)
	case []any:
		for i := range v {
			v[i] = replaceStrings(v[i], append(slices.Clip(steps), strconv.Itoa(i)), replace)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			v[key] = replaceStrings(v[key], append(slices.Clip(steps), key), replace)
		}
	}
	return value
}

// hostsIn returns the hosts of the URLs in the settings, with their ports. The operator chose them,
// so their addresses need not be public.
func hostsIn(settings json.RawMessage) (hosts []string) {
	var value any
	_ = json.Unmarshal(settings, &value) // cannot fail: the settings are validated
	replaceStrings(value, nil, func(text string, _ []string) string {
		u, err := url.Parse(text)
		port, ok := map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443"}[schemeOf(u)]
		if err == nil && ok && u.Hostname() != "" {
			if u.Port() != "" {
				port = u.Port()
			}
			hosts = append(hosts, net.JoinHostPort(u.Hostname(), port))
		}
		return text
	})
	return hosts
}

func schemeOf(u *url.URL) string {
	if u == nil {
		return ""
	}
	return strings.ToLower(u.Scheme)
}

// use makes an assembly's packs the current ones, and removes the slots of all others.
func (h *packHost) use(packs map[string]*openPack) {
	for name, p := range packs {
		h.slot(name).use(p)
	}
	maps.DeleteFunc(h.slots, func(name string, _ *packSlot) bool { return packs[name] == nil })
}

// slot returns a pack's slot, which is its source in the catalog.
func (h *packHost) slot(name string) *packSlot {
	if h.slots[name] == nil {
		h.slots[name] = &packSlot{}
	}
	return h.slots[name]
}

// leave marks packs that the next assembly does not use. Calls can still use them until they are
// retired.
func (h *packHost) leave(old, next map[string]*openPack) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, p := range old {
		if next[name] != p {
			h.retiring = append(slices.Clip(h.retiring), p)
		}
	}
}

// leaving returns the packs whose tools may still be listed although they are not in use.
func (h *packHost) leaving() []*openPack {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.retiring
}

// retire closes packs that are no longer in use once their successors have published their tools
// and the calls in flight have ended. publish publishes the sources' current offers.
func (h *packHost) retire(old, next map[string]*openPack, publish func()) {
	for name, p := range old {
		if next[name] == p {
			continue
		}
		h.closing.Go(func() {
			if successor := next[name]; successor != nil {
				h.wait(successor.offered, packOfferTimeout)
			}
			publish()
			h.wait(nil, packGrace)
			p.close(h.stopped)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.retiring = slices.DeleteFunc(slices.Clone(h.retiring), func(q *openPack) bool { return q == p })
		})
	}
}

// wait waits for an event or until the yard is closed.
func (h *packHost) wait(event <-chan struct{}, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-event:
	case <-timer.C:
	case <-h.stopped:
	}
}

// close closes all packs.
func (h *packHost) close(packs map[string]*openPack) {
	close(h.stopped)
	h.closing.Wait()
	h.discard(packs, nil)
}

// lend sets the gates' lenders: the program's clients and those that packs lend. old contains the
// packs of the previous assembly.
func (h *packHost) lend(s *settings.Settings, packs, old map[string]*openPack, vault *secret.Vault) error {
	faults := notEnabled(s)
	if len(faults) > 0 {
		return faults
	}
	if len(packs)+len(old) == 0 {
		return nil
	}
	for _, g := range s.Gates {
		lender := &gateLender{host: h}
		var lent []*toolyard.Clients
		for _, name := range slices.Sorted(maps.Keys(packs)) {
			clients, failed := h.lendTo(s, g, packs[name], vault)
			faults = append(faults, failed...)
			lent, lender.packs = append(lent, clients), append(lender.packs, packs[name])
		}
		var err error
		if lender.clients, err = h.opts.Clients.Join(lent...); err != nil {
			faults = append(faults, s.At(toolyard.Problem{Subject: "gates." + g.Name, Message: err.Error()}, "gates", g.Name))
		}
		g.Lender = lender
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// notEnabled finds packs that have gate settings but are not enabled.
func notEnabled(s *settings.Settings) (faults config.Faults) {
	enabled := slices.Sorted(maps.Keys(s.Packs))
	for _, gate := range slices.Sorted(maps.Keys(s.Config.Gates)) {
		for _, name := range slices.Sorted(maps.Keys(s.Config.Gates[gate].Packs)) {
			if !slices.Contains(enabled, name) {
				faults = append(faults, s.At(toolyard.Problem{
					Subject: "gates." + gate + ".packs." + name, Message: "the pack is not enabled" + spelling.DidYouMean(name, enabled), Fix: "Add it under packs.",
				}, "gates", gate, "packs", name))
			}
		}
	}
	return faults
}

// lendTo returns the clients that a pack lends to a gate.
func (h *packHost) lendTo(s *settings.Settings, g *gates.Gate, p *openPack, vault *secret.Vault) (*toolyard.Clients, config.Faults) {
	at := []string{"gates", g.Name, "packs", p.name}
	gate := PackGate{Name: g.Name, Mode: g.Mode, CallerClock: g.CallerClock}
	if raw, ok := s.Config.Gates[g.Name].Packs[p.name]; ok {
		schema := h.opts.Packs[p.name].GateSettings
		if schema == nil {
			return nil, config.Faults{s.At(toolyard.Problem{Subject: strings.Join(at, "."), Message: "the pack has no gate settings", Fix: "Remove the key."}, at...)}
		}
		var issues []toolyard.Issue
		if gate.Settings, issues = complete(schema, json.RawMessage(raw)); len(issues) > 0 {
			return nil, s.Located(issues, at...)
		}
	}
	l, ok := p.source.(Lender)
	if !ok {
		return nil, nil
	}
	clients, err := callLend(l, gate, p.log)
	if err != nil {
		return nil, packFaults(s.Source, vault, err, at...)
	}
	return clients, nil
}

func callLend(l Lender, gate PackGate, log *slog.Logger) (clients *toolyard.Clients, err error) {
	defer recoverPack(log, &err)
	return l.Lend(gate)
}

// errReloaded is returned for a call to a pack that was replaced after the tool was looked up.
var errReloaded = &toolyard.Error{Code: toolyard.Unavailable, Message: "The configuration was reloaded. Repeat the call.", RetryAfter: time.Second}

// gateLender lends clients to a gate's calls, and keeps packs open during calls.
type gateLender struct {
	host    *packHost
	clients *toolyard.Clients
	packs   []*openPack
}

// Lend implements [gates.Lender].
func (l *gateLender) Lend() (*toolyard.Clients, func(), error) {
	held := make([]*openPack, 0, len(l.packs))
	release := func() {
		for _, p := range held {
			p.release()
		}
	}
	for _, p := range l.host.leaving() { // tools of these packs may still be listed
		if p.acquire() {
			held = append(held, p)
		}
	}
	for _, p := range l.packs {
		if !p.acquire() {
			release()
			return nil, nil, errReloaded
		}
		held = append(held, p)
	}
	return l.clients, release, nil
}
