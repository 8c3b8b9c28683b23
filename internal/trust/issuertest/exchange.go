package issuertest

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
)

// Exchange is the part of an issuer that exchanges tokens.
type Exchange struct {
	Requests atomic.Int64
	respond  atomic.Pointer[func(subject, audience string) (status int, body map[string]any)]
}

// SetExchange replaces the token endpoint's responses to exchanges; nil restores them.
func (i *Issuer) SetExchange(respond func(subject, audience string) (status int, body map[string]any)) {
	if respond == nil {
		i.Exchange.respond.Store(nil)
		return
	}
	i.Exchange.respond.Store(&respond)
}

// Exchanged returns the token that an exchange for a subject and an audience yields. The client's
// own token has an empty subject.
func Exchanged(subject, audience string) string { return "exchanged/" + subject + "/" + audience }

// serveExchange responds to token exchanges and to client credentials.
func (i *Issuer) serveExchange(w http.ResponseWriter, r *http.Request, grant string) {
	if r.PostFormValue("requested_token_type") == assertionType {
		i.serveAssertion(w, r)
		return
	}
	_, secret, _ := r.BasicAuth()
	audience := r.PostFormValue("audience") + r.PostFormValue("resource")
	subject, ok := "", grant == "client_credentials"
	if grant == exchangeGrant {
		i.Exchange.Requests.Add(1)
		subject, ok = subjectOf(r.PostFormValue("subject_token")), r.PostFormValue("subject_token_type") == accessTokens
	}
	status, body := http.StatusOK, map[string]any{
		"access_token": Exchanged(subject, audience), "token_type": "Bearer", "expires_in": 300, "issued_token_type": accessTokens,
	}
	respond := i.Exchange.respond.Load()
	switch {
	case secret != i.Provider.Secret:
		status, body = http.StatusUnauthorized, map[string]any{"error": "invalid_client"}
	case !ok || audience == "":
		status, body = http.StatusBadRequest, map[string]any{"error": "invalid_request"}
	case respond != nil && subject != "":
		status, body = (*respond)(subject, audience)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// subjectOf returns a signed token's subject.
func subjectOf(token string) string {
	var claims struct{ Sub string }
	if parts := strings.Split(token, "."); len(parts) == 3 {
		raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
		_ = json.Unmarshal(raw, &claims)
	}
	return claims.Sub
}
