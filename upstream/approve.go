package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/pin"
)

// Pending is a tool that is not as it was approved.
type Pending struct {
	Tool     string
	Approved json.RawMessage // nil for a tool that is new
	Offered  json.RawMessage // nil for a tool that is gone
}

// Change is one difference between two definitions; a nil side is absent.
type Change struct {
	Path     string
	Old, New json.RawMessage
}

// Changes are the differences between what was approved and what is offered.
func (p *Pending) Changes() (changes []Change) {
	old, _ := pin.Canonical(p.Approved)
	now, _ := pin.Canonical(p.Offered)
	for _, c := range pin.Diff(old, now) {
		changes = append(changes, Change(c))
	}
	return changes
}

// Pending are the tools that differ from what was approved, by name. The server must be up.
func (v *Server) Pending() ([]Pending, error) {
	if !v.Up() {
		return nil, v.unavailable(v.lastError())
	}
	pinned, _ := v.opts.Pins.Pinned(v.opts.ID)
	now := v.approvable()
	var list []Pending
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if approved, ok := pinned[name]; !ok || !sameDefinition(approved, now[name]) {
			list = append(list, Pending{name, approved, now[name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pinned)) {
		if _, ok := now[name]; !ok {
			list = append(list, Pending{name, pinned[name], nil})
		}
	}
	return list, nil
}

func sameDefinition(a, b json.RawMessage) bool {
	x, errX := pin.Canonical(a)
	y, errY := pin.Canonical(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// approvable are the definitions of the server that are fit to be approved.
func (v *Server) approvable() map[string]json.RawMessage {
	v.mu.Lock()
	defer v.mu.Unlock()
	tools := make(map[string]json.RawMessage)
	for _, o := range v.offered {
		if o.why == "" || o.unwanted || o.unpinned {
			tools[o.name] = o.raw
		}
	}
	return tools
}

// Approve pins the definitions of the given pending tools as they were shown.
func (v *Server) Approve(pending []Pending) error {
	pinned, _ := v.opts.Pins.Pinned(v.opts.ID)
	pinned = maps.Clone(pinned)
	if pinned == nil {
		pinned = make(map[string]json.RawMessage)
	}
	for _, p := range pending {
		if p.Offered == nil {
			delete(pinned, p.Tool)
		} else {
			pinned[p.Tool] = p.Offered
		}
	}
	if err := v.opts.Pins.Pin(v.opts.ID, pinned); err != nil {
		return err
	}
	v.Recheck()
	return nil
}

// lastError is why the server is down.
func (v *Server) lastError() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state.err == nil {
		return errors.New("it has not started yet")
	}
	return v.state.err
}

// Known implements [toolyard.Explainer].
func (v *Server) Known() (names []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, o := range v.offered {
		names = append(names, o.name)
	}
	return names
}

// Explain implements [toolyard.Explainer].
func (v *Server) Explain(tool string) (steps []toolyard.Step) {
	add := func(stops bool, rule, format string, args ...any) {
		steps = append(steps, toolyard.Step{Rule: rule, Text: fmt.Sprintf(format, args...), Stops: stops})
	}
	if v.Up() {
		add(false, "server", "%s is up and speaks %s", v.opts.ID, v.remembered())
	} else {
		add(false, "server", "%s is down, calls fail: %s", v.opts.ID, oneLine(v.lastError()))
	}
	v.mu.Lock()
	i := slices.IndexFunc(v.offered, func(o *offered) bool { return o.name == tool })
	if i < 0 {
		v.mu.Unlock()
		add(true, "definition", "the server has no tool %s", printable(tool))
		return steps
	}
	o := *v.offered[i]
	v.mu.Unlock()
	switch {
	case o.unwanted:
		add(true, "tools", "%s", o.why)
	case o.unpinned:
		add(false, "definition", "it is sound")
		add(true, "pin", "%s", o.why)
	case o.why != "":
		add(true, "definition", "%s", o.why)
	default:
		add(false, "definition", "it is sound")
		add(false, "pin", "%s", v.pinText())
		add(false, "tools", "%s", map[bool]string{true: "all of the server are wanted", false: "it is named"}[len(v.opts.Tools) == 0])
		add(false, "effects", "%s", v.effectText(&o))
		add(false, "limits", "%v for a call", v.timeout(o.name))
	}
	return steps
}

func (v *Server) pinText() string {
	if v.opts.Pinning == PinOff {
		return "definitions of this server are not pinned"
	}
	return "it is as it was approved"
}

// effectText says why a tool counts as a read or a write.
func (v *Server) effectText(o *offered) string {
	kind := "write"
	if len(v.modes(o)) > 0 {
		kind = "read"
	}
	_, byName := v.opts.Effects[o.name]
	_, byStar := v.opts.Effects["*"]
	switch {
	case byName || byStar:
		return kind + ", by the configuration"
	case v.opts.Trust && kind == "read":
		return "read, by the server's own word, which is trusted"
	}
	return "write, since nobody who is believed says that it only reads"
}

// Settle waits until the server was tried once: it is up then, or it is known why not.
func (v *Server) Settle(ctx context.Context) {
	for {
		v.mu.Lock()
		st := v.state
		v.mu.Unlock()
		if st.session != nil || st.err != nil {
			return
		}
		select {
		case <-st.next:
		case <-ctx.Done():
			return
		}
	}
}
