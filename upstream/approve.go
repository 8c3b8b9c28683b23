package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/sources/pin"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Pending is a tool that is not as it was approved.
type Pending struct {
	Tool     string          // its name, or prompts/ and that of a prompt
	Approved json.RawMessage // nil for a tool that is new
	Offered  json.RawMessage // nil for a tool that is gone, or refused
	Refused  string          // why it cannot be approved; empty if it can
	Hash     string          // of what is offered, or of what was approved if that is gone: SHA-256 in hex
	Rejected bool            // somebody has decided that it stays as it is
}

// The kinds of what is not as it was approved.
const (
	KindNew     = "new"
	KindChanged = "changed"
	KindGone    = "gone"
	KindRefused = "refused"
)

// Kind says in which way it is not as it was approved.
func (p *Pending) Kind() string {
	switch {
	case p.Refused != "":
		return KindRefused
	case p.Offered == nil:
		return KindGone
	case p.Approved == nil:
		return KindNew
	}
	return KindChanged
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
	return v.compare(), nil
}

// compare finds what the server is known to offer and is not as it was approved, by name.
func (v *Server) compare() (list []Pending) {
	if v.opts.Pinning == PinOff {
		return nil
	}
	pinned, rejected := v.opts.Pins.Pinned(v.opts.ID), v.opts.Pins.Rejections(v.opts.ID)
	add := func(p Pending) {
		p.Approved, p.Rejected = pinned[p.Tool], p.Hash != "" && p.Hash == rejected[p.Tool]
		list = append(list, p)
	}
	fit, refused := v.approvable()
	for _, name := range slices.Sorted(maps.Keys(fit)) {
		hash := pin.Hash(fit[name].canonical)
		if approved, ok := pinned[name]; !ok || hashOf(approved) != hash {
			add(Pending{Tool: name, Offered: fit[name].raw, Hash: hash})
		}
	}
	hashes, why := refusedHashes(refused), make(map[string]string)
	for _, o := range refused {
		why[o.key] = o.why
	}
	for _, name := range slices.Sorted(maps.Keys(hashes)) {
		add(Pending{Tool: name, Refused: why[name], Hash: hashes[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(pinned)) {
		if fit[name] == nil && hashes[name] == "" {
			add(Pending{Tool: name, Hash: hashOf(pinned[name])})
		}
	}
	return list
}

// hashOf is the hash of a definition, empty if it has no canonical form.
func hashOf(definition json.RawMessage) string {
	canonical, err := pin.Canonical(definition)
	if err != nil {
		return ""
	}
	return pin.Hash(canonical)
}

// refusedHashes are the hashes of what is not fit to be approved: of its bytes, and of those
// of all if the server has several of one name.
func refusedHashes(list []*offered) map[string]string {
	raw, hashes := make(map[string][][]byte), make(map[string]string)
	for _, o := range list {
		if o.refused() {
			raw[o.key] = append(raw[o.key], o.raw)
		}
	}
	for key, definitions := range raw {
		hashes[key] = pin.Hash(bytes.Join(definitions, []byte{'\n'}))
	}
	return hashes
}

// approvable are the definitions of the server that are fit to be approved, and the others.
func (v *Server) approvable() (fit map[string]*offered, refused []*offered) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fit = make(map[string]*offered)
	for _, o := range v.offered { // which is not changed any more
		if o.refused() {
			refused = append(refused, o)
		} else {
			fit[o.key] = o
		}
	}
	return fit, refused
}

// Approve pins the definitions of the given pending tools as they were shown. Those that
// were rejected are so no more.
func (v *Server) Approve(pending []Pending) error {
	pending = slices.DeleteFunc(slices.Clone(pending), func(p Pending) bool { return p.Refused != "" })
	err := v.opts.Pins.Pin(v.opts.ID, func(pinned map[string]json.RawMessage) map[string]json.RawMessage {
		next := make(map[string]json.RawMessage)
		maps.Copy(next, pinned)
		for _, p := range pending {
			if p.Offered == nil {
				delete(next, p.Tool)
			} else {
				next[p.Tool] = p.Offered
			}
		}
		return next
	})
	if err != nil {
		return err
	}
	err = v.unreject(pending)
	v.Recheck()
	return err
}

// unreject forgets the rejections of tools that were approved.
func (v *Server) unreject(approved []Pending) error {
	rejected := v.opts.Pins.Rejections(v.opts.ID)
	if !slices.ContainsFunc(approved, func(p Pending) bool { return rejected[p.Tool] != "" }) {
		return nil
	}
	return v.opts.Pins.SetRejections(v.opts.ID, func(rejected map[string]string) map[string]string {
		next := maps.Clone(rejected)
		for _, p := range approved {
			delete(next, p.Tool)
		}
		return next
	})
}

// maxRejected is how many bytes the name of something may have that is rejected: it is kept.
const maxRejected = 256

// Reject notes that the given pending tools are not wanted as they were shown: they stay
// withheld, and wait for nobody until they are others.
func (v *Server) Reject(pending []Pending) error {
	if v.opts.Pinning == PinOff {
		return fmt.Errorf("the definitions of %s are not pinned, so none can be rejected; name the tools that are wanted in tools", v.opts.ID)
	}
	for _, p := range pending {
		if p.Hash == "" || len(p.Tool) > maxRejected {
			return fmt.Errorf("%s cannot be rejected: it has no definition, or a name of more than %d bytes", untrusted.Quote(p.Tool), maxRejected)
		}
	}
	err := v.opts.Pins.SetRejections(v.opts.ID, func(rejected map[string]string) map[string]string {
		next := make(map[string]string)
		maps.Copy(next, rejected)
		for _, p := range pending {
			next[p.Tool] = p.Hash
		}
		return next
	})
	if err == nil {
		v.Recheck()
	}
	return err
}

// markRejected notes which of what is withheld somebody does not want.
func (v *Server) markRejected(list []*offered) {
	if v.opts.Pinning == PinOff {
		return
	}
	rejected := v.opts.Pins.Rejections(v.opts.ID)
	if len(rejected) == 0 {
		return
	}
	hashes := refusedHashes(list)
	for _, o := range list {
		switch {
		case o.unpinned && rejected[o.key] == pin.Hash(o.canonical):
			o.fix = "If it is wanted after all: toolyard approve " + v.opts.ID + " " + o.key
		case !o.refused() || rejected[o.key] != hashes[o.key]:
			continue
		}
		o.rejected = true
	}
}

// Hashes are those of the approved definitions, by tool; nil if definitions are not pinned.
func (v *Server) Hashes() map[string]string {
	if v.opts.Pinning == PinOff {
		return nil
	}
	hashes := make(map[string]string)
	for name, definition := range v.pinned() {
		hashes[name] = hashOf(definition)
	}
	return hashes
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
func (v *Server) Explain(tool string) (steps []gates.Step) {
	add := func(stops bool, rule, format string, args ...any) {
		steps = append(steps, gates.Step{Rule: rule, Text: fmt.Sprintf(format, args...), Stops: stops})
	}
	if v.Up() {
		add(false, "server", "%s is up and speaks %s", v.opts.ID, v.remembered())
	} else {
		steps = append(steps, gates.Step{Rule: "server", Text: fmt.Sprintf("%s is down, calls fail: %s", v.opts.ID, oneLine(v.lastError())), Fails: true})
	}
	v.mu.Lock()
	i := slices.IndexFunc(v.offered, func(o *offered) bool { return o.key == tool })
	if i < 0 {
		v.mu.Unlock()
		add(true, "definition", "the server has no tool %s", untrusted.Quote(tool))
		return steps
	}
	o := *v.offered[i]
	v.mu.Unlock()
	defer func() { steps[len(steps)-1].Fix = o.fix }()
	if o.rejected {
		o.why += "; it was rejected"
	}
	switch {
	case o.unwanted:
		add(true, "tools", "%s", o.why)
	case o.unpinned:
		add(false, "definition", "it is valid")
		add(true, "pin", "%s", o.why)
	case o.why != "":
		add(true, "definition", "%s", o.why)
	default:
		add(false, "definition", "it is valid")
		add(false, "pin", "%s", v.pinText())
		add(false, "tools", "%s", map[bool]string{true: "all tools of the server are selected", false: "the configuration names it"}[len(v.opts.Tools) == 0])
		add(false, "effects", "%s", v.effectText(&o))
		add(false, "limits", "%v per call", v.timeout(o.name))
	}
	return steps
}

func (v *Server) pinText() string {
	if v.opts.Pinning == PinOff {
		return "definitions of this server are not pinned"
	}
	return "it matches the approved definition"
}

// effectText says why a tool counts as a read or a write.
func (v *Server) effectText(o *offered) string {
	kind := "write"
	if v.effects(o) == toolyard.ReadOnly {
		kind = "read"
	}
	_, byName := v.opts.Effects[o.name]
	_, byStar := v.opts.Effects["*"]
	switch {
	case byName || byStar:
		return kind + ", as the configuration says"
	case v.opts.Trust && kind == "read":
		return "read, as the server says, which is trusted"
	}
	return "write, since it is not declared read-only"
}
