// Package secret resolves secrets by reference when they are needed, passes them in a type that cannot
// be printed, and redacts them from text.
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
// The text is captured by a function, so that reflection, such as fmt on an unexported field, finds
// only an address.
type Text struct {
	reveal func() string
}

// New returns s as a secret.
func New(s string) Text {
	return Text{func() string { return s }}
}

// Reveal returns the plain text. It is the only access to it, so that all uses are easy to find.
func (t Text) Reveal() string {
	if t.reveal == nil {
		return ""
	}
	return t.reveal()
}

// String does not reveal the secret.
func (Text) String() string { return Redacted }

// GoString does not reveal the secret.
func (Text) GoString() string { return Redacted }

// Format never reveals the secret, regardless of the verb.
func (Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// LogValue does not reveal the secret.
func (Text) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalJSON does not reveal the secret.
func (Text) MarshalJSON() ([]byte, error) { return json.Marshal(Redacted) }

// MarshalText does not reveal the secret.
func (Text) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// MarshalBinary does not reveal the secret; gob uses it.
func (Text) MarshalBinary() ([]byte, error) { return []byte(Redacted), nil }

// MarshalYAML does not reveal the secret.
func (Text) MarshalYAML() (any, error) { return Redacted, nil }
