package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/toolyard/toolyard/internal/sources/pin"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// approvals compares definitions with the pins, counts the differences, and applies operators'
// decisions.
type approvals struct {
	*reporter
	definitions *definitions

	updating sync.Mutex               // held by update
	pending  map[string]pendingDigest // definitions pending at the last update

	mu                sync.Mutex
	waiting, rejected int
}

// pendingDigest identifies a pending definition.
type pendingDigest struct {
	hash, kind string
	rejected   bool
}

// sameDefinition reports whether two digests identify the same definition.
func (p pendingDigest) sameDefinition(other pendingDigest) bool {
	return p.hash == other.hash && p.kind == other.kind
}

// compare returns the definitions that differ from the approved ones, sorted by name.
func (a *approvals) compare() (list []Pending) {
	if a.opts.Pinning == PinOff {
		return nil
	}
	pinned, rejected := a.opts.Pins.Pinned(a.opts.ID), a.opts.Pins.Rejections(a.opts.ID)
	add := func(p Pending) {
		p.Approved, p.Rejected = pinned[p.Tool], p.Hash != "" && p.Hash == rejected[p.Tool]
		list = append(list, p)
	}
	valid, invalid := a.definitions.byValidity()
	for _, name := range slices.Sorted(maps.Keys(valid)) {
		hash := pin.Hash(valid[name].canonical)
		if approved, ok := pinned[name]; !ok || hashOf(approved) != hash {
			add(Pending{Tool: name, Offered: valid[name].raw, Hash: hash})
		}
	}
	hashes, reasons := invalidHashes(invalid), make(map[string]string)
	for _, def := range invalid {
		reasons[def.key] = def.reason
	}
	for _, name := range slices.Sorted(maps.Keys(hashes)) {
		add(Pending{Tool: name, Refused: reasons[name], Hash: hashes[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(pinned)) {
		if valid[name] == nil && hashes[name] == "" {
			add(Pending{Tool: name, Hash: hashOf(pinned[name])})
		}
	}
	return list
}

// byValidity splits the definitions into those that can be approved and those that cannot.
func (d *definitions) byValidity() (valid map[string]*definition, invalid []*definition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	valid = make(map[string]*definition)
	for _, def := range d.listed { // definitions are immutable once listed
		if def.isInvalid() {
			invalid = append(invalid, def)
		} else {
			valid[def.key] = def
		}
	}
	return valid, invalid
}

// approve pins pending definitions and clears their rejections.
func (a *approvals) approve(pending []Pending) error {
	pending = slices.DeleteFunc(slices.Clone(pending), func(p Pending) bool { return p.Refused != "" })
	err := a.opts.Pins.Pin(a.opts.ID, func(pinned map[string]json.RawMessage) map[string]json.RawMessage {
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
	return a.clearRejections(pending)
}

func (a *approvals) clearRejections(approved []Pending) error {
	rejected := a.opts.Pins.Rejections(a.opts.ID)
	if !slices.ContainsFunc(approved, func(p Pending) bool { return rejected[p.Tool] != "" }) {
		return nil
	}
	return a.opts.Pins.SetRejections(a.opts.ID, func(rejected map[string]string) map[string]string {
		next := maps.Clone(rejected)
		for _, p := range approved {
			delete(next, p.Tool)
		}
		return next
	})
}

// maxRejectedName limits the length of rejected definitions' names, in bytes, because they are stored.
const maxRejectedName = 256

// reject stores the hashes of rejected definitions.
func (a *approvals) reject(pending []Pending) error {
	if a.opts.Pinning == PinOff {
		return fmt.Errorf("definitions cannot be rejected because %s has pin: off; list the tools you want under tools", a.opts.ID)
	}
	for _, p := range pending {
		if p.Hash == "" || len(p.Tool) > maxRejectedName {
			return fmt.Errorf("%s cannot be rejected: it has no definition, or its name is longer than %d bytes", untrusted.Quote(p.Tool), maxRejectedName)
		}
	}
	return a.opts.Pins.SetRejections(a.opts.ID, func(rejected map[string]string) map[string]string {
		next := make(map[string]string)
		maps.Copy(next, rejected)
		for _, p := range pending {
			next[p.Tool] = p.Hash
		}
		return next
	})
}

func (a *approvals) hashes() map[string]string {
	if a.opts.Pinning == PinOff {
		return nil
	}
	hashes := make(map[string]string)
	for name, raw := range a.definitions.pinned() {
		hashes[name] = hashOf(raw)
	}
	return hashes
}

func (a *approvals) count() (waiting, rejected int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting, a.rejected
}

// update counts the pending definitions and records changes since the last update, including
// decisions made by other processes.
func (a *approvals) update() {
	a.updating.Lock()
	defer a.updating.Unlock()
	if !a.definitions.wasListed() {
		return
	}
	waiting, rejected := 0, 0
	now := make(map[string]pendingDigest)
	for _, p := range a.compare() {
		now[p.Tool] = pendingDigest{p.Hash, p.Kind(), p.Rejected}
		if p.Rejected {
			rejected++
		} else {
			waiting++
		}
	}
	a.recordChanges(a.pending, now)
	a.pending = now
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting, a.rejected = waiting, rejected
}

// recordChanges adds events for the differences between two updates.
func (a *approvals) recordChanges(before, now map[string]pendingDigest) {
	var changed, rejected []string
	for tool, p := range now {
		switch old := before[tool]; {
		case !p.sameDefinition(old) && !p.rejected:
			changed = append(changed, tool)
		case p.sameDefinition(old) && p.rejected && !old.rejected:
			rejected = append(rejected, tool)
		}
	}
	a.recordEvent(EventApproved, "approved", a.approvedSince(before, now))
	a.recordEvent(EventRejected, "rejected", rejected)
	a.recordEvent(EventChanged, "changed since approval", changed)
}

// approvedSince returns the definitions that were pending and have been approved.
func (a *approvals) approvedSince(before, now map[string]pendingDigest) (tools []string) {
	pinned := sync.OnceValue(func() map[string]json.RawMessage { return a.opts.Pins.Pinned(a.opts.ID) })
	for tool, old := range before {
		if now[tool].sameDefinition(old) {
			continue
		}
		switch raw, ok := pinned()[tool]; {
		case old.kind == KindGone && !ok,
			(old.kind == KindNew || old.kind == KindChanged) && ok && hashOf(raw) == old.hash:
			tools = append(tools, tool)
		}
	}
	return tools
}

// recordEvent adds an event for the given definitions, if there are any.
func (a *approvals) recordEvent(kind, verb string, tools []string) {
	if len(tools) == 0 {
		return
	}
	slices.Sort(tools)
	names := make([]string, len(tools))
	for i, tool := range tools {
		names[i] = untrusted.Quote(tool)
	}
	noun := "definitions"
	if len(tools) == 1 {
		noun = "definition"
	}
	a.event(kind, fmt.Sprintf("%d %s %s: %s", len(tools), noun, verb, firstFew(names)))
}
