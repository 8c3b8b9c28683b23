// Package secret resolves references to secrets when they are needed, passes secrets in a type that
// cannot be printed, and redacts them from text.
package secret

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

// Redacted replaces secrets in text.
const Redacted = "[redacted]"

// Text is a secret. Printing, logging or encoding it yields [redacted]. The zero value is empty.
//
// The text is captured by a function, so that reflection, for example by fmt on an unexported
// field, finds only an address.
type Text struct {
	reveal func() string
}

// New returns s as a secret.
func New(s string) Text {
	return Text{func() string { return s }}
}

// Reveal returns the plain text. There is no other way to access it, so all uses are easy to find.
func (t Text) Reveal() string {
	if t.reveal == nil {
		return ""
	}
	return t.reveal()
}

// String returns [Redacted].
func (Text) String() string { return Redacted }

// GoString returns [Redacted].
func (Text) GoString() string { return Redacted }

// Format writes [Redacted], regardless of the verb.
func (Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// LogValue returns [Redacted].
func (Text) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalJSON encodes [Redacted].
func (Text) MarshalJSON() ([]byte, error) { return json.Marshal(Redacted) }

// MarshalText returns [Redacted].
func (Text) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// MarshalBinary returns [Redacted]. It is used by gob.
func (Text) MarshalBinary() ([]byte, error) { return []byte(Redacted), nil }

// MarshalYAML returns [Redacted].
func (Text) MarshalYAML() (any, error) { return Redacted, nil }
