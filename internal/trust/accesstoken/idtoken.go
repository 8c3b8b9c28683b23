package accesstoken

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/trust/outbound"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// nonceReason means that an ID token belongs to another sign-in.
const nonceReason Reason = "NONCE"

// IDToken is an ID token and the values that it must match.
type IDToken struct {
	Issuer      string // name of the issuer that sent it
	Token       string
	AccessToken string // access token sent with it; may be empty
	ClientID    string
	Nonce       string
}

// Describe returns an issuer's metadata. All errors are temporary.
func (v *Verifier) Describe(ctx context.Context, issuer string) (*Metadata, error) {
	s, err := v.source(issuer)
	if err != nil {
		return nil, err
	}
	return s.keys.describe(ctx)
}

// Client returns the HTTP client for an issuer, or nil.
func (v *Verifier) Client(issuer string) *outbound.Client {
	s, err := v.source(issuer)
	if err != nil {
		return nil
	}
	return s.keys.client
}

// Keys returns the state of an issuer's keys.
func (v *Verifier) Keys(issuer string) (state KeyState) {
	if s, err := v.source(issuer); err == nil {
		state = s.keys.state()
	}
	return state
}

// source returns the issuer with the given name.
func (v *Verifier) source(name string) (*source, error) {
	issuer := v.Issuer(name)
	if issuer == nil {
		return nil, refuse(wrongIssuer, "issuer %.64q is not configured", name)
	}
	return v.issuers[issuer.URL], nil
}

// VerifyIDToken returns the person that an ID token identifies, and whether the token lists the
// person's groups. Errors are for operators; see [ReasonOf].
func (v *Verifier) VerifyIDToken(ctx context.Context, t *IDToken) (p *Person, hasGroups bool, err error) {
	s, err := v.source(t.Issuer)
	if err != nil {
		return nil, false, err
	}
	u, r := parse(t.Token)
	switch {
	case r != nil:
		return nil, false, r
	case u.issuer != s.URL:
		return nil, false, refuse(wrongIssuer, "the ID token was issued by %.200q, not %q", u.issuer, s.URL)
	}
	if err := s.checkSignature(ctx, t.Token, u); err != nil {
		return nil, false, err
	}
	members := maps.Collect(strictjson.Members(u.payload))
	c := &claims{profile: profileOf(members)}
	for _, r := range []*refusal{c.readTimes(members, v.now()), checkIDType(u.typ, members), checkRecipient(members, t.ClientID), checkBinding(members, t, u.algorithm)} {
		if r != nil {
			return nil, false, r
		}
	}
	var ok bool
	if c.subject, ok = strictjson.String(members[cmp.Or(s.Subject, "sub")]); !ok || !validSubject(c.subject) {
		return nil, false, refuse(subject, "claim %s is missing or invalid", cmp.Or(s.Subject, "sub"))
	}
	if c.groups, r = s.readGroups(u.payload); r != nil {
		return nil, false, r
	}
	return c.person(s.Name), claimAt(u.payload, cmp.Or(s.Groups, "groups")) != nil, nil
}

// AddUserInfo adds the groups and profile from the UserInfo endpoint, because some issuers do not
// include them in ID tokens. The response must be about the same person.
func (v *Verifier) AddUserInfo(p *Person, idToken string, response json.RawMessage) error {
	s, err := v.source(p.Issuer)
	if err != nil {
		return err
	}
	u, r := parse(idToken)
	if r != nil {
		return r
	}
	got, ok := strictjson.String(strictjson.Member(response, "sub"))
	if want, _ := strictjson.String(strictjson.Member(u.payload, "sub")); !ok || got != want {
		return refuse(subject, "the UserInfo endpoint returned a different user")
	}
	if p.Groups, r = s.readGroups(response); r != nil {
		return r
	}
	extra := profileOf(maps.Collect(strictjson.Members(response)))
	p.Name, p.Email = cmp.Or(p.Name, extra.name), cmp.Or(p.Email, extra.email)
	return nil
}

// checkIDType refuses tokens that are not ID tokens.
func checkIDType(typ string, members map[string]json.RawMessage) *refusal {
	if typ = strings.ToLower(typ); typ != "" && typ != "jwt" {
		return refuse(tokenType, "a token of type %.40q is not an ID token", typ)
	}
	if _, ok := members["events"]; ok {
		return refuse(tokenType, "the token is a logout token")
	}
	if use, ok := strictjson.String(members["token_use"]); ok && use != "id" {
		return refuse(tokenType, "unsupported token use %.40q", use)
	}
	if members["iat"] == nil {
		return refuse(lifetime, "iat is missing")
	}
	return nil
}

// checkRecipient refuses ID tokens issued to other clients.
func checkRecipient(members map[string]json.RawMessage, client string) *refusal {
	audiences, ok := stringList(members["aud"])
	if !ok || !slices.Contains(audiences, client) {
		return refuse(audience, "the ID token's audience is %.200q, not %q", audiences, client)
	}
	party, present := members["azp"]
	authorized, _ := strictjson.String(party)
	switch {
	case present && authorized != client:
		return refuse(audience, "the ID token's authorized party is %.200q, not %q", authorized, client)
	case !present && len(audiences) > 1:
		return refuse(audience, "the ID token has multiple audiences but no authorized party")
	}
	return nil
}

// checkBinding refuses ID tokens that belong to another sign-in or to another access token.
func checkBinding(members map[string]json.RawMessage, t *IDToken, algorithm string) *refusal {
	nonce, ok := strictjson.String(members["nonce"])
	if !ok || t.Nonce == "" || subtle.ConstantTimeCompare([]byte(nonce), []byte(t.Nonce)) != 1 {
		return refuse(nonceReason, "the ID token belongs to another sign-in")
	}
	value, present := members["at_hash"]
	if !present || t.AccessToken == "" {
		return nil
	}
	if hash, _ := strictjson.String(value); hash != leftHalf(t.AccessToken, algorithm) {
		return refuse(nonceReason, "the ID token belongs to another access token")
	}
	return nil
}

// leftHalf returns the first half of a token's hash, as in at_hash.
func leftHalf(token, algorithm string) string {
	var sum []byte
	switch {
	case strings.HasSuffix(algorithm, "384"):
		hash := sha512.Sum384([]byte(token))
		sum = hash[:]
	case strings.HasSuffix(algorithm, "512"), algorithm == "EdDSA":
		hash := sha512.Sum512([]byte(token))
		sum = hash[:]
	default:
		hash := sha256.Sum256([]byte(token))
		sum = hash[:]
	}
	return base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
}
