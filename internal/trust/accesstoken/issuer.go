// Package accesstoken authenticates callers with OAuth access tokens. It verifies JSON Web Tokens
// from configured issuers, or introspects tokens at the issuer, and derives a caller's permissions
// from the claims.
package accesstoken

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// Issuer is an authorization server whose access tokens are accepted.
type Issuer struct {
	Name       string   // prefix of caller IDs
	URL        string   // issuer identifier, exactly as in the iss claim
	Audiences  []string // accepted audiences; empty means the resource's URL
	AnyType    bool     // accepts tokens whose type is not at+jwt
	Algorithms []string // accepted signature algorithms; empty means all [Algorithms]
	Subject    string   // claim that contains the caller's ID; sub if empty
	Groups     string   // claim that contains the caller's groups, or a path to it such as realm_access.roles; groups if empty

	// Scopes maps each token scope to the permissions that require it. A scope never grants
	// permissions; only the rules do.
	Scopes map[string][]string
	Rules  []Rule

	Introspect *Introspection // asks the issuer about every token instead of verifying its signature; may be nil
}

// Algorithms are the supported signature algorithms.
var Algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// Rule grants permissions to callers. All matching rules apply.
type Rule struct {
	Anyone  bool     // matches every caller from the issuer
	Groups  []string // matches callers in any of these groups
	Gates   []string // gates that the caller may use; * means all
	Write   bool     // allows gates with mode write
	Role    string   // viewer, operator or empty
	Account string   // account that pays; empty means the caller's own
}

func (r *Rule) matches(groups []string) bool {
	return r.Anyone || slices.ContainsFunc(r.Groups, func(g string) bool { return slices.Contains(groups, g) })
}

func (r *Rule) rights() (rights []string) {
	for _, gate := range r.Gates {
		rights = append(rights, identity.GateScope(gate))
	}
	if r.Write {
		rights = append(rights, identity.Write)
	}
	if r.Role != "" {
		rights = append(rights, r.Role)
	}
	return rights
}

// caller returns the caller that a verified token identifies. Its permissions are those granted by
// the rules, minus those that require a scope that the token does not have.
func (i *Issuer) caller(c *claims) (toolyard.Caller, *refusal) {
	var rights []string
	account, matched := "", false
	for _, rule := range i.Rules {
		if rule.matches(c.groups) {
			matched = true
			account = cmp.Or(account, rule.Account)
			rights = append(rights, rule.rights()...)
		}
	}
	if !matched {
		return toolyard.Caller{}, refuse(NoRule, "no access rule matches groups %q", c.groups)
	}
	rights = slices.DeleteFunc(rights, func(right string) bool { return !i.scopesAllow(right, c.scopes) })
	id := i.callerID(c.subject)
	// A caller with no gate scope could use all gates, so callers with tokens need a scope for each
	// gate.
	rights = append(rights, identity.NamedGatesOnly, identity.IssuerRole(i.Name))
	slices.Sort(rights)
	return toolyard.Caller{ID: id, Account: cmp.Or(account, id), Roles: slices.Compact(rights)}, nil
}

// scopesAllow reports whether a token's scopes include one that a right requires.
func (i *Issuer) scopesAllow(right string, scopes []string) bool {
	needed := i.ScopesFor(right)
	return len(needed) == 0 || slices.ContainsFunc(needed, func(scope string) bool { return slices.Contains(scopes, scope) })
}

// ScopesFor returns the issuer's scopes that a right requires, sorted. Any of them is sufficient.
func (i *Issuer) ScopesFor(right string) (scopes []string) {
	for scope, rights := range i.Scopes {
		if slices.Contains(rights, right) {
			scopes = append(scopes, scope)
		}
	}
	slices.Sort(scopes)
	return scopes
}

// callerID returns a caller's ID: the issuer's name and the subject. If the subject is not valid in
// an ID, its hash is used instead.
func (i *Issuer) callerID(subject string) string {
	id := i.Name + ":" + subject
	if identity.CheckID(id) == nil {
		return id
	}
	sum := sha256.Sum256([]byte(subject))
	return i.Name + ":" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:26])
}
