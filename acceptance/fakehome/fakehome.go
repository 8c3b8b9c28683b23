// Package fakehome simulates a small house with Home Assistant's WebSocket and REST APIs. Services
// change its states, scripts and scenes run, and it can simulate failures.
//
//	home := fakehome.New(fakehome.Options{})
//	defer home.Close()
//	home.Set("light.kitchen", "on", nil)
package fakehome

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Token is the access token that a home accepts.
const Token = "fake-long-lived-access-token"

// Options configure a home.
type Options struct {
	Address  string           // address to listen on; defaults to a free port on loopback
	Entities int              // number of additional sensors, spread over the areas
	Now      func() time.Time // defaults to time.Now
}

// Home is a running fake.
type Home struct {
	URL string

	http     *http.Server
	now      func() time.Time
	sessions sync.WaitGroup

	mu       sync.Mutex
	world    *world
	clients  map[*session]bool
	faults   faults
	calls    []ServiceCall
	logins   int
	requests []string
	closed   bool
}

// faults are the simulated failures.
type faults struct {
	cut        bool // whether to close the connection instead of sending a message
	cutAfter   int  // number of messages to send before that
	delay      time.Duration
	rejectAuth bool
	padding    int                      // bytes in an extra entity's attributes
	slow       map[string]time.Duration // delay before a service takes effect, by entity; negative for no effect
	service    *failure                 // error for every service call
	hang       bool                     // whether service calls get no response
	deny       map[string]bool          // commands to refuse as unauthorized
	picture    int                      // bytes to add to camera images
}

// ServiceCall is a service call that the home received, directly or from a script.
type ServiceCall struct {
	Domain, Service string
	Data            map[string]any // includes the target
	Nested          bool           // whether a script, a scene or an automation made the call
}

// New starts a home. It panics on failure.
func New(o Options) *Home {
	h, err := Start(o)
	if err != nil {
		panic(err)
	}
	return h
}

// Start starts a home.
func Start(o Options) (*Home, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("fakehome: %w", err)
	}
	h := &Home{URL: "http://" + listener.Addr().String(), now: o.Now, clients: map[*session]bool{}}
	h.world = newWorld(o.Now(), o.Entities)
	h.faults.slow, h.faults.deny = map[string]time.Duration{}, map[string]bool{}
	h.http = &http.Server{Handler: h.handler(), ReadHeaderTimeout: 5 * time.Second}
	h.sessions.Go(func() { _ = h.http.Serve(listener) })
	return h, nil
}

// maxRecorded limits the recorded requests, service calls and state changes, so that a home can run
// for days.
const maxRecorded = 50_000

// appendRecent appends an entry and drops the oldest entries if there are too many.
func appendRecent[T any](list []T, entry T) []T {
	if len(list) >= maxRecorded {
		list = slices.Delete(list, 0, maxRecorded/10)
	}
	return append(list, entry)
}

// Close stops the home and ends its connections.
func (h *Home) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	_ = h.http.Close()
	h.Disconnect()
	h.sessions.Wait()
}

// Disconnect cuts all WebSocket connections.
func (h *Home) Disconnect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.clients {
		s.cut()
	}
}

// Set changes a state and the given attributes. A nil attribute is removed.
func (h *Home) Set(id, state string, attributes map[string]any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(id, state, attributes, newContext(""))
}

// Remove removes an entity from the states.
func (h *Home) Remove(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.world.states, id)
	for s := range h.clients {
		s.entityRemoved(id)
	}
}

// State returns a state and its attributes.
func (h *Home) State(id string) (string, map[string]any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.world.states[id]
	if s == nil {
		return "", nil
	}
	return s.State, maps.Clone(s.Attributes)
}

// States returns all states by entity.
func (h *Home) States() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[string]string, len(h.world.states))
	for id, s := range h.world.states {
		all[id] = s.State
	}
	return all
}

// RenameArea changes an area's name.
func (h *Home) RenameArea(id, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.world.areas {
		if a["area_id"] == id {
			a["name"] = name
		}
	}
	h.fire("area_registry_updated", map[string]any{"action": "update", "area_id": id})
}

// MoveEntity assigns an entity its own area.
func (h *Home) MoveEntity(id, area string) {
	h.EditEntity(id, map[string]any{"area_id": area})
}

// EditEntity changes members of an entity's registry entry.
func (h *Home) EditEntity(id string, members map[string]any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.world.entities {
		if e["entity_id"] == id {
			maps.Copy(e, members)
		}
	}
	h.fire("entity_registry_updated", map[string]any{"action": "update", "entity_id": id})
}

// SetScript adds a script or an automation, or replaces its configuration.
func (h *Home) SetScript(id string, config map[string]any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.world.configs[id] = config
	if h.world.states[id] == nil {
		h.world.addEntity(entity{id: id, name: id, state: "off"}, h.now())
		h.fire("entity_registry_updated", map[string]any{"action": "create", "entity_id": id})
		for s := range h.clients {
			s.entityAdded(h.world.states[id])
		}
	}
}

// Calls returns the service calls that the home received, oldest first.
func (h *Home) Calls() []ServiceCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

// Logins returns how many times a client has tried to authenticate.
func (h *Home) Logins() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.logins
}

// Requests returns the types of the received WebSocket commands and REST requests, oldest first.
func (h *Home) Requests() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}

func (h *Home) change(edit func(*faults)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	edit(&h.faults)
}

// CutAfter makes the home close a connection, once, after sending n messages.
func (h *Home) CutAfter(n int) { h.change(func(f *faults) { f.cut, f.cutAfter = true, n }) }

// Delay delays every message to clients.
func (h *Home) Delay(d time.Duration) { h.change(func(f *faults) { f.delay = d }) }

// RejectAuth determines whether the home refuses every token.
func (h *Home) RejectAuth(reject bool) { h.change(func(f *faults) { f.rejectAuth = reject }) }

// Pad adds an entity whose attributes have this many bytes.
func (h *Home) Pad(bytes int) { h.change(func(f *faults) { f.padding = bytes }) }

// PadPictures adds bytes to camera images.
func (h *Home) PadPictures(bytes int) { h.change(func(f *faults) { f.picture = bytes }) }

// Slow delays the effect of services on an entity. A negative delay means no effect.
func (h *Home) Slow(id string, d time.Duration) { h.change(func(f *faults) { f.slow[id] = d }) }

// FailServices makes every service call fail with one of Home Assistant's error codes. An empty
// code turns this off.
func (h *Home) FailServices(code, message string) {
	h.change(func(f *faults) {
		f.service = nil
		if code != "" {
			f.service = &failure{code, message}
		}
	})
}

// HangServices determines whether the home executes service calls but does not respond.
func (h *Home) HangServices(hang bool) { h.change(func(f *faults) { f.hang = hang }) }

// Deny makes the home refuse a command as unauthorized.
func (h *Home) Deny(command string) { h.change(func(f *faults) { f.deny[command] = true }) }
