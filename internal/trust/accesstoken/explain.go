package accesstoken

import (
	"context"
	"encoding/json"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// Explain returns the caller that a token identifies at a resource, or the reason it is refused.
// The result is meant for operators.
func (v *Verifier) Explain(ctx context.Context, token string, resources []string) (toolyard.Caller, error) {
	t, err := v.verify(ctx, token)
	if err != nil {
		return toolyard.Caller{}, err
	}
	if r := t.issuer.checkAudience(t.claims, resources); r != nil {
		return toolyard.Caller{}, r
	}
	return t.caller, nil
}

// Explanation describes the access that a token's claims give.
type Explanation struct {
	Issuer *Issuer
	Caller toolyard.Caller
	Rights Rights // granted by the rules; the token's scopes may reduce them

	claims *claims
}

// CheckAudience returns the reason if a token with these claims is refused at a resource, or nil.
func (e *Explanation) CheckAudience(resources []string) error {
	if r := e.Issuer.checkAudience(e.claims, resources); r != nil {
		return r
	}
	return nil
}

// ExplainClaims explains a token's claims without the token. It checks neither the signature nor
// the header, so the result is only for operators and gives no access.
func (v *Verifier) ExplainClaims(payload json.RawMessage) (*Explanation, error) {
	if err := strictjson.Check(payload); err != nil || len(payload) == 0 || payload[0] != '{' {
		return nil, refuse(malformed, "the claims must be a JSON object that has no duplicate members")
	}
	name, ok := strictjson.String(strictjson.Member(payload, "iss"))
	s := v.issuers[name]
	switch {
	case !ok:
		return nil, refuse(wrongIssuer, "the claims contain no issuer (iss)")
	case s == nil:
		return nil, refuse(wrongIssuer, "issuer %.200q is not configured", name)
	}
	u := &unverified{issuer: name, typ: "at+jwt", payload: payload}
	if s.AnyType {
		u.typ = "jwt"
	}
	c, r := s.readClaims(u, v.now())
	if r != nil {
		return nil, r
	}
	caller, r := s.caller(c)
	if r != nil {
		return nil, r
	}
	return &Explanation{s.Issuer, caller, s.RightsOf(c.groups), c}, nil
}
