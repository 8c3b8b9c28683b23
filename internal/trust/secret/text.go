// Package secret holds secrets by reference: it reads them when they are needed, hands them on in a
// form that nothing prints, and takes them out of any text that is about to be shown.
package secret

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

// Redacted is what is shown in place of a secret.
const Redacted = "[redacted]"

// Text is a secret. Whatever prints, logs or encodes it shows [redacted]. The zero value is no
// secret.
//
// The text is behind a function: what looks into values by reflection, such as fmt with an
// unexported field, finds an address there and nothing to follow.
type Text struct {
	reveal func() string
}

// New makes a secret of s.
func New(s string) Text {
	return Text{func() string { return s }}
}

// Reveal is the text itself. It is the one way to it, so that all places that need it are easily
// found.
func (t Text) Reveal() string {
	if t.reveal == nil {
		return ""
	}
	return t.reveal()
}

// String shows nothing of the secret.
func (Text) String() string { return Redacted }

// GoString shows nothing of the secret.
func (Text) GoString() string { return Redacted }

// Format shows nothing of the secret, whatever the verb.
func (Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// LogValue shows nothing of the secret.
func (Text) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalJSON shows nothing of the secret.
func (Text) MarshalJSON() ([]byte, error) { return json.Marshal(Redacted) }

// MarshalText shows nothing of the secret.
func (Text) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// MarshalBinary shows nothing of the secret; gob uses it.
func (Text) MarshalBinary() ([]byte, error) { return []byte(Redacted), nil }

// MarshalYAML shows nothing of the secret.
func (Text) MarshalYAML() (any, error) { return Redacted, nil }
