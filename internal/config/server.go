package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Server is another MCP server whose tools are offered: a program or a URL.
type Server struct {
	Command string            `json:"command,omitempty" doc:"The program to start, looked for in PATH, or relative to this file if it has a slash; it speaks MCP on standard input and output."`
	Args    []string          `json:"args,omitempty" doc:"Its arguments. Secrets do not belong here: everybody on the machine can read them."`
	Env     map[string]string `json:"env,omitempty" doc:"Its environment beside PATH, HOME, LANG, TZ and TMPDIR. Values may hold ${secret:name}."`
	Dir     string            `json:"dir,omitempty" doc:"Where it runs, relative to this file."`

	URL       string            `json:"url,omitempty" doc:"Where the server is, http or https."`
	Headers   map[string]string `json:"headers,omitempty" doc:"Sent with every request. Values may hold ${secret:name}."`
	Auth      *Auth             `json:"auth,omitempty" doc:"How we show who we are."`
	Transport string            `json:"transport,omitempty" enum:"stdio,http,sse" doc:"Only if it must be said: it follows from command or url, and servers that know only the old HTTP+SSE are found out."`

	Tools     []string                 `json:"tools,omitempty" doc:"The tools that are wanted, by the server's own names; all when empty."`
	Resources []string                 `json:"resources,omitempty" doc:"The resources that may be read, by their addresses; a star at the end stands for all that begin so; all when empty."`
	Effects   map[string]toolyard.Mode `json:"effects,omitempty" doc:"What tools do: read or write. A * is for all others. A tool that is not known to read only is a write."`
	Trust     string                   `json:"trust" default:"none" enum:"none,annotations" doc:"Whether the server's own word that a tool only reads counts."`
	Pin       string                   `json:"pin" default:"first" enum:"first,approve,off" doc:"When a definition counts as approved: as the server offers it first, only by toolyard approve, or always."`
	Required  bool                     `json:"required" default:"false" doc:"Whether /readyz waits for this server."`
	Limits    ServerLimits             `json:"limits" default:"{}" doc:"Bounds on the calls of this server."`
	Timeouts  map[string]Duration      `json:"timeouts,omitempty" doc:"How long calls of single tools may take, by name."`

	Rate       *Rate            `json:"rate,omitempty" doc:"How fast all its tools together may be called, by all replicas together."`
	ExecuteUSD *Price           `json:"executeUsd,omitempty" doc:"What a call of its tools costs at a gate for execution if neither the tool nor terms say it."`
	Terms      map[string]Terms `json:"terms,omitempty" doc:"Limits and prices of its tools, by name."`
}

// Auth is how we show a server who we are.
type Auth struct {
	Type      string `json:"type" enum:"bearer" doc:"A token in the Authorization header."`
	SecretRef string `json:"secretRef" minLength:"1" doc:"The name of a secret, or where it is: env:NAME, file:path, age:path#key."`
}

// ServerLimits are the bounds on the calls of a server. The stricter of them and those of
// all calls count.
type ServerLimits struct {
	Timeout     Duration `json:"timeout" default:"10s" doc:"How long a call may take."`
	Concurrency int      `json:"concurrency" default:"8" minimum:"1" maximum:"1000" doc:"How many calls may run at once. The others wait, for limits.wait at most."`
	Args        *Size    `json:"args,omitempty" doc:"How large arguments may be."`
	Result      *Size    `json:"result,omitempty" doc:"How large a result may be before it is cut."`
}

// Pick takes tools and resources of a server into a toolset. It is written as the id of the
// server, or as an object.
type Pick struct {
	ID        string   `json:"id"`
	Tools     []string `json:"tools,omitempty"`
	Resources []string `json:"resources,omitempty"`
}

// JSONSchema describes a Pick.
func (Pick) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":["string","object"],"minLength":1,"description":"The id of a server, for all that it offers, or an object.",
		"required":["id"],"additionalProperties":false,"properties":{
			"id":{"type":"string","minLength":1,"description":"The id of a server."},
			"tools":{"type":"array","items":{"type":"string"},"description":"Its tools, by its own names; all when empty."},
			"resources":{"type":"array","items":{"type":"string"},"description":"Its resources, by their addresses; a star at the end stands for all that begin so; all when empty."}}}`)
}

// UnmarshalJSON reads both forms.
func (p *Pick) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, &p.ID)
	}
	type plain Pick
	return json.Unmarshal(data, (*plain)(p))
}

// Network is a range of addresses, such as 10.0.0.0/8.
type Network string

// JSONSchema describes a Network.
func (Network) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^[0-9A-Fa-f.:]+/[0-9]{1,3}$","examples":["10.0.0.0/8"]}`)
}

// SecretRef says where a secret is.
type SecretRef string

// JSONSchema describes a SecretRef.
func (SecretRef) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+|age:[^#]+(#.+)?)$","examples":["env:GITHUB_TOKEN","file:/run/secrets/github","age:secrets.age#github"]}`)
}

// adder notes what is wrong at a place.
type adder func(message string, steps ...string)

// checkServers finds what a schema cannot say about servers.
func (c *Config) checkServers(add adder) {
	looks := make(map[string]string)
	for _, id := range slices.Sorted(maps.Keys(c.Servers)) {
		if err := ident.CheckServerID(id); err != nil {
			add(err.Error(), "servers", id)
		} else if other := looks[untrusted.Skeleton(id)]; other != "" {
			add("looks like "+other+"; people would take one for the other", "servers", id)
		}
		looks[untrusted.Skeleton(id)] = id
		s := c.Servers[id]
		s.check(func(message string, steps ...string) { add(message, append([]string{"servers", id}, steps...)...) })
		c.checkAuth(id, &s, add)
	}
}

func (s *Server) check(add adder) {
	switch {
	case s.Command == "" && s.URL == "":
		add("has neither a command nor a url")
	case s.Command != "" && s.URL != "":
		add("has both a command and a url", "url")
	case s.Command != "" && s.Transport != "" && s.Transport != "stdio":
		add("is for a url; a command speaks stdio", "transport")
	case s.URL != "" && s.Transport == "stdio":
		add("is for a command; a url is http or sse", "transport")
	case s.Command != "" && (len(s.Headers) > 0 || s.Auth != nil):
		add("is for a url; a command gets secrets by env", "auth")
	case s.URL != "" && (len(s.Args) > 0 || len(s.Env) > 0 || s.Dir != ""):
		add("is for a command", "env")
	}
	if s.URL != "" {
		if u, err := url.Parse(s.URL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			add("must be a URL that begins with http:// or https://", "url")
		} else if u.User != nil {
			add("must not hold a password; use auth", "url")
		}
	}
	for tool, mode := range s.Effects {
		if tool != "*" && strings.Contains(tool, "*") {
			add("is no name of a tool; a * alone is for all others", "effects", tool)
		}
		if mode != toolyard.Read && mode != toolyard.Write {
			add("must be read or write", "effects", tool)
		}
	}
	if s.Limits.Timeout <= 0 {
		add("must be greater than zero", "limits", "timeout")
	}
	for tool, timeout := range s.Timeouts {
		if timeout <= 0 {
			add("must be greater than zero", "timeouts", tool)
		}
	}
}

// checkAuth checks that a secret that is named is there to be looked up.
func (c *Config) checkAuth(id string, s *Server, add adder) {
	if s.Auth == nil || strings.Contains(s.Auth.SecretRef, ":") {
		return
	}
	if _, ok := c.Secrets[s.Auth.SecretRef]; !ok {
		fix := near(s.Auth.SecretRef, slices.Collect(maps.Keys(c.Secrets)))
		if fix == "" {
			fix = fmt.Sprintf("; add secrets: {%s: env:%s}", s.Auth.SecretRef, variableFor(s.Auth.SecretRef))
		}
		add(fmt.Sprintf("secret %q is not defined%s", s.Auth.SecretRef, fix), "servers", id, "auth", "secretRef")
	}
}

// variableFor is the name of a variable that may hold a secret: GITHUB_TOKEN for github.
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
