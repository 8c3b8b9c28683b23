package oauthtest

import (
	"crypto/rsa"
	"encoding/json"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// maxAssertionTime is the maximum lifetime of an assertion that the server accepts.
const maxAssertionTime = 10 * time.Minute

// IdentityProvider is an issuer of identity assertions (ID-JAG).
type IdentityProvider struct {
	Issuer string
	Key    func() (key *rsa.PublicKey, id string)
}

// assertion contains the claims of an identity assertion.
type assertion struct {
	Iss, Sub, Aud, Resource, Jti, Scope string
	ClientID                            string `json:"client_id"`
	Exp                                 int64
}

// redeem verifies an assertion. Each assertion is accepted once.
func (s *Server) redeem(text, client, resource string) (*assertion, bool) {
	signed, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil || s.Trusted == nil || signed.Signatures[0].Header.ExtraHeaders[jose.HeaderType] != "oauth-id-jag+jwt" {
		return nil, false
	}
	key, _ := s.Trusted.Key()
	payload, err := signed.Verify(key)
	a := &assertion{}
	if err != nil || json.Unmarshal(payload, a) != nil {
		return nil, false
	}
	left := time.Until(time.Unix(a.Exp, 0))
	ok := a.Iss == s.Trusted.Issuer && a.Aud == s.URL && a.ClientID == client && a.Resource == resource && a.Sub != "" && a.Jti != "" &&
		left > 0 && left <= maxAssertionTime && !s.used[a.Jti]
	s.used[a.Jti] = s.used[a.Jti] || ok
	return a, ok
}
