package secret

import (
	"crypto/rand"
	"strings"
	"testing"
)

// BenchmarkHideToken redacts a line of the log after each new token, with the tokens of 50,000 people.
func BenchmarkHideToken(b *testing.B) {
	tokens := make([]string, 50_000)
	for i := range tokens {
		tokens[i] = "eyJhbGciOiJSUzI1NiJ9." + strings.Repeat(rand.Text(), 12)
	}
	v := &Vault{known: &known{}}
	for _, token := range tokens {
		v.HideToken(token)
	}
	line := strings.Repeat("a line of the log without a secret, ", 6)
	for i := 0; b.Loop(); i++ {
		v.HideToken(tokens[i%len(tokens)])
		v.Redact(line)
	}
}
