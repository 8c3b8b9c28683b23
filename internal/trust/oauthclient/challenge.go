package oauthclient

import (
	"net/http"
	"strings"
)

// Limits on challenges.
const (
	maxChallenge  = 8 << 10 // bytes per header
	maxChallenges = 8       // number of headers
	maxScopes     = 100
)

// Challenge is a Bearer challenge that a service sends when it refuses a request.
type Challenge struct {
	ResourceMetadata string   // URL of the service's metadata; may be empty
	Scopes           []string // scopes that the request needs; may be empty
	Error            string   // such as insufficient_scope; empty if the request had no token
}

// InsufficientScope reports whether the request failed because the token lacked scopes.
func (c Challenge) InsufficientScope() bool { return c.Error == "insufficient_scope" }

// ParseChallenge returns the first Bearer challenge in a response.
func ParseChallenge(h http.Header) (c Challenge, ok bool) {
	values := h.Values("WWW-Authenticate")
	for _, text := range values[:min(len(values), maxChallenges)] {
		if len(text) > maxChallenge {
			continue
		}
		r := challengeReader{rest: text}
		for r.next() {
			if !strings.EqualFold(r.scheme, "Bearer") {
				continue
			}
			c = Challenge{ResourceMetadata: r.params["resource_metadata"], Scopes: SplitScopes(r.params["scope"]), Error: r.params["error"]}
			return c, true
		}
	}
	return Challenge{}, false
}

// SplitScopes returns the scopes in a space-separated list. It omits invalid scopes.
func SplitScopes(text string) (scopes []string) {
	for scope := range strings.SplitSeq(text, " ") {
		if scope == "" || strings.ContainsFunc(scope, notInScope) || len(scopes) == maxScopes {
			continue
		}
		scopes = append(scopes, scope)
	}
	return scopes
}

// notInScope reports whether a character is not allowed in scopes by RFC 6749.
func notInScope(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }

// challengeReader splits a WWW-Authenticate header into challenges.
type challengeReader struct {
	rest   string
	scheme string
	params map[string]string // by lower-case name; the first value counts
}

// next reads one challenge. It returns false at the end or at a syntax error.
func (r *challengeReader) next() bool {
	r.rest = strings.TrimLeft(r.rest, " \t,")
	if r.scheme = r.token(); r.scheme == "" {
		return false
	}
	r.params = make(map[string]string)
	if r.rest != "" && r.rest[0] != ' ' && r.rest[0] != ',' {
		return false
	}
	for {
		before := r.rest
		r.rest = strings.TrimLeft(r.rest, " \t,")
		name := r.token()
		value, ok := r.value()
		switch {
		case name == "":
			return true
		case !ok && len(r.params) == 0 && !strings.Contains(before[:len(before)-len(strings.TrimLeft(before, " \t,"))], ","):
			r.skipToken68()
		case !ok: // start of the next scheme
			r.rest = before
			return true
		default:
			if _, seen := r.params[strings.ToLower(name)]; !seen {
				r.params[strings.ToLower(name)] = value
			}
		}
	}
}

// token reads a token as defined by RFC 9110, or returns "".
func (r *challengeReader) token() string {
	end := strings.IndexFunc(r.rest, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
	if end < 0 {
		end = len(r.rest)
	}
	token := r.rest[:end]
	r.rest = r.rest[end:]
	return token
}

// value reads = and a parameter's value. If there is no =, it reads nothing.
func (r *challengeReader) value() (string, bool) {
	after, ok := strings.CutPrefix(strings.TrimLeft(r.rest, " \t"), "=")
	if !ok || after == "" || after[0] == '=' {
		return "", false
	}
	before := r.rest
	if r.rest = strings.TrimLeft(after, " \t"); strings.HasPrefix(r.rest, `"`) {
		return r.quoted()
	}
	value := r.token()
	if value == "" {
		r.rest = before
	}
	return value, value != ""
}

// quoted reads a quoted string.
func (r *challengeReader) quoted() (string, bool) {
	var b strings.Builder
	for i := 1; i < len(r.rest); i++ {
		switch c := r.rest[i]; {
		case c == '"':
			r.rest = r.rest[i+1:]
			return b.String(), true
		case c == '\\' && i+1 < len(r.rest):
			i++
			b.WriteByte(r.rest[i])
		default:
			b.WriteByte(c)
		}
	}
	r.rest = ""
	return "", false
}

// skipToken68 skips the credentials of a scheme that has no parameters.
func (r *challengeReader) skipToken68() {
	end := strings.IndexAny(r.rest, " \t,")
	if end < 0 {
		end = len(r.rest)
	}
	r.rest = r.rest[end:]
}
