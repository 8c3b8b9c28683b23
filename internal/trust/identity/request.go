package identity

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/toolyard/toolyard"
)

// maxToken is the maximum length of the Authorization header's value. Access tokens are longer than
// API keys.
const maxToken = 8<<10 + len("Bearer ")

const tokenFormat = `The Authorization header must consist of "Bearer", one space and an API key or access token.`

// Token returns the token in a request's Authorization header. It refuses tokens in URLs, because
// URLs end up in logs and browser histories. The error is Unauthenticated and never contains the
// token.
func Token(r *http.Request) (token string, present bool, err error) {
	if err := checkQuery(r.URL); err != nil {
		return "", false, err
	}
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return "", false, nil
	}
	if len(values) > 1 {
		return "", true, refusal("Send only one Authorization header.")
	}
	if len(values[0]) > maxToken {
		return "", true, refusal("The Authorization header is longer than %d bytes.", maxToken)
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", true, refusal(tokenFormat)
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return !tokenRune(r) }) {
		return "", true, refusal(tokenFormat)
	}
	return token, true, nil
}

// tokenRune reports whether RFC 6750 allows a character in a token.
func tokenRune(r rune) bool { return urlSafe(r) || strings.ContainsRune(".~+/=", r) }

// IsKey reports whether a token is an API key or an operator token, as opposed to an access token.
func IsKey(token string) bool {
	return strings.HasPrefix(token, mark) || strings.HasPrefix(token, "tyl_")
}

// looksSecret reports whether a string may be a token. The prefix alone is not secret.
func looksSecret(text string) bool {
	rest, ours := strings.CutPrefix(text, mark)
	return ours && strings.Contains(rest, "_") || strings.HasPrefix(text, "tyl_") || isJWT(text)
}

// isJWT reports whether a string looks like a JSON Web Token: it has three parts, and the first one
// encodes a JSON object.
func isJWT(text string) bool { return strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2 }

// checkQuery refuses tokens in a URL: the access_token parameter of RFC 6750, and any value that
// looks like a token. It also refuses malformed queries, which parsers may interpret differently.
func checkQuery(u *url.URL) error {
	if u == nil || u.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return refusal("The query string is malformed.")
	}
	for name, values := range query {
		for _, value := range append(values, name) {
			if strings.EqualFold(name, "access_token") || looksSecret(strings.TrimSpace(value)) {
				return refusal("API keys are not accepted in URLs. Send the key in the Authorization header, and rotate it because it may have been exposed.")
			}
		}
	}
	return nil
}

// Identify returns the caller whose API key is in the request. The error is Unauthenticated, or
// Unavailable if the key cannot be verified.
func (v *Verifier) Identify(r *http.Request) (toolyard.Caller, error) {
	token, present, err := Token(r)
	switch {
	case err != nil:
		return toolyard.Caller{}, err
	case !present:
		return toolyard.Caller{}, refusal("An API key is required. Send it as Authorization: Bearer KEY.")
	}
	return v.Verify(r.Context(), token)
}
