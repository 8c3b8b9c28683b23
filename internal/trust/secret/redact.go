package secret

import (
	"bytes"
	"container/list"
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
	maxRecent   = 50    // maximum number of tokens in the replacer of recent tokens
)

// known holds the secrets to redact. A vault shares them with the vault that replaces it.
type known struct {
	mu      sync.Mutex
	list    []string   // oldest first; elements are immutable
	tokens  *list.List // of strings, least recently used first
	token   map[string]*list.Element
	recent  []string // tokens that were added after the base replacer
	current atomic.Pointer[replacers]
}

// replacers replace the secrets that are known at a time. Building a replacer takes time for each
// secret, so a new token is added to a small one, and both are built on first use. Tokens that were
// dropped are redacted until the base is built again.
type replacers struct{ base, recent func() *strings.Replacer }

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
	k.rebuild()
}

// addToken adds a token to redact, or marks it as used.
func (k *known) addToken(s string) {
	if len(s) < minRedacted {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.token[s]; e != nil {
		k.tokens.MoveToBack(e)
		return
	}
	if k.tokens == nil {
		k.tokens, k.token = list.New(), make(map[string]*list.Element)
	}
	if k.token[s] = k.tokens.PushBack(s); k.tokens.Len() > maxTokens {
		delete(k.token, k.tokens.Remove(k.tokens.Front()).(string))
	}
	base := k.current.Load()
	if k.recent = append(k.recent, s); base == nil || len(k.recent) > maxRecent || k.overlaps(s) {
		k.rebuild()
		return
	}
	k.current.Store(&replacers{base.base, lazyReplacer(slices.Clone(k.recent))})
}

// overlaps reports whether a token contains another secret or is part of one. Both must then be in the
// same replacer, which prefers the longest match: otherwise, a part of the longer one could remain.
func (k *known) overlaps(token string) bool {
	overlap := func(other string) bool {
		return other != token && (strings.Contains(token, other) || strings.Contains(other, token))
	}
	for other := range k.token {
		if overlap(other) {
			return true
		}
	}
	return slices.ContainsFunc(k.list, overlap)
}

// rebuild replaces the base replacer by one for all secrets.
func (k *known) rebuild() {
	all := slices.Clone(k.list)
	for s := range k.token {
		all = append(all, s)
	}
	k.recent = nil
	k.current.Store(&replacers{lazyReplacer(all), lazyReplacer(nil)})
}

func lazyReplacer(secrets []string) func() *strings.Replacer {
	return sync.OnceValue(func() *strings.Replacer { return newReplacer(secrets) })
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
	r := v.known.current.Load()
	if r == nil {
		return text
	}
	return r.recent().Replace(r.base().Replace(text))
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
