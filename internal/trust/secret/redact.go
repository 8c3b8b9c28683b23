package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	minRedacted = 6     // bytes; shorter secrets would hit ordinary words
	minLine     = 16    // bytes of a line of a longer one
	maxKnown    = 1_000 // secrets that are redacted; of more, the oldest have long been replaced
)

// remember adds a secret to what is redacted.
func (v *Vault) remember(s string) {
	if len(s) < minRedacted {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if slices.Contains(v.known, s) {
		return
	}
	v.known = append(v.known, s)
	for line := range strings.Lines(s) { // of a key in several lines each is one
		if line = strings.TrimSpace(line); line != s && len(line) >= minLine {
			v.known = append(v.known, line)
		}
	}
	if over := len(v.known) - maxKnown; over > 0 {
		v.known = v.known[over:]
	}
	known := v.known
	replacer := sync.OnceValue(func() *strings.Replacer { return newReplacer(known) })
	v.replacer.Store(&replacer)
}

// Hide adds a text that is a secret although no reference led to it.
func (v *Vault) Hide(text string) { v.remember(text) }

// Inherit makes the vault redact what another one knows: secrets stay secrets when the
// references to them are gone.
func (v *Vault) Inherit(other *Vault) {
	other.mu.Lock()
	known := other.known
	other.mu.Unlock()
	for _, s := range known {
		v.remember(s)
	}
}

// Redact replaces every secret that was resolved so far, wherever it stands in text, by
// [redacted], also where it is in base64 or escaped for a URL or JSON. Secrets of less than six
// bytes are left: they would hit ordinary words.
func (v *Vault) Redact(text string) string {
	if replacer := v.replacer.Load(); replacer != nil {
		return (*replacer)().Replace(text)
	}
	return text
}

// newReplacer makes what redacts secrets. Where several begin it takes the longest.
func newReplacer(secrets []string) *strings.Replacer {
	var all []string
	for _, s := range secrets {
		all = append(all, spellings(s)...)
	}
	slices.SortFunc(all, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var pairs []string
	for _, s := range slices.Compact(all) {
		pairs = append(pairs, s, Redacted)
	}
	return strings.NewReplacer(pairs...)
}

// spellings are the forms in which a secret may stand in a text.
func spellings(s string) []string {
	forms := []string{s, url.QueryEscape(s), url.PathEscape(s), inner(strconv.Quote(s))}
	for _, plain := range []string{s, "Bearer " + s} {
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
			forms = append(forms, e.EncodeToString([]byte(plain)))
		}
	}
	for _, html := range []bool{true, false} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(html)
		if e.Encode(s) == nil {
			forms = append(forms, inner(strings.TrimSuffix(b.String(), "\n")))
		}
	}
	return forms
}

// inner is a quoted text without its quotes.
func inner(quoted string) string { return quoted[1 : len(quoted)-1] }
