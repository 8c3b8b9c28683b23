package config

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/trust/accesstoken"
)

// Issuer is an authorization server whose access tokens are accepted.
type Issuer struct {
	Issuer     string              `json:"issuer" minLength:"1" doc:"The issuer identifier: an https URL, exactly as it appears in the iss claim of tokens."`
	Audiences  []string            `json:"audiences,omitempty" doc:"Accepted audiences, such as the API's application ID in Entra. The default is the gate's URL."`
	TokenType  string              `json:"tokenType" default:"at+jwt" enum:"at+jwt,any" doc:"The required token type. Some issuers, such as Entra and Keycloak, don't mark access tokens. Set any to accept unmarked tokens as well; tokens that are marked as another type are still rejected."`
	Algorithms []string            `json:"algorithms,omitempty" doc:"Accepted signature algorithms, such as RS256. By default, all RS, PS, ES and EdDSA algorithms are accepted."`
	Subject    string              `json:"subject" default:"sub" minLength:"1" doc:"The claim that contains the caller's ID, such as oid in Entra. The issuer must never reassign an ID."`
	Groups     string              `json:"groups" default:"groups" minLength:"1" doc:"The claim that contains the caller's groups, such as roles, or a path such as realm_access.roles."`
	Scopes     map[string][]string `json:"scopes,omitempty" doc:"Permissions that require a scope in the token, by scope: write, viewer, operator or gate:NAME. A scope alone never grants a permission."`
	Access     []AccessRule        `json:"access" minItems:"1" doc:"Rules that grant permissions. All rules that match a caller apply. A caller that matches no rule is refused."`
	Console    *ConsoleClient      `json:"console,omitempty" doc:"Lets people sign in to the console with this issuer."`
	Introspect *IntrospectClient   `json:"introspect,omitempty" doc:"Validate each token by asking the issuer (RFC 7662), at most every 30 seconds, instead of verifying its signature. Use this for issuers of opaque tokens, or to detect revoked tokens. Only one issuer can have this setting."`
}

// IntrospectClient is this server's registration as a client that may introspect tokens.
type IntrospectClient struct {
	Client    string `json:"client" minLength:"1" doc:"The client ID."`
	SecretRef string `json:"secretRef" minLength:"1" doc:"The client secret: the name of a secret, or a reference: env:NAME, file:path, age:path#key."`
}

// ConsoleClient is the console's registration as a client at an issuer.
type ConsoleClient struct {
	Client    string   `json:"client" minLength:"1" doc:"The client ID. Register the redirect URI URL/console/signin/NAME with the issuer, where URL is the configured url and NAME is the issuer's name in this file."`
	SecretRef string   `json:"secretRef,omitempty" doc:"The client secret: the name of a secret, or a reference: env:NAME, file:path, age:path#key. Omit it for public clients."`
	Scopes    []string `json:"scopes,omitempty" doc:"Scopes to request in addition to openid, profile and email; for example, groups."`
}

// AccessRule grants permissions to an issuer's callers.
type AccessRule struct {
	Anyone  bool     `json:"anyone,omitempty" doc:"Match every caller from this issuer."`
	Groups  []string `json:"groups,omitempty" doc:"Match callers in any of these groups."`
	Gates   []string `json:"gates,omitempty" doc:"Gates that the caller may use; * for all."`
	Write   bool     `json:"write,omitempty" doc:"Allow the caller to use gates with mode write."`
	Role    string   `json:"role,omitempty" enum:"viewer,operator" doc:"The role in the console and the API."`
	Account string   `json:"account,omitempty" minLength:"1" doc:"The account that pays for calls. By default, it is the caller's own account."`
}

// AccessIssuers returns the issuers for token verification. It resolves their secrets with the
// given function.
func (c *Config) AccessIssuers(secret func(ref string) (string, error)) (issuers []accesstoken.Issuer) {
	for _, name := range slices.Sorted(maps.Keys(c.Issuers)) {
		i := c.Issuers[name]
		issuer := accesstoken.Issuer{
			Name: name, URL: i.Issuer, Audiences: i.Audiences, AnyType: i.TokenType == "any", Algorithms: i.Algorithms,
			Subject: i.Subject, Groups: i.Groups, Scopes: i.Scopes,
		}
		for _, r := range i.Access {
			issuer.Rules = append(issuer.Rules, accesstoken.Rule(r))
		}
		if own := i.Introspect; own != nil {
			issuer.Introspect = &accesstoken.Introspection{ClientID: own.Client, Secret: func() (string, error) { return secret(own.SecretRef) }}
		}
		issuers = append(issuers, issuer)
	}
	return issuers
}

// GateIssuers returns the names of the issuers whose tokens a gate accepts.
func (c *Config) GateIssuers(g *Gate) []string {
	switch {
	case !g.AcceptsTokens():
		return nil
	case len(g.Issuers) > 0:
		return g.Issuers
	}
	return slices.Sorted(maps.Keys(c.Issuers))
}

// checkIssuers validates issuers and the gates' references to them.
func (c *Config) checkIssuers(report reportFunc) {
	if len(c.Issuers) > 0 && c.URL == "" {
		report("is required if issuers are configured; for example, https://tools.example.com", "url")
	}
	if u, err := url.Parse(c.URL); c.URL != "" && (err != nil || accesstoken.CheckURL(c.URL) != nil || u.Path != "") {
		report("must be an https URL without a path, such as https://tools.example.com; http is allowed on loopback", "url")
	}
	seen := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(c.Issuers)) {
		c.checkIssuer(name, report)
		if other := seen[c.Issuers[name].Issuer]; other != "" {
			report("is already configured as issuer "+other+": remove one of them", "issuers", name, "issuer")
		}
		seen[c.Issuers[name].Issuer] = name
	}
	c.checkIntrospection(report)
	for name, g := range c.Gates {
		c.checkGateIssuers(name, &g, report)
	}
}

func (c *Config) checkIssuer(name string, report reportFunc) {
	i := c.Issuers[name]
	if !gateName.MatchString(name) {
		report("invalid issuer name: use a-z, 0-9 and -", "issuers", name)
	}
	if err := accesstoken.CheckURL(i.Issuer); err != nil {
		report(err.Error(), "issuers", name, "issuer")
	}
	for n, algorithm := range i.Algorithms {
		if !slices.Contains(accesstoken.Algorithms, algorithm) {
			report("unknown algorithm; use one of "+strings.Join(accesstoken.Algorithms, ", "), "issuers", name, "algorithms", strconv.Itoa(n))
		}
	}
	for scope, rights := range i.Scopes {
		for n, right := range rights {
			gate, isGate := strings.CutPrefix(right, "gate:")
			if isGate && c.Gates[gate].Mode != "" || slices.Contains([]string{"write", "viewer", "operator"}, right) {
				continue
			}
			report("unknown permission; use write, viewer, operator or gate:NAME", "issuers", name, "scopes", scope, strconv.Itoa(n))
		}
	}
	if i.Console != nil {
		c.checkConsole(name, i.Console, report)
	}
	for n, rule := range i.Access {
		at := []string{"issuers", name, "access", strconv.Itoa(n)}
		if rule.Anyone == (len(rule.Groups) > 0) {
			report("set either groups or anyone", at...)
		}
		if len(rule.Gates) == 0 && rule.Role == "" {
			report("grants nothing: set gates or role", at...)
		}
		for m, gate := range rule.Gates {
			if _, ok := c.Gates[gate]; !ok && gate != "*" {
				report("unknown gate"+spelling.DidYouMean(gate, slices.Collect(maps.Keys(c.Gates))), append(at, "gates", strconv.Itoa(m))...)
			}
		}
	}
}

// checkIntrospection checks that there is only one issuer to ask about an opaque token. If a token
// were sent to several issuers, each of them could use it.
func (c *Config) checkIntrospection(report reportFunc) {
	first := ""
	for _, name := range slices.Sorted(maps.Keys(c.Issuers)) {
		i := c.Issuers[name].Introspect
		if i == nil {
			continue
		}
		if first != "" {
			report("cannot also set introspect: "+first+" already does, and an opaque token does not identify its issuer", "issuers", name, "introspect")
		}
		first = name
		c.checkSecret(i.SecretRef, func(message string) { report(message, "issuers", name, "introspect", "secretRef") })
	}
}

func (c *Config) checkConsole(name string, client *ConsoleClient, report reportFunc) {
	if client.SecretRef != "" {
		c.checkSecret(client.SecretRef, func(message string) { report(message, "issuers", name, "console", "secretRef") })
	}
	if slices.Contains(c.Issuers[name].Audiences, client.Client) {
		report("is also an accepted audience: register separate clients for the console and the gates, so that a token for one is not valid for the other", "issuers", name, "console", "client")
	}
	for n, scope := range client.Scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			report("is not a valid scope", "issuers", name, "console", "scopes", strconv.Itoa(n))
		}
	}
}

func (c *Config) checkGateIssuers(name string, g *Gate, report reportFunc) {
	if g.RequiresAuth() && g.AcceptsTokens() && len(c.Issuers) == 0 {
		report("requires an access token issuer: add one under issuers", "gates", name, "callers")
	}
	if len(g.Issuers) > 0 && !g.AcceptsTokens() {
		report("has no effect with callers: keys; set callers to tokens or authenticated", "gates", name, "issuers")
	}
	for n, issuer := range g.Issuers {
		if _, ok := c.Issuers[issuer]; !ok {
			report("unknown issuer"+spelling.DidYouMean(issuer, slices.Collect(maps.Keys(c.Issuers))), "gates", name, "issuers", strconv.Itoa(n))
		}
	}
}
