package accesstoken

import (
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// Person is a person or program identified by an issuer.
type Person struct {
	Issuer  string   `json:"issuer"` // issuer's name in the configuration
	Subject string   `json:"subject"`
	Name    string   `json:"name,omitempty"` // for display only; not an identifier, like the e-mail address
	Email   string   `json:"email,omitempty"`
	Groups  []string `json:"groups,omitempty"`
	Scopes  []string `json:"scopes,omitempty"`
}

// claims returns the claims that determine a person's permissions.
func (p *Person) claims() *claims {
	return &claims{subject: p.Subject, groups: p.Groups, scopes: p.Scopes}
}

// person returns the person that a token identifies.
func (c *claims) person(issuer string) *Person {
	return &Person{Issuer: issuer, Subject: c.subject, Name: c.name, Email: c.email, Groups: c.groups, Scopes: c.scopes}
}

// CallerOf returns the caller for a person, with the permissions that the rules currently grant.
// The error is Unauthenticated if the issuer is no longer configured and PermissionDenied if no
// rule matches.
func (v *Verifier) CallerOf(p *Person) (toolyard.Caller, error) {
	issuer := v.Issuer(p.Issuer)
	if issuer == nil {
		return toolyard.Caller{}, toolyard.Errorf(toolyard.Unauthenticated, "Issuer %s is no longer configured. Sign in again.", p.Issuer)
	}
	caller, r := issuer.caller(p.claims())
	if r != nil {
		return toolyard.Caller{}, publicError(r)
	}
	return caller, nil
}

// Essential returns a copy of a person that contains only the groups and scopes that affect
// permissions.
func (v *Verifier) Essential(p *Person) *Person {
	essential := *p
	issuer := v.Issuer(p.Issuer)
	if issuer == nil {
		return &essential
	}
	essential.Groups = slices.DeleteFunc(slices.Clone(p.Groups), func(group string) bool {
		return !slices.ContainsFunc(issuer.Rules, func(r Rule) bool { return slices.Contains(r.Groups, group) })
	})
	essential.Scopes = slices.DeleteFunc(slices.Clone(p.Scopes), func(scope string) bool { return issuer.Scopes[scope] == nil })
	return &essential
}

// Rights are the rights granted by an issuer's rules.
type Rights struct {
	Gates   []string // * means all
	Write   bool
	Role    string // viewer, operator or empty
	Account string // account that pays; empty means the caller's own
	Rules   []int  // indexes of the matching rules; if empty, nothing is granted
}

// RightsOf returns the rights that the rules grant to members of groups. A token's scopes may
// reduce them.
func (i *Issuer) RightsOf(groups []string) (rights Rights) {
	for n, rule := range i.Rules {
		if !rule.matches(groups) {
			continue
		}
		rights.Rules = append(rights.Rules, n)
		rights.Gates = append(rights.Gates, rule.Gates...)
		rights.Write = rights.Write || rule.Write
		if rights.Role != identity.Operator && rule.Role != "" {
			rights.Role = rule.Role
		}
		if rights.Account == "" {
			rights.Account = rule.Account
		}
	}
	slices.Sort(rights.Gates)
	rights.Gates = slices.Compact(rights.Gates)
	return rights
}
