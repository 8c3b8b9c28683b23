package accesstoken

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

const (
	skew        = time.Minute    // tolerated clock difference
	maxLifetime = 24 * time.Hour // maximum lifetime of a token
	maxEntries  = 1000           // scopes, groups or audiences per token
	maxSubject  = 1 << 10        // bytes
)

// claims are the token's claims that determine access.
type claims struct {
	subject   string
	audiences []string
	scopes    []string
	groups    []string
	expires   time.Time // including the skew
	profile
}

// profile describes a person for display. It has no effect on access.
type profile struct{ name, email string }

// maxProfile is the maximum length of a name or an e-mail address, in bytes.
const maxProfile = 128

func profileOf(members map[string]json.RawMessage) profile {
	return profile{cmp.Or(profileText(members["name"]), profileText(members["preferred_username"])), profileText(members["email"])}
}

// profileText returns a short printable string, or "".
func profileText(value json.RawMessage) string {
	text, ok := strictjson.String(value)
	if !ok || !validSubject(text) || len(text) > maxProfile {
		return ""
	}
	return text
}

// readClaims reads a verified token's claims and checks those that do not depend on the request.
// Each claim is read only once.
func (i *Issuer) readClaims(u *unverified, now time.Time) (*claims, *refusal) {
	members := maps.Collect(strictjson.Members(u.payload))
	if r := i.checkType(u.typ, members); r != nil {
		return nil, r
	}
	c := &claims{}
	if r := c.readTimes(members, now); r != nil {
		return nil, r
	}
	return c, i.readIdentity(c, u.payload, members)
}

// readIdentity reads a token's subject, resources, scopes and groups.
func (i *Issuer) readIdentity(c *claims, payload json.RawMessage, members map[string]json.RawMessage) (r *refusal) {
	var ok bool
	c.profile = profileOf(members)
	if c.subject, ok = strictjson.String(members[cmp.Or(i.Subject, "sub")]); !ok || !validSubject(c.subject) {
		return refuse(subject, "claim %s is missing or invalid", cmp.Or(i.Subject, "sub"))
	}
	if c.audiences, ok = stringList(members["aud"]); !ok || len(c.audiences) == 0 {
		return refuse(audience, "the audience is missing or invalid")
	}
	if c.scopes, ok = scopesOf(members); !ok {
		return refuse(malformed, "the scopes are invalid")
	}
	c.groups, r = i.readGroups(payload)
	return r
}

// readGroups returns the groups in a token's claims.
func (i *Issuer) readGroups(payload json.RawMessage) ([]string, *refusal) {
	if strictjson.Member(payload, "_claim_names") != nil || isTrue(strictjson.Member(payload, "hasgroups")) {
		return nil, refuse(NoRule, "the token contains a link to the caller's groups instead of the groups themselves; use app roles instead")
	}
	groups, ok := stringList(claimAt(payload, cmp.Or(i.Groups, "groups")))
	if !ok {
		return nil, refuse(NoRule, "claim %s is not a list of strings", cmp.Or(i.Groups, "groups"))
	}
	return groups, nil
}

// checkType refuses tokens that are not access tokens. If an issuer does not mark access tokens,
// they are accepted only if configured, and must not have other marks.
func (i *Issuer) checkType(typ string, members map[string]json.RawMessage) *refusal {
	typ = strings.TrimPrefix(strings.ToLower(typ), "application/")
	if typ == "at+jwt" {
		return nil
	}
	if !i.AnyType {
		return refuse(tokenType, "unsupported token type %q (expected at+jwt); some issuers require tokenType: any", typ)
	}
	if typ != "" && typ != "jwt" {
		return refuse(tokenType, "a token of type %q is not an access token", typ)
	}
	for _, name := range []string{"nonce", "at_hash", "c_hash", "events", "sid"} {
		if _, ok := members[name]; ok && (name != "sid" || members["scope"] == nil && members["scp"] == nil) {
			return refuse(tokenType, "a token with the claim %s is not an access token", name)
		}
	}
	if use, _ := strictjson.String(members["token_use"]); use == "id" {
		return refuse(tokenType, "the token is an ID token")
	}
	if !slices.ContainsFunc([]string{"scope", "scp", "roles", "azp", "appid", "client_id"}, func(name string) bool { return members[name] != nil }) {
		return refuse(tokenType, "the token lacks access token claims such as scope or client_id")
	}
	return nil
}

// readTimes checks that the token is currently valid.
func (c *claims) readTimes(members map[string]json.RawMessage, now time.Time) *refusal {
	expires, ok := timeOf(members["exp"])
	if !ok {
		return refuse(lifetime, "exp is missing or invalid")
	}
	c.expires = expires.Add(skew)
	if !now.Before(c.expires) {
		return refuse(lifetime, "the token expired at %s", expires.UTC().Format(time.RFC3339))
	}
	if expires.Sub(now) > maxLifetime+skew {
		return refuse(lifetime, "the token's lifetime exceeds %v", maxLifetime)
	}
	for _, name := range []string{"nbf", "iat"} {
		value, present := members[name]
		if !present {
			continue
		}
		at, ok := timeOf(value)
		if !ok || at.After(now.Add(skew)) {
			return refuse(lifetime, "%s is invalid or in the future", name)
		}
	}
	return nil
}

func timeOf(value json.RawMessage) (time.Time, bool) {
	var seconds float64
	if len(value) == 0 || value[0] == 'n' || json.Unmarshal(value, &seconds) != nil || seconds < 0 || seconds > math.MaxInt32*100 {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0), true
}

func validSubject(text string) bool {
	return text != "" && len(text) <= maxSubject && text == strings.TrimSpace(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// scopesOf returns the scopes in scope (a string) or scp (a string or a list).
func scopesOf(members map[string]json.RawMessage) ([]string, bool) {
	for _, name := range []string{"scope", "scp"} {
		value, present := members[name]
		if !present {
			continue
		}
		if text, ok := strictjson.String(value); ok {
			scopes := strings.Split(text, " ")
			scopes = slices.DeleteFunc(scopes, func(s string) bool { return s == "" })
			return scopes, len(scopes) <= maxEntries
		}
		return stringList(value)
	}
	return nil, true
}

// stringList returns a claim that is a string or a list of strings. If the claim is missing, the
// list is empty.
func stringList(value json.RawMessage) ([]string, bool) {
	if value == nil {
		return nil, true
	}
	if text, ok := strictjson.String(value); ok {
		return []string{text}, true
	}
	var list []string
	var items []json.RawMessage
	if json.Unmarshal(value, &items) != nil || items == nil || len(items) > maxEntries {
		return nil, false
	}
	for _, item := range items {
		text, ok := strictjson.String(item)
		if !ok {
			return nil, false
		}
		list = append(list, text)
	}
	return list, true
}

// claimAt returns the claim with the given name. If it does not exist and the name contains dots,
// the name is treated as a path.
func claimAt(payload json.RawMessage, name string) json.RawMessage {
	if value := strictjson.Member(payload, name); value != nil {
		return value
	}
	first, rest, nested := strings.Cut(name, ".")
	if !nested {
		return nil
	}
	return claimAt(strictjson.Member(payload, first), rest)
}

func isTrue(value json.RawMessage) bool { return string(value) == "true" || string(value) == `"true"` }

// checkAudience refuses a token that was issued for another resource.
func (i *Issuer) checkAudience(c *claims, resources []string) *refusal {
	accepted := resources
	if len(i.Audiences) > 0 {
		accepted = i.Audiences
	}
	if slices.ContainsFunc(c.audiences, func(a string) bool { return slices.Contains(accepted, a) }) {
		return nil
	}
	return refuse(audience, "the token's audience is %q, but %q is required", c.audiences, accepted)
}
