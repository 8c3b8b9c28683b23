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
	"sync/atomic"
)

const (
	minRedacted = 6     // bytes; shorter secrets would match ordinary words
	minLine     = 16    // bytes per line of a multi-line secret
	maxKnown    = 1_000 // maximum number of secrets; beyond that, the oldest are dropped
	maxTokens   = 1_000 // maximum number of tokens; beyond that, the least recently used are dropped
)

// known holds the secrets to redact. A vault shares them with the vault that replaces it.
type known struct {
	mu       sync.Mutex
	list     []string                                 // oldest first; elements are immutable
	tokens   []string                                 // least recently used first; elements are immutable
	replacer atomic.Pointer[func() *strings.Replacer] // nil while there is nothing to redact; built on first use
}

// add adds a secret to redact.
func (k *known) add(s string) {
	if len(s) < minRedacted {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.Contains(k.list, s) {
		return
	}
	k.list = append(k.list, s)
	for line := range strings.Lines(s) { // each line of a multi-line key is a secret
		if line = strings.TrimSpace(line); line != s && len(line) >= minLine {
			k.list = append(k.list, line)
		}
	}
	if over := len(k.list) - maxKnown; over > 0 {
		k.list = k.list[over:]
	}
	k.update()
}

// addToken adds a token to redact, or marks it as used.
func (k *known) addToken(s string) {
	if len(s) < minRedacted {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.Index(k.tokens, s)
	if i >= 0 {
		k.tokens = append(slices.Delete(k.tokens, i, i+1), s)
		return
	}
	if k.tokens = append(k.tokens, s); len(k.tokens) > maxTokens {
		k.tokens = slices.Delete(k.tokens, 0, len(k.tokens)-maxTokens)
	}
	k.update()
}

// update replaces the replacer. The new one is built when it is first needed.
func (k *known) update() {
	all := slices.Concat(k.list, k.tokens)
	replacer := sync.OnceValue(func() *strings.Replacer { return newReplacer(all) })
	k.replacer.Store(&replacer)
}

// HideToken adds a token that is replaced often, such as a person's access token. The tokens of
// many people do not displace other secrets.
func (v *Vault) HideToken(text string) { v.known.addToken(text) }

// Hide adds a secret that was not resolved from a reference.
func (v *Vault) Hide(text string) { v.known.add(text) }

// Redact replaces all secrets resolved so far with [redacted], including their Base64, URL-escaped
// and JSON-escaped forms. Secrets shorter than six bytes are not redacted, because they would match
// ordinary words.
func (v *Vault) Redact(text string) string {
	if replacer := v.known.replacer.Load(); replacer != nil {
		return (*replacer)().Replace(text)
	}
	return text
}

// newReplacer returns a replacer for secrets. It prefers the longest match.
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

// spellings returns the forms of a secret that are redacted.
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

// inner removes the quotes.
func inner(quoted string) string { return quoted[1 : len(quoted)-1] }
