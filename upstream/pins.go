package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/pin"
)

// Pins remembers the definitions of tools that were approved, and how each server was
// last spoken to.
type Pins interface {
	// Pinned are the definitions of a server's approved tools by their names; ok is false
	// for a server of which nothing is known.
	Pinned(server string) (tools map[string]json.RawMessage, ok bool)
	// Pin approves the definitions, in place of all that were approved before.
	Pin(server string, tools map[string]json.RawMessage) error
	// Protocol is the version that a server spoke last, empty if that is not known.
	Protocol(server string) string
	SetProtocol(server, version string) error
}

// Pinning is what it takes for a definition to be offered.
type Pinning string

// The ways of pinning. Empty means PinFirst.
const (
	PinFirst   Pinning = "first"   // what a server offers first counts as approved
	PinApprove Pinning = "approve" // nothing counts as approved by itself
	PinOff     Pinning = "off"     // every definition counts
)

// comparePins withholds every tool that is not as it was approved. What a server offers
// when nothing is known of it yet is approved, unless the operator wants to see it first.
func (v *Server) comparePins(list []*offered) {
	if v.opts.Pinning == PinOff {
		return
	}
	pinned, ok := v.pinned()
	if !ok && v.opts.Pinning != PinApprove {
		if err := v.opts.Pins.Pin(v.opts.ID, definitions(list)); err != nil {
			v.note(fmt.Sprintf("its tools could not be pinned, so that after a restart any change would count as approved: %v", err), "Make the folder of the configuration writable, or commit toolyard.lock.")
		}
		return
	}
	fix := "Look at it and approve it: toolyard approve " + v.opts.ID
	for _, o := range list {
		approved, ok := pinned[o.name]
		if o.why != "" {
			continue
		}
		canonical, err := pin.Canonical(approved)
		if o.unpinned = !ok || err != nil || string(canonical) != string(o.canonical); !o.unpinned {
			o.raw = approved // what was looked at is what is shown
		} else if !ok {
			o.withhold("it is new and not approved", fix)
		} else {
			o.withhold("its definition has changed since it was approved: "+summary(canonical, o.canonical), fix)
		}
	}
}

// pinned are the approved definitions. Pins that were there and are gone still count: a file
// that is being replaced must not make all that is offered just then count as approved.
func (v *Server) pinned() (map[string]json.RawMessage, bool) {
	pinned, ok := v.opts.Pins.Pinned(v.opts.ID)
	v.mu.Lock()
	defer v.mu.Unlock()
	if ok {
		v.approved = pinned
	}
	return v.approved, v.approved != nil
}

// definitions are those that can be approved.
func definitions(list []*offered) map[string]json.RawMessage {
	tools := make(map[string]json.RawMessage)
	for _, o := range list {
		if o.why == "" || o.unwanted {
			tools[o.name] = o.raw
		}
	}
	return tools
}

// summary says where two definitions differ.
func summary(old, now json.RawMessage) string {
	changes := pin.Diff(old, now)
	var paths []string
	for _, c := range changes[:min(3, len(changes))] {
		paths = append(paths, c.Path)
	}
	s := strings.Join(paths, ", ")
	if len(changes) > 3 {
		s += fmt.Sprintf(" and %d more", len(changes)-3)
	}
	return s
}

// pinnedDefinitions are the approved definitions, which are offered before the server has
// said a word.
func (v *Server) pinnedDefinitions() []json.RawMessage {
	if v.opts.Pinning == PinOff {
		return nil
	}
	pinned, _ := v.opts.Pins.Pinned(v.opts.ID)
	list := make([]json.RawMessage, 0, len(pinned))
	for _, name := range slices.Sorted(maps.Keys(pinned)) {
		list = append(list, pinned[name])
	}
	return list
}
