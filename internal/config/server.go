package config

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/trust/accesstoken"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Server is an upstream MCP server: a program or a URL.
type Server struct {
	Program
	Remote

	Tools     []string                 `json:"tools,omitempty" doc:"The tools to use, by their names on the server. If empty, all tools are used."`
	Resources []string                 `json:"resources,omitempty" doc:"The resources to offer, by URI. A * at the end matches any suffix. If empty, all resources are offered."`
	Effects   map[string]toolyard.Mode `json:"effects,omitempty" doc:"The effects of tools, by name: read or write. Use * for all other tools. A tool whose effects are unknown counts as write."`
	Trust     string                   `json:"trust" default:"none" enum:"none,annotations" doc:"Set annotations to trust the server's read-only annotations."`
	Pin       string                   `json:"pin" default:"first" enum:"first,approve,off" doc:"How tool definitions are approved: first approves the first definition that the server offers, approve requires you to run toolyard approve, and off approves every definition."`
	Required  bool                     `json:"required" default:"false" doc:"Whether /readyz fails while this server is down."`
	Limits    ServerLimits             `json:"limits" default:"{}" doc:"Limits for calls to this server."`
	Timeouts  map[string]Duration      `json:"timeouts,omitempty" doc:"Maximum duration of calls to individual tools, by name."`

	Labels     []string         `json:"labels,omitempty" enum:"private,untrusted,egress" doc:"What data its tools handle: private tools return the caller's data, untrusted tools return text that third parties can write, and egress tools send data out. By default, tools are untrusted unless a trusted annotation declares openWorldHint: false, and tools that write are also egress."`
	Rate       Rates            `json:"rate,omitempty" doc:"Rate limit for all of its tools together, shared by all replicas; or a list of limits for all callers together, each account and each caller."`
	Spend      Spends           `json:"spend,omitempty" doc:"Maximum total price of calls to its tools per day or month; or a list of limits for all callers together, each account and each caller."`
	ExecuteUSD *Price           `json:"executeUsd,omitempty" doc:"The default price of a call to its tools at an execute gate."`
	Terms      map[string]Terms `json:"terms,omitempty" doc:"Limits and prices for its tools, by name."`
}

// Program is a server that runs as a child process.
type Program struct {
	Command string            `json:"command,omitempty" doc:"The program to start. It must speak MCP over standard input and output. It is looked up in PATH, or relative to this file if it contains a slash."`
	Args    []string          `json:"args,omitempty" doc:"Arguments for the program. Don't put secrets here, because every user of the machine can read them."`
	Env     map[string]string `json:"env,omitempty" doc:"Environment variables, in addition to PATH, HOME, LANG, TZ and TMPDIR. Values can contain ${secret:name}."`
	Dir     string            `json:"dir,omitempty" doc:"Working directory, relative to this file."`
}

// Remote is a server reached over HTTP.
type Remote struct {
	URL       string            `json:"url,omitempty" doc:"The server's URL, http or https."`
	Headers   map[string]string `json:"headers,omitempty" doc:"HTTP headers to send with every request. Values can contain ${secret:name}."`
	Auth      *Auth             `json:"auth,omitempty" doc:"How to authenticate to the server."`
	Transport string            `json:"transport,omitempty" enum:"stdio,http,sse" doc:"The transport. You usually don't need this: Toolyard derives it from command or url, and detects servers that support only the old HTTP+SSE transport."`
}

// Auth configures how the yard authenticates to a server.
type Auth struct {
	Type      string      `json:"type" enum:"bearer,client,person,header,exchange,assertion" doc:"How to authenticate. bearer: send a fixed token in the Authorization header. client: get tokens from the server's authorization server with the OAuth client credentials grant. person: call the server on behalf of each caller, who signs in there with OAuth. header: send a key that each person enters. exchange: call the server on behalf of each caller, with a token that the caller's issuer provides in exchange for the caller's access token. assertion: like exchange, but with a token that the server's authorization server provides in exchange for an identity assertion (ID-JAG) from the caller's issuer."`
	SecretRef string      `json:"secretRef,omitempty" minLength:"1" doc:"For bearer: the token. The name of a secret, or a reference: env:NAME, file:path, age:path#key, or STORE:reference."`
	Client    *AuthClient `json:"client,omitempty" doc:"The client that is registered with the authorization server."`
	Issuer    string      `json:"issuer,omitempty" minLength:"1" doc:"The authorization server's issuer identifier. By default, the one that the MCP server declares."`
	Scopes    []string    `json:"scopes,omitempty" doc:"Scopes to request. By default, those that the server requires."`
	Header    string      `json:"header,omitempty" pattern:"^[A-Za-z0-9-]{1,64}$" doc:"For header: the name of the HTTP header, such as PRIVATE-TOKEN. By default, the key is sent as a bearer token in Authorization."`
	At        string      `json:"at,omitempty" minLength:"1" doc:"For exchange and assertion: the issuer that exchanges callers' access tokens, by its name under issuers."`
	Audience  string      `json:"audience,omitempty" minLength:"1" doc:"For exchange: the issuer's name for the server. By default, Toolyard sends the server's URL as the resource."`
	AtClient  *AuthClient `json:"atClient,omitempty" doc:"For assertion: the client that is registered with the issuer and requests the assertions. By default, this is the client in the issuer's console settings."`
	Subject   string      `json:"subject,omitempty" enum:"token,signin" doc:"For assertion: which of the person's tokens is exchanged. token: the access token of the request. signin: the ID token of the person's sign-in to the console, which is stored encrypted. The default is token."`
	Per       string      `json:"per,omitempty" enum:"person" doc:"For header: each person has their own key. This is the default."`
}

// AuthClient is an OAuth client registered by an operator.
type AuthClient struct {
	ID        string `json:"id" minLength:"1" doc:"The client ID."`
	SecretRef string `json:"secretRef,omitempty" minLength:"1" doc:"The client secret. The name of a secret, or a reference: env:NAME, file:path, age:path#key, or STORE:reference."`
	KeyRef    string `json:"keyRef,omitempty" minLength:"1" doc:"A private key in PEM format that signs the client's requests (private_key_jwt), instead of a client secret: RSA, P-256, P-384 or Ed25519."`
}

func (c *AuthClient) twoSecrets() bool { return c != nil && c.SecretRef != "" && c.KeyRef != "" }

// The types of Auth.
const (
	AuthBearer            = "bearer"
	AuthClientCredentials = "client"
	AuthPerson            = "person"
	AuthHeader            = "header"
	AuthExchange          = "exchange"
	AuthAssertion         = "assertion"
)

// PerPerson reports whether each person has their own credentials.
func (a *Auth) PerPerson() bool { return a != nil && (a.Type == AuthPerson || a.Type == AuthHeader) }

// Delegates reports whether the server is called on behalf of callers, with tokens that an issuer
// issues in exchange for the callers' own tokens.
func (a *Auth) Delegates() bool {
	return a != nil && (a.Type == AuthExchange || a.Type == AuthAssertion)
}

// UsesSignIns reports whether calls to the server use people's sign-ins to the console.
func (a *Auth) UsesSignIns() bool {
	return a != nil && a.Type == AuthAssertion && a.Subject == "signin"
}

// secretRefs returns the references to secrets by position.
func (a *Auth) secretRefs() map[string]string {
	refs := map[string]string{"secretRef": a.SecretRef}
	for position, client := range map[string]*AuthClient{"client": a.Client, "atClient": a.AtClient} {
		if client != nil {
			refs[position+".secretRef"], refs[position+".keyRef"] = client.SecretRef, client.KeyRef
		}
	}
	maps.DeleteFunc(refs, func(_, ref string) bool { return ref == "" })
	return refs
}

// ServerLimits limits the calls to a server, in addition to the limits on every call.
type ServerLimits struct {
	Timeout     Duration `json:"timeout" default:"10s" doc:"Maximum duration of a call."`
	Concurrency int      `json:"concurrency" default:"8" minimum:"1" maximum:"1000" doc:"Maximum number of concurrent calls. Others wait up to limits.wait."`
	Args        *Size    `json:"args,omitempty" doc:"Maximum size of arguments."`
	Result      *Size    `json:"result,omitempty" doc:"Maximum size of a result. Longer text is truncated; larger structured output is refused."`
}

// Pick selects tools and resources of a server for a toolset. In the file, it is the server's ID or
// an object.
type Pick struct {
	ID        string   `json:"id"`
	Tools     []string `json:"tools,omitempty"`
	Resources []string `json:"resources,omitempty"`
}

// JSONSchema describes a Pick.
func (Pick) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":["string","object"],"minLength":1,"description":"The ID of a server, to include everything that it offers, or an object.",
		"required":["id"],"additionalProperties":false,"properties":{
			"id":{"type":"string","minLength":1,"description":"The server's ID."},
			"tools":{"type":"array","items":{"type":"string"},"description":"Tools, by their names on the server. If empty, all tools."},
			"resources":{"type":"array","items":{"type":"string"},"description":"Resources, by URI. A * at the end matches any suffix. If empty, all resources."}}}`)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Pick) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, &p.ID)
	}
	type plain Pick
	return json.Unmarshal(data, (*plain)(p))
}

// Network is an address range such as 10.0.0.0/8.
type Network string

// JSONSchema describes a Network.
func (Network) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^[0-9A-Fa-f.:]+/[0-9]{1,3}$","examples":["10.0.0.0/8"]}`)
}

// reportFunc reports an error at a position in the configuration.
type reportFunc func(message string, steps ...string)

func (c *Config) checkServers(report reportFunc) {
	bySkeleton := make(map[string]string)
	for _, id := range slices.Sorted(maps.Keys(c.Servers)) {
		if err := ident.CheckServerID(id); err != nil {
			report(err.Error(), "servers", id)
		} else if other := bySkeleton[untrusted.Skeleton(id)]; other != "" {
			report("is easily confused with "+other+": choose another id", "servers", id)
		}
		bySkeleton[untrusted.Skeleton(id)] = id
		s := c.Servers[id]
		s.check(func(message string, steps ...string) { report(message, append([]string{"servers", id}, steps...)...) })
		c.checkAuth(id, &s, report)
	}
	c.checkConnections(report)
}

func (s *Server) check(report reportFunc) {
	switch {
	case s.Command == "" && s.URL == "":
		report("set command or url")
	case s.Command != "" && s.URL != "":
		report("set command or url, not both", "url")
	case s.Command != "" && s.Transport != "" && s.Transport != "stdio":
		report("applies only to a url: a command uses stdio", "transport")
	case s.URL != "" && s.Transport == "stdio":
		report("applies only to a command: a url uses http or sse", "transport")
	case s.Command != "" && (len(s.Headers) > 0 || s.Auth != nil):
		report("applies only to a url: pass secrets to a command in env", "auth")
	case s.URL != "" && (len(s.Args) > 0 || len(s.Env) > 0 || s.Dir != ""):
		report("applies only to a command", "env")
	}
	if s.URL != "" {
		if u, err := url.Parse(s.URL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			report("must be an http:// or https:// URL", "url")
		} else if u.User != nil {
			report("must not contain a password: use auth", "url")
		}
	}
	for tool, mode := range s.Effects {
		if tool != "*" && strings.Contains(tool, "*") {
			report("is not a tool name: use * by itself to match all other tools", "effects", tool)
		}
		if mode != toolyard.Read && mode != toolyard.Write {
			report("must be read or write", "effects", tool)
		}
	}
	if s.Limits.Timeout <= 0 {
		report("must be greater than zero", "limits", "timeout")
	}
	for tool, timeout := range s.Timeouts {
		if timeout <= 0 {
			report("must be greater than zero", "timeouts", tool)
		}
	}
}

// checkAuth checks how the yard authenticates to a server, and that the required secrets are
// defined.
func (c *Config) checkAuth(id string, s *Server, report reportFunc) {
	c.checkTemplates(s.Env, func(message string, steps ...string) {
		report(message, append([]string{"servers", id, "env"}, steps...)...)
	})
	c.checkTemplates(s.Headers, func(message string, steps ...string) {
		report(message, append([]string{"servers", id, "headers"}, steps...)...)
	})
	if s.Auth == nil {
		return
	}
	at := func(message string, steps ...string) {
		report(message, append([]string{"servers", id, "auth"}, steps...)...)
	}
	for position, ref := range s.Auth.secretRefs() {
		c.checkSecret(ref, func(message string) { at(message, strings.Split(position, ".")...) })
	}
	s.Auth.check(s.URL, at)
	issuer, ok := c.Issuers[s.Auth.At]
	switch {
	case s.Auth.Delegates() && !ok:
		at("must be the name of an issuer"+spelling.DidYouMean(s.Auth.At, slices.Collect(maps.Keys(c.Issuers))), "at")
	case s.Auth.UsesSignIns() && issuer.Console == nil:
		at("signin requires people to sign in to the console: set issuers."+s.Auth.At+".console", "subject")
	case s.Auth.UsesSignIns() && s.Auth.AtClient != nil:
		at("does not apply to subject: signin, which uses the console's client because ID tokens are issued to that client", "atClient")
	case s.Auth.Type == AuthAssertion && s.Auth.AtClient == nil && issuer.Console == nil:
		at("is required: set it to the client that is registered with "+s.Auth.At+" for requesting assertions", "atClient")
	}
}

func (a *Auth) check(address string, report reportFunc) {
	oauth := a.Type == AuthClientCredentials || a.Type == AuthPerson || a.Delegates()
	confidential := a.Type == AuthClientCredentials || a.Delegates()
	switch {
	case a.Type == AuthBearer && a.SecretRef == "":
		report("is required: set it to the name of a secret, or to a reference such as env:NAME", "secretRef")
	case a.Type != AuthBearer && a.SecretRef != "":
		report("applies only to type bearer: use client.secretRef", "secretRef")
	case !oauth && (a.Client != nil || a.Issuer != "" || len(a.Scopes) > 0):
		report("client, issuer and scopes apply only to the types client, person, exchange and assertion")
	case a.Type != AuthHeader && (a.Header != "" || a.Per != ""):
		report("header and per apply only to type header")
	case !a.Delegates() && a.At != "":
		report("applies only to the types exchange and assertion", "at")
	case a.Type != AuthExchange && a.Audience != "":
		report("applies only to type exchange", "audience")
	case a.Type != AuthAssertion && a.Subject != "":
		report("applies only to type assertion", "subject")
	case a.Type != AuthAssertion && a.AtClient != nil:
		report("applies only to type assertion", "atClient")
	case a.Type == AuthExchange && a.Issuer != "":
		report("does not apply to type exchange: use at", "issuer")
	case confidential && a.Client == nil:
		report("is required: set the ID and secret of the client registered with the authorization server", "client")
	case confidential && a.Client.SecretRef == "" && a.Client.KeyRef == "", a.Client.twoSecrets():
		report("set either secretRef or keyRef", "client")
	case a.AtClient.twoSecrets():
		report("set either secretRef or keyRef", "atClient")
	}
	if a.Issuer != "" && accesstoken.CheckURL(a.Issuer) != nil {
		report(accesstoken.CheckURL(a.Issuer).Error(), "issuer")
	}
	if a.Type != AuthBearer && address != "" && accesstoken.CheckURL(address) != nil {
		report("the server must use https because tokens are sent to it; http is allowed on loopback", "type")
	}
}

// checkConnections checks the secrets that encrypt connections.
func (c *Config) checkConnections(report reportFunc) {
	for n, ref := range c.Connections.Keys {
		c.checkSecret(ref, func(message string) { report(message, "connections", "keys", strconv.Itoa(n)) })
	}
	if !strings.HasPrefix(c.Store, "postgres") || len(c.Connections.Keys) > 0 {
		return
	}
	for id, s := range c.Servers {
		if s.Auth.PerPerson() || s.Auth.UsesSignIns() {
			report("is required with PostgreSQL because user tokens for server "+id+
				" are stored; generate a secret with: openssl rand -hex 32", "connections", "keys")
			return
		}
	}
}

// variableFor suggests an environment variable for a secret, such as GITHUB_TOKEN for github.
func variableFor(secret string) string {
	name := strings.ToUpper(strings.Map(func(r rune) rune {
		if r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, secret))
	if LooksSecret(name) {
		return name
	}
	return name + "_TOKEN"
}
