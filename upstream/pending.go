package upstream

import (
	"bytes"
	"encoding/json"

	"github.com/toolyard/toolyard/internal/sources/pin"
)

// Pending is a definition that differs from the approved one.
type Pending struct {
	Tool     string          // a tool's name, or prompts/ followed by a prompt's name
	Approved json.RawMessage // nil if the definition is new
	Offered  json.RawMessage // nil if the definition was removed or is invalid
	Refused  string          // why the definition cannot be approved; empty if it can
	Hash     string          // hex SHA-256 of the offered definition, or of the approved one if it was removed
	Rejected bool            // whether an operator has rejected the definition
}

// Kinds of pending definitions.
const (
	KindNew     = "new"
	KindChanged = "changed"
	KindGone    = "gone"
	KindRefused = "refused"
)

// Kind returns how the definition differs from the approved one.
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

// Change is one difference between two definitions. A side is nil if the value is absent.
type Change struct {
	Path     string
	Old, New json.RawMessage
}

// Changes returns the differences between the approved and the offered definition.
func (p *Pending) Changes() (changes []Change) {
	for _, c := range pin.Diff(p.Approved, p.Offered) {
		changes = append(changes, Change(c))
	}
	return changes
}

// hashOf returns the hash of a definition, or "" if it has no canonical form.
func hashOf(raw json.RawMessage) string {
	canonical, err := pin.Canonical(raw)
	if err != nil {
		return ""
	}
	return pin.Hash(canonical)
}

// invalidHashes returns hashes for invalid definitions, by key. Each hash covers all definitions
// with that key.
func invalidHashes(list []*definition) map[string]string {
	raw, hashes := make(map[string][][]byte), make(map[string]string)
	for _, def := range list {
		if def.isInvalid() {
			raw[def.key] = append(raw[def.key], def.raw)
		}
	}
	for key, parts := range raw {
		hashes[key] = pin.Hash(bytes.Join(parts, []byte{'\n'}))
	}
	return hashes
}
