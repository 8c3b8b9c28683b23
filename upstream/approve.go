package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/pin"
)

// Pending is a tool that is not as it was approved.
type Pending struct {
	Tool     string          // its name, or prompts/ and that of a prompt
	Approved json.RawMessage // nil for a tool that is new
	Offered  json.RawMessage // nil for a tool that is gone, or refused
	Refused  string          // why it cannot be approved; empty if it can
}

// Change is one difference between two definitions; a nil side is absent.
type Change struct {
	Path     string
	Old, New json.RawMessage
}

// Changes are the differences between what was approved and what is offered.
func (p *Pending) Changes() (changes []Change) {
	for _, c := range pin.Diff(p.Approved, p.Offered) {
		changes = append(changes, Change(c))
	}
	return changes
}

// Pending are the tools that differ from what was approved, by name. The server must be up.
func (v *Server) Pending() ([]Pending, error) {
	if !v.Up() {
		return nil, v.unavailable(v.lastError())
	}
	if v.opts.Pinning == PinOff {
		return nil, nil
	}
	pinned := v.opts.Pins.Pinned(v.opts.ID)
	now, refused := v.approvable()
	var list []Pending
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if approved, ok := pinned[name]; !ok || !sameDefinition(approved, now[name]) {
			list = append(list, Pending{Tool: name, Approved: approved, Offered: now[name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		list = append(list, Pending{Tool: name, Approved: pinned[name], Refused: refused[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(pinned)) {
		if now[name] == nil && refused[name] == "" {
			list = append(list, Pending{Tool: name, Approved: pinned[name]})
		}
	}
	return list, nil
}

func sameDefinition(a, b json.RawMessage) bool {
	x, errX := pin.Canonical(a)
	y, errY := pin.Canonical(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// approvable are the definitions of the server that are fit to be approved, and why the
// others are not.
func (v *Server) approvable() (tools map[string]json.RawMessage, refused map[string]string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	tools, refused = make(map[string]json.RawMessage), make(map[string]string)
	for _, o := range v.offered {
		if o.why == "" || o.unwanted || o.unpinned {
			tools[o.key] = o.raw
		} else {
			refused[o.key] = o.why
		}
	}
	return tools, refused
}

// Approve pins the definitions of the given pending tools as they were shown.
func (v *Server) Approve(pending []Pending) error {
	err := v.opts.Pins.Pin(v.opts.ID, func(pinned map[string]json.RawMessage) map[string]json.RawMessage {
		next := make(map[string]json.RawMessage)
		maps.Copy(next, pinned)
		for _, p := range pending {
			switch {
			case p.Refused != "":
			case p.Offered == nil:
				delete(next, p.Tool)
			default:
				next[p.Tool] = p.Offered
			}
		}
		return next
	})
	if err == nil {
		v.Recheck()
	}
	return err
}

// Known are the names of all tools and prompts that the server has shown, offered or not.
func (v *Server) Known() (names []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, o := range v.offered {
		names = append(names, o.key)
	}
	return names
}

// Explain tells what was decided about a tool, also about one that is not offered.
func (v *Server) Explain(tool string) (steps []toolyard.Step) {
	add := func(stops bool, rule, format string, args ...any) {
		steps = append(steps, toolyard.Step{Rule: rule, Text: fmt.Sprintf(format, args...), Stops: stops})
	}
	if v.Up() {
		add(false, "server", "%s is up and speaks %s", v.opts.ID, v.remembered())
	} else {
		steps = append(steps, toolyard.Step{Rule: "server", Text: fmt.Sprintf("%s is down, calls fail: %s", v.opts.ID, oneLine(v.lastError())), Fails: true})
	}
	v.mu.Lock()
	i := slices.IndexFunc(v.offered, func(o *offered) bool { return o.key == tool })
	if i < 0 {
		v.mu.Unlock()
		add(true, "definition", "the server has no tool %s, as far as is known", printable(tool))
		return steps
	}
	o := *v.offered[i]
	v.mu.Unlock()
	defer func() { steps[len(steps)-1].Fix = o.fix }()
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
