package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/toolyard/toolyard/internal/sources/pin"
)

// Pins stores the approved definitions of tools and prompts, and each server's protocol version.
type Pins interface {
	// Pinned returns a server's approved definitions by name; prompts have the name prompts/NAME.
	// It returns nil if nothing has ever been approved.
	Pinned(server string) map[string]json.RawMessage
	// Pin replaces the approved definitions with the result of change. Changes are serialized, even
	// across processes.
	Pin(server string, change func(pinned map[string]json.RawMessage) map[string]json.RawMessage) error
	// Rejections returns the hashes of rejected definitions, keyed like Pinned.
	Rejections(server string) map[string]string
	// SetRejections replaces the rejections with the result of change, like Pin.
	SetRejections(server string, change func(rejected map[string]string) map[string]string) error
	// Protocol returns the protocol version that a server last used, or "".
	Protocol(server string) string
	SetProtocol(server, version string) error
}

// Pinning determines whether definitions need approval before they are offered.
type Pinning string

// The pinning modes. Empty means PinFirst.
const (
	PinFirst   Pinning = "first"   // a server's first listing is approved automatically
	PinApprove Pinning = "approve" // every definition needs an approval
	PinOff     Pinning = "off"     // definitions need no approval
)

// withholdUnapproved withholds definitions that differ from the approved ones. If nothing has ever
// been approved, it approves the listing, unless the operator requires a review first.
func (d *definitions) withholdUnapproved(list []*definition) {
	if d.opts.Pinning == PinOff {
		return
	}
	pinned := d.pinned()
	if pinned == nil && d.opts.Pinning != PinApprove {
		pinned = d.pinFirst(list)
	}
	fix := "Review and approve it: toolyard approve " + d.opts.ID
	for _, def := range list {
		approved, ok := pinned[def.key]
		if def.reason != "" {
			continue
		}
		canonical, err := pin.Canonical(approved)
		if def.unapproved = !ok || err != nil || string(canonical) != string(def.canonical); !def.unapproved {
			def.replaceRaw(approved) // offer the approved bytes
		} else if !ok {
			def.withhold("it is new and has not been approved", fix)
		} else {
			def.withhold("its definition has changed since it was approved: "+changedPaths(canonical, def.canonical), fix)
		}
	}
}

// pinFirst approves a server's first listing, except for rejected definitions, unless another
// process has approved a listing in the meantime.
func (d *definitions) pinFirst(list []*definition) map[string]json.RawMessage {
	first, rejected := make(map[string]json.RawMessage), d.opts.Pins.Rejections(d.opts.ID)
	for _, def := range list {
		if (def.reason == "" || def.unselected) && rejected[def.key] != pin.Hash(def.canonical) {
			first[def.key] = def.raw
		}
	}
	err := d.opts.Pins.Pin(d.opts.ID, func(pinned map[string]json.RawMessage) map[string]json.RawMessage {
		if pinned != nil {
			return pinned
		}
		return first
	})
	if err != nil {
		d.addNotice(fmt.Sprintf("could not save the server's definitions, so after a restart, changed definitions would count as approved: %v", err),
			"Make the configuration folder writable, or commit its .lock file.")
	}
	d.opts.Log.Info("approved the server's initial definitions", "definitions", len(first))
	return d.pinned()
}

// pinned returns the approved definitions. If the pins have disappeared, the last ones still apply:
// while a file is being replaced, the current listing must not count as approved.
func (d *definitions) pinned() map[string]json.RawMessage {
	pinned := d.opts.Pins.Pinned(d.opts.ID)
	d.mu.Lock()
	defer d.mu.Unlock()
	if pinned != nil {
		d.pins = pinned
	}
	return d.pins
}

// approvedListing returns the approved definitions as a listing, so that they can be offered before
// the server has responded.
func (d *definitions) approvedListing() *listing {
	l := &listing{}
	if d.opts.Pinning == PinOff {
		return l
	}
	pinned := d.pinned()
	for _, key := range slices.Sorted(maps.Keys(pinned)) {
		if strings.HasPrefix(key, promptKey) {
			l.prompts = append(l.prompts, pinned[key])
		} else {
			l.tools = append(l.tools, pinned[key])
		}
	}
	return l
}

// markRejected marks the withheld definitions that an operator has rejected.
func (d *definitions) markRejected(list []*definition) {
	if d.opts.Pinning == PinOff {
		return
	}
	rejected := d.opts.Pins.Rejections(d.opts.ID)
	if len(rejected) == 0 {
		return
	}
	hashes := invalidHashes(list)
	for _, def := range list {
		switch {
		case def.unapproved && rejected[def.key] == pin.Hash(def.canonical):
			def.fix = "To approve it anyway: toolyard approve " + d.opts.ID + " " + def.key
		case !def.isInvalid() || rejected[def.key] != hashes[def.key]:
			continue
		}
		def.rejected = true
	}
}

// changedPaths lists where two definitions differ.
func changedPaths(old, now json.RawMessage) string {
	var paths []string
	for _, c := range pin.Diff(old, now) {
		paths = append(paths, c.Path)
	}
	return firstFew(paths)
}

// firstFew joins the first few names and counts the rest.
func firstFew(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
}

// memory stores one server's pins until the process ends.
type memory struct {
	mu       sync.Mutex
	pinned   map[string]json.RawMessage
	rejected map[string]string
	protocol string
}

// Pinned implements Pins.
func (m *memory) Pinned(string) map[string]json.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pinned
}

// Pin implements Pins.
func (m *memory) Pin(_ string, change func(map[string]json.RawMessage) map[string]json.RawMessage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pinned = change(m.pinned)
	return nil
}

// Rejections implements Pins.
func (m *memory) Rejections(string) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rejected
}

// SetRejections implements Pins.
func (m *memory) SetRejections(_ string, change func(map[string]string) map[string]string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rejected = change(m.rejected)
	return nil
}

// Protocol implements Pins.
func (m *memory) Protocol(string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.protocol
}

// SetProtocol implements Pins.
func (m *memory) SetProtocol(_, version string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.protocol = version
	return nil
}
