package hass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Run connects to the home and mirrors it until ctx ends. It reconnects after growing pauses, but
// never after Home Assistant has refused the token.
func (c *Client) Run(ctx context.Context) error {
	if errors.Is(c.Err(), ErrToken) { // refused in an earlier run
		<-ctx.Done()
		return ctx.Err()
	}
	pause := c.times.minPause
	for ctx.Err() == nil {
		loaded, err := c.connect(ctx)
		if ctx.Err() != nil {
			break
		}
		c.setErr(err)
		if errors.Is(err, ErrToken) {
			c.config.Log.Error("Home Assistant rejected the access token", "url", c.base.Redacted())
			close(c.refused)
			<-ctx.Done()
			break
		}
		if loaded {
			pause = c.times.minPause
		}
		c.config.Log.Warn("disconnected from Home Assistant", "url", c.base.Redacted(), "error", err, "retry", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)): //nolint:gosec // a pause need not be secret
		}
		pause = min(2*pause, c.times.maxPause)
	}
	return ctx.Err()
}

// connect maintains one connection until it is lost. It reports whether the home was loaded.
func (c *Client) connect(ctx context.Context) (loaded bool, err error) {
	s, err := c.dial(ctx)
	if err != nil {
		return false, err
	}
	var alive sync.WaitGroup
	defer alive.Wait()
	defer close(s.closed)
	defer func() { _ = s.conn.CloseNow() }()
	alive.Go(func() { s.keepAlive(ctx, c.times.ping) })

	m := newMirror(c, s)
	defer c.session.CompareAndSwap(s, nil)
	if err := m.start(ctx); err != nil {
		return false, err
	}
	for m.err == nil {
		if err := s.read(ctx, c.times.silence); err != nil {
			return m.loaded(), err
		}
		if m.loaded() {
			c.heard.Store(c.config.Now().UnixNano())
		}
	}
	return m.loaded(), m.err
}

// mirror is the home's content during one connection. Only the reading goroutine uses it.
type mirror struct {
	client  *Client
	session *session

	registries registries
	states     map[string]*State
	missing    map[string]bool // parts that are not loaded yet: registries and statesPart
	reload     map[string]reloadState
	err        error // if set, ends the connection
}

const statesPart = "states"

func newMirror(c *Client, s *session) *mirror {
	m := &mirror{client: c, session: s, states: make(map[string]*State), missing: map[string]bool{statesPart: true}, reload: make(map[string]reloadState)}
	for _, name := range registryNames {
		m.missing[name] = true
	}
	return m
}

func (m *mirror) loaded() bool { return len(m.missing) == 0 }

// reloadState tracks the reloading of a registry.
type reloadState struct{ running, again bool }

// start requests all registries and states.
func (m *mirror) start(ctx context.Context) error {
	for _, name := range registryNames {
		// A home may refuse the subscription. In that case, the registry is loaded only once.
		if err := m.session.subscribe(ctx, "subscribe_events", map[string]any{"event_type": name + "_registry_updated"}, nil, func(message) {
			m.loadRegistry(ctx, name)
		}); err != nil {
			return err
		}
	}
	for _, name := range registryNames {
		m.loadRegistry(ctx, name)
	}
	if m.err != nil {
		return m.err
	}
	return m.session.subscribe(ctx, "subscribe_entities", nil, func(answer message) {
		if !answer.Success {
			m.fail(answer.Error)
		}
	}, m.applyStates)
}

func (m *mirror) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

// loadRegistry requests a registry. If a request is pending, it records that another one must
// follow.
func (m *mirror) loadRegistry(ctx context.Context, name string) {
	state := m.reload[name]
	if state.running {
		m.reload[name] = reloadState{running: true, again: true}
		return
	}
	m.reload[name] = reloadState{running: true}
	_, err := m.session.send(ctx, "config/"+name+"_registry/list", nil, func(answer message) {
		again := m.reload[name].again
		m.reload[name] = reloadState{}
		m.setRegistry(name, answer)
		if again {
			m.loadRegistry(ctx, name)
		}
	})
	if err != nil {
		m.fail(err)
	}
}

func (m *mirror) setRegistry(name string, answer message) {
	if !answer.Success {
		if !isOptional(name) || answer.Error.Code != CodeUnknownCommand {
			m.fail(fmt.Errorf("%s registry: %w", name, answer.Error))
			return
		}
		answer.Result = json.RawMessage("[]")
	}
	if err := m.registries.load(name, answer.Result); err != nil {
		m.fail(err)
		return
	}
	delete(m.missing, name)
	m.publish(nil)
}

func (m *mirror) applyStates(event message) {
	e, err := parseEntities(event.Event)
	if err != nil {
		m.fail(err)
		return
	}
	first := m.missing[statesPart]
	delete(m.missing, statesPart)
	changed, structure, err := e.apply(m.states)
	switch {
	case err != nil:
		m.fail(err)
	case structure || first:
		m.publish(nil)
	case len(changed) > 0:
		m.publish(changed)
	}
}

// publish replaces the snapshot once everything is loaded. If changed is not nil, only these
// entities' states differ.
func (m *mirror) publish(changed []string) {
	if !m.loaded() {
		return
	}
	c := m.client
	old := c.snapshot.Load()
	connected := c.session.Load() == m.session
	var next *Snapshot
	if changed != nil && connected {
		next = old.withStates(changed, m.states)
	} else {
		changed, next = nil, newSnapshot(&m.registries, m.states)
		next.session = m.session
	}
	c.heard.Store(c.config.Now().UnixNano())
	c.session.Store(m.session)
	c.snapshot.Store(next)
	if !connected {
		c.setErr(nil)
		c.config.Log.Info("connected to Home Assistant", "url", c.base.Redacted(), "entities", len(next.entities))
	}
	if old == nil {
		close(c.loaded)
	} else {
		close(old.replaced)
	}
	c.config.Changed(changed)
}
