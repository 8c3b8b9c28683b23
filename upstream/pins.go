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

// Pins remembers the definitions of tools and prompts that were approved, and how each
// server was last spoken to.
type Pins interface {
	// Pinned are the definitions of a server that are approved, those of prompts under
	// prompts/ and their names; nil if nothing was ever approved.
	Pinned(server string) map[string]json.RawMessage
	// Pin replaces what is approved by what change makes of it. Changes are made one after
	// the other, also by several processes.
	Pin(server string, change func(pinned map[string]json.RawMessage) map[string]json.RawMessage) error
	// Rejections are the hashes of definitions of a server that a person does not want, by
	// the same names.
	Rejections(server string) map[string]string
	// SetRejections replaces what is rejected by what change makes of it, as Pin does.
	SetRejections(server string, change func(rejected map[string]string) map[string]string) error
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

// comparePins withholds everything that is not as it was approved. What a server offers when
// nothing was ever approved of it is approved, unless the operator wants to see it first.
func (v *Server) comparePins(list []*offered) {
	if v.opts.Pinning == PinOff {
		return
	}
	pinned := v.pinned()
	if pinned == nil && v.opts.Pinning != PinApprove {
		pinned = v.pinFirst(list)
	}
	fix := "Look at it and approve it: toolyard approve " + v.opts.ID
	for _, o := range list {
		approved, ok := pinned[o.key]
		if o.why != "" {
			continue
		}
		canonical, err := pin.Canonical(approved)
		if o.unpinned = !ok || err != nil || string(canonical) != string(o.canonical); !o.unpinned {
			o.use(approved) // what was looked at is what is shown
		} else if !ok {
			o.withhold("it is new and not approved", fix)
		} else {
			o.withhold("its definition has changed since it was approved: "+summary(canonical, o.canonical), fix)
		}
	}
}

// pinFirst approves what a server offers first, unless somebody else was faster, or has
// rejected it before.
func (v *Server) pinFirst(list []*offered) map[string]json.RawMessage {
	first, rejected := make(map[string]json.RawMessage), v.opts.Pins.Rejections(v.opts.ID)
	for _, o := range list {
		if (o.why == "" || o.unwanted) && rejected[o.key] != pin.Hash(o.canonical) {
			first[o.key] = o.raw
		}
	}
	err := v.opts.Pins.Pin(v.opts.ID, func(pinned map[string]json.RawMessage) map[string]json.RawMessage {
		if pinned != nil {
			return pinned
		}
		return first
	})
	if err != nil {
		v.note(fmt.Sprintf("what it offers could not be pinned, so that after a restart any change would count as approved: %v", err), "Make the folder of the configuration writable, or commit its .lock file.")
	}
	v.opts.Log.Info("what the server offers first is approved", "definitions", len(first))
	return v.pinned()
}

// pinned are the approved definitions. Pins that were there and are gone still count: a file
// that is being replaced must not make all that is offered just then count as approved.
func (v *Server) pinned() map[string]json.RawMessage {
	pinned := v.opts.Pins.Pinned(v.opts.ID)
	v.mu.Lock()
	defer v.mu.Unlock()
	if pinned != nil {
		v.approved = pinned
	}
	return v.approved
}

// summary says where two definitions differ.
func summary(old, now json.RawMessage) string {
	changes := pin.Diff(old, now)
	var paths []string
	for _, c := range changes {
		paths = append(paths, c.Path)
	}
	return firstFew(paths)
}

// firstFew names some of many.
func firstFew(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
}

// pinnedListing is what was approved, which is offered before the server has said a word.
func (v *Server) pinnedListing() *listing {
	l := &listing{}
	if v.opts.Pinning == PinOff {
		return l
	}
	pinned := v.pinned()
	for _, key := range slices.Sorted(maps.Keys(pinned)) {
		if strings.HasPrefix(key, promptKey) {
			l.prompts = append(l.prompts, pinned[key])
		} else {
			l.tools = append(l.tools, pinned[key])
		}
	}
	return l
}

// memory keeps pins until the end of the process.
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
