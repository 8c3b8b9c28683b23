// Package config parses and validates the configuration file. The JSON Schema derived from its
// types is used for validation, editor completion and the reference. All errors in a file are
// reported together, each with the file, line, key and fix.
package config

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

// File is the default name of the configuration file.
const File = "toolyard.yaml"

// Config is the configuration file. Default returns the configuration that applies if there is no
// file.
type Config struct {
	Name string `json:"name" default:"toolyard" pattern:"^[A-Za-z0-9-]{1,32}$" doc:"The name of this yard."`
	HTTP
	Issuers map[string]Issuer `json:"issuers,omitempty" doc:"Authorization servers whose access tokens are accepted, by name: a-z, 0-9 and -. The name becomes the prefix of caller IDs."`
	Log     Log               `json:"log" default:"{}" doc:"Log settings."`
	Metrics Metrics           `json:"metrics" default:"{}" doc:"Metrics settings."`
	Limits  Limits            `json:"limits" default:"{}" doc:"Limits for every call and for the HTTP server."`
	Sources
	Storage
	Governance
	ExecuteUSD *Price                  `json:"executeUsd,omitempty" doc:"The default price of a call to a local tool at an execute gate."`
	Terms      map[string]Terms        `json:"terms,omitempty" doc:"Limits and prices for local tools, by name."`
	Context    map[string]Context      `json:"context,omitempty" doc:"Providers for the context that tools require, by kind."`
	Packs      map[string]PackSettings `json:"packs,omitempty" doc:"Packs to enable, by name, with their settings. Values can contain ${secret:name}."`
	AgentSection
	Toolsets map[string]Toolset `json:"toolsets,omitempty" doc:"Named selections of tools."`
	Gates    map[string]Gate    `json:"gates,omitempty" doc:"Entry points. The gate x is served at /mcp/x. The gate named default, or the only gate, is also served at /mcp. If no gates are defined, all tools are served at /mcp."`
}

// HTTP configures the HTTP server.
type HTTP struct {
	Listen    string   `json:"listen" default:"127.0.0.1:3001" doc:"HTTP address, host:port. If it isn't a loopback address, set callers at every gate, or set anonymous: true."`
	Anonymous bool     `json:"anonymous" default:"false" doc:"Allow unauthenticated callers on non-loopback addresses."`
	Origins   []Origin `json:"origins,omitempty" doc:"Web origins that can call from a browser, such as http://localhost:6274."`
	Hosts     []Host   `json:"hosts,omitempty" doc:"This server's host names, such as tools.example.com. Loopback names, and IP addresses outside loopback, are always accepted."`
	URL       string   `json:"url,omitempty" doc:"This server's URL for clients, such as https://tools.example.com. Required with issuers, because access tokens are issued for gate URLs, such as https://tools.example.com/mcp/NAME."`
	TLS       *TLS     `json:"tls,omitempty" doc:"Serve HTTPS with this certificate. Without it, run the server behind a proxy that terminates TLS."`
	SSE       bool     `json:"sse" default:"false" doc:"Also serve the HTTP+SSE transport from MCP 2024-11-05 at /sse."`
}

// TLS configures the HTTP server's certificate. Changed files are reloaded without a restart.
type TLS struct {
	Cert string `json:"cert" minLength:"1" doc:"The PEM file with the certificate and its chain, relative to this file. It is reloaded when it changes."`
	Key  string `json:"key" minLength:"1" doc:"The PEM file with the private key."`
}

// Sources configures the sources of tools.
type Sources struct {
	Scripts         *Scripts               `json:"scripts,omitempty" doc:"A directory of TypeScript tools."`
	Servers         map[string]Server      `json:"servers,omitempty" doc:"Upstream MCP servers, by ID: letters, digits and -, separated by single dots."`
	PrivateNetworks []Network              `json:"privateNetworks,omitempty" doc:"Private networks, such as 10.0.0.0/8, that the host names of servers and script grants can resolve to. IP addresses and localhost in a URL are always allowed."`
	Secrets         map[string]SecretRef   `json:"secrets,omitempty" doc:"References to secrets, by name: env:NAME, file:path, age:path#key, or STORE:reference for a store under secretStores. Secrets are read when they are needed, and are redacted everywhere."`
	SecretStores    map[string]SecretStore `json:"secretStores,omitempty" doc:"External secret stores, by name: a-z, 0-9 and -. References to a store start with its name."`
	Connections     Connections            `json:"connections" default:"{}" doc:"People's connections to servers that have auth of type person or header."`
	AgeIdentity     string                 `json:"ageIdentity,omitempty" doc:"The file with the age identity that decrypts age: secrets."`
}

// Connections configures how people's connections to servers are stored.
type Connections struct {
	Keys []string `json:"keys,omitempty" doc:"Keys that encrypt connections in the store, with at least 32 characters each: names of secrets, or references such as file:/run/secrets/connections. The first key encrypts, and all keys decrypt. Required with PostgreSQL; otherwise, a .key file next to this file is used."`
}

// Storage configures which data is stored and where.
type Storage struct {
	Store       string     `json:"store,omitempty" doc:"The database for limits, balances, keys and recorded calls: postgres://user@host/database for several replicas, sqlite:path for one, or memory. If store isn't set but a store is needed, a .db file next to this file is used."`
	OnStoreDown string     `json:"onStoreDown" default:"refuse" enum:"refuse,local" doc:"What happens to calls with limits while the store isn't responding. With refuse, they are refused. With local, each replica enforces its share of the limit for one minute. Calls with a price or an idempotency key are always refused, and so are writes unless record.writes is after."`
	Record      Record     `json:"record" default:"{}" doc:"What Toolyard records about calls."`
	SealKeys    []string   `json:"sealKeys,omitempty" maxItems:"8" doc:"References to the keys that encrypt console sign-ins, the state of unfinished calls, and stored credentials. Each key has at least 32 characters. The first key encrypts, and all keys decrypt. Default: a random key in the store, which anyone with access to the database can read."`
	Editable    []Editable `json:"editable,omitempty" doc:"What operators can change through the API and the console: toolsets, gates, prices. All versions are stored. A changed entry replaces the entry with the same name in this file."`
}

// Log configures the log.
type Log struct {
	Level  string `json:"level" default:"info" enum:"debug,info,warn,error" doc:"The minimum level to log."`
	Format string `json:"format" default:"auto" enum:"auto,text,json" doc:"The log format. auto uses text on a terminal and JSON elsewhere."`
	File   string `json:"file,omitempty" doc:"The file to which log entries are appended. If empty, they are written to standard error."`
}

// Metrics configures the metrics endpoint.
type Metrics struct {
	Listen string `json:"listen,omitempty" doc:"A separate host:port address for /metrics, where no authentication is required. If empty, /metrics is served at the main address, and requires an API key with the viewer scope if a gate requires keys."`
}

// Limits apply to every call and to the HTTP server.
type Limits struct {
	Wait    Duration `json:"wait" default:"10s" doc:"How long a call can wait for a limit before it is refused, at most 1h. With 0s, calls don't wait."`
	Timeout Duration `json:"timeout" default:"30s" doc:"Maximum duration of a call. Tools can set a shorter one."`
	Args    Size     `json:"args" default:"256KiB" doc:"Maximum size of arguments."`
	Result  Size     `json:"result" default:"1MiB" doc:"Maximum size of a result. Longer text is truncated; larger structured output is refused."`
	Body    Size     `json:"body" default:"1MiB" doc:"Maximum size of a request, at most 64MiB."`

	Connections int `json:"connections" default:"20000" minimum:"2" maximum:"1000000" doc:"Maximum number of open HTTP connections. A single client address, including a proxy, gets at most half of them."`
	Streams     int `json:"streams" default:"10000" minimum:"4" maximum:"1000000" doc:"Maximum number of open notification streams. A single caller, or a single address that sends no API key, gets at most a quarter of them."`
}

// Scripts configures a directory of TypeScript tools. Paths are relative to the configuration file.
type Scripts struct {
	Dir     string           `json:"dir" default:"tools" minLength:"1" doc:"The directory that contains the tools."`
	Glob    string           `json:"glob" default:"**/*.ts" minLength:"1" doc:"Glob pattern for the files in the directory that define tools."`
	Memory  Size             `json:"memory" default:"64MiB" doc:"Maximum memory per call, 8MiB to 1024MiB."`
	CPU     Duration         `json:"cpu" default:"5s" doc:"Maximum CPU time per call."`
	Workers int              `json:"workers" default:"0" minimum:"0" maximum:"256" doc:"Maximum number of worker processes. 0 means one per processor."`
	Grants  map[string]Grant `json:"grants,omitempty" doc:"Permissions, by tool name. Use * for all tools. Everything else is denied."`
}

// Grant is a set of permissions for a script.
type Grant struct {
	Net  []HostPattern `json:"net,omitempty" doc:"Hosts that can be reached: api.example.com, api.example.com:8443, *.example.com or *. A host with a private address must be listed without a wildcard."`
	Read []string      `json:"read,omitempty" doc:"Directories and files that can be read."`
	Env  []EnvName     `json:"env,omitempty" doc:"Environment variables that can be read: NAME or PREFIX_*."`
}

// HostPattern matches hosts.
type HostPattern string

// JSONSchema describes a HostPattern.
func (HostPattern) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^(\\*|(\\*\\.)?[A-Za-z0-9-]+(\\.[A-Za-z0-9-]+)*|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?$","examples":["api.example.com","*.example.com"]}`)
}

// EnvName is the name of an environment variable, or a prefix followed by *.
type EnvName string

// JSONSchema describes an EnvName.
func (EnvName) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^([A-Za-z_][A-Za-z0-9_]*)?\\*?$","minLength":1,"examples":["API_KEY","APP_*"]}`)
}

// Toolset is a named selection of tools.
type Toolset struct {
	Tools   []string `json:"tools,omitempty" doc:"Local tools to include, by name."`
	Servers []Pick   `json:"servers,omitempty" doc:"Servers to include, or some of a server's tools and resources."`
	Packs   []string `json:"packs,omitempty" doc:"Packs to include, with their tools and resources."`
}

// Gate is an entry point with its own rules.
type Gate struct {
	Mode        toolyard.Mode           `json:"mode" enum:"read,write" doc:"Which tools the gate offers: read offers only tools that are declared read-only, and write offers all tools."`
	Surface     toolyard.Surface        `json:"surface" default:"both" enum:"answer,execute,both" doc:"What the gate's tools are for: composing answers (answer), paid execution (execute), or both."`
	Toolset     string                  `json:"toolset,omitempty" minLength:"1" doc:"The toolset that the gate offers. If empty, it offers all tools."`
	Naming      gates.Naming            `json:"naming" default:"mcp" enum:"mcp,plain,client" doc:"The format of tool names: mcp is mcp_server__tool, plain is server__tool, and client leaves room for a prefix that the client adds. Calls can use any format."`
	SourceNotes gates.SourceNotes       `json:"sourceNotes,omitempty" enum:"off,relative,absolute" doc:"Whether descriptions of TypeScript tools include the file path. The default is off over HTTP and relative over standard input and output."`
	Callers     string                  `json:"callers,omitempty" enum:"anyone,keys,tokens,authenticated" doc:"Who can call: anyone (the default on loopback), callers with an API key (keys; see toolyard keys), callers with an access token from an issuer (tokens), or callers with either (authenticated)."`
	Issuers     []string                `json:"issuers,omitempty" doc:"The issuers whose access tokens are accepted. If empty, all issuers are accepted."`
	Errors      gates.ErrorStyle        `json:"errors" default:"result" enum:"result,protocol" doc:"How errors are returned: as results that a model can read, or as JSON-RPC errors."`
	Clock       string                  `json:"clock,omitempty" enum:"yard,caller" doc:"Who sets the as-of time of calls: the yard (the default; the as-of time is the current time), or the caller, for backtests."`
	Packs       map[string]PackSettings `json:"packs,omitempty" doc:"Pack settings for this gate, by pack name."`
	Rate        Rates                   `json:"rate,omitempty" doc:"Rate limit for all calls at this gate, shared by all replicas; or a list of limits for all callers together, each account and each caller."`
	Spend       Spends                  `json:"spend,omitempty" doc:"Maximum total price of calls at this gate per day or month; or a list of limits for all callers together, each account and each caller."`
	Agents      []string                `json:"agents,omitempty" maxItems:"100" doc:"Agents that the gate offers, by name. If a gate has agents but no toolset, it offers only the agents."`
	Presentation
}

// Presentation controls how a gate presents its tools to models.
type Presentation struct {
	Offer  gates.Offer `json:"offer,omitempty" enum:"tools,search,code" doc:"What the gate lists. tools (the default): every tool. search: meta-tools that search, describe and call tools, for gates with many tools. code: also run_code, which runs TypeScript that calls the tools."`
	Pinned []string    `json:"pinned,omitempty" maxItems:"100" doc:"Tools to list next to the meta-tools, in this order. Requires offer: search or code."`
	Accept string      `json:"accept,omitempty" enum:"trifecta" doc:"Set trifecta to accept that code or agents at this gate can read private data, read untrusted text and send data out. Otherwise, Toolyard reports this combination as a problem. Once both kinds of data have been read, calls that send data out always need approval."`
	Show   Size        `json:"show,omitempty" doc:"How much of a long result to send to the client, at least 1KiB. The whole result is stored for an hour, and the client can read the rest. The default is 40KiB with offer: search or code, and no limit otherwise."`
}

// minShow is the minimum value of show.
const minShow = 1 << 10

// check validates a gate's presentation.
func (p *Presentation) check(report reportFunc, gate string) {
	if len(p.Pinned) > 0 && (p.Offer == "" || p.Offer == gates.OfferTools) {
		report("requires offer: search or code, because this gate lists every tool", "gates", gate, "pinned")
	}
	if p.Show != 0 && p.Show < minShow {
		report("must be at least 1KiB", "gates", gate, "show")
	}
}

// Duration is a duration such as 30s or 1m30s.
type Duration time.Duration

// JSONSchema describes a Duration.
func (Duration) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$","examples":["30s"]}`)
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) {
	if d.Std()%time.Millisecond != 0 { // String would use a unit that the schema does not allow
		return []byte(strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64) + "ms"), nil
	}
	return []byte(d.Std().String()), nil
}

// Std converts d to a [time.Duration].
func (d Duration) Std() time.Duration { return time.Duration(d) }

// Size is a number of bytes, such as 64KiB or 1MiB.
type Size int64

// JSONSchema describes a Size.
func (Size) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^[1-9][0-9]{0,5}(B|KiB|MiB)$","examples":["64KiB"]}`)
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Size) UnmarshalText(text []byte) error {
	digits := strings.TrimRight(string(text), "BKiM")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return fmt.Errorf("invalid size %q: use a value such as 64KiB or 1MiB", text)
	}
	unit, ok := map[string]int64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[string(text)[len(digits):]]
	if !ok {
		return fmt.Errorf("invalid size %q: use a value such as 64KiB or 1MiB", text)
	}
	*s = Size(n * unit)
	return nil
}

// MarshalText implements [encoding.TextMarshaler].
func (s Size) MarshalText() ([]byte, error) {
	for _, unit := range []struct {
		bytes Size
		name  string
	}{{1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if s%unit.bytes == 0 {
			return fmt.Appendf(nil, "%d%s", s/unit.bytes, unit.name), nil
		}
	}
	return fmt.Appendf(nil, "%dB", int64(s)), nil
}

// Origin is a web origin: a scheme and a host.
type Origin string

// JSONSchema describes an Origin.
func (Origin) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^https?://[A-Za-z0-9.:\\[\\]-]+$","examples":["http://localhost:6274"]}`)
}

// Host is a host name.
type Host string

// JSONSchema describes a Host.
func (Host) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^[A-Za-z0-9.-]+$","examples":["tools.example.com"]}`)
}

var schema = toolyard.SchemaFor[Config]()

// Schema returns the JSON Schema for the file, for use in editors.
func Schema(e Extensions) json.RawMessage {
	var doc map[string]any
	_ = json.Unmarshal(schema.JSON(), &doc) // schema is valid JSON
	if len(e.Contexts) > 0 {
		kinds := make(map[string]any, len(e.Contexts))
		for kind, settings := range e.Contexts {
			kinds[kind] = map[string]any{"anyOf": []any{settings.JSON(), map[string]any{"anyOf": []any{
				map[string]any{"required": []string{"http"}}, map[string]any{"required": []string{"script"}},
			}}}}
		}
		doc["properties"].(map[string]any)["context"].(map[string]any)["properties"] = kinds
	}
	e.addPacks(doc)
	doc["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	doc["title"] = "Toolyard configuration"
	raw, _ := json.MarshalIndent(doc, "", "  ")
	return append(raw, '\n')
}

// Default returns the configuration that applies if there is no file.
func Default() *Config {
	c, _ := decode(json.RawMessage("{}"))
	return c
}

// decode fills in defaults and validates the configuration.
func decode(value json.RawMessage) (*Config, []toolyard.Issue) {
	value, issues, _ := schema.Complete(context.Background(), value)
	if len(issues) > 0 {
		return nil, issues
	}
	c := &Config{}
	if err := json.Unmarshal(value, c); err != nil {
		return nil, []toolyard.Issue{{Message: err.Error()}}
	}
	return c, c.check()
}

var gateName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// listenHost returns the host in an address to listen on.
func listenHost(text string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return host, err == nil
}

// check validates rules that the schema cannot express.
func (c *Config) check() (issues []toolyard.Issue) {
	report := func(message string, steps ...string) {
		issues = append(issues, toolyard.Issue{Path: strings.Join(steps, "."), Message: message, Location: steps})
	}
	if host, ok := listenHost(c.Listen); !ok {
		report("must be host:port, such as 127.0.0.1:3001", "listen")
	} else if !c.Anonymous && !IsLoopback(host) && c.Open() {
		report("is reachable from other machines. To listen on a non-loopback address, set callers: keys on every gate, or set anonymous: true.", "listen")
	}
	if _, ok := listenHost(c.Metrics.Listen); !ok && c.Metrics.Listen != "" {
		report("must be host:port, such as 127.0.0.1:9090", "metrics", "listen")
	} else if ok && c.Metrics.Listen == c.Listen {
		report("is the same as listen: choose another address, or omit this setting", "metrics", "listen")
	}
	if wait := c.Limits.Wait.Std(); wait < 0 || wait > time.Hour {
		report("must be between 0s and 1h", "limits", "wait")
	}
	if c.Limits.Timeout <= 0 {
		report("must be greater than zero", "limits", "timeout")
	}
	if c.Limits.Body > 64<<20 {
		report("must be at most 64MiB", "limits", "body")
	}
	if s := c.Scripts; s != nil && (s.Memory < 8<<20 || s.Memory > 1<<30) {
		report("must be between 8MiB and 1024MiB", "scripts", "memory")
	}
	if s := c.Scripts; s != nil && s.CPU <= 0 {
		report("must be greater than zero", "scripts", "cpu")
	}
	for name, g := range c.Gates {
		if !gateName.MatchString(name) {
			report("invalid gate name: use a-z, 0-9 and -", "gates", name)
		}
		if _, ok := c.Toolsets[g.Toolset]; !ok && g.Toolset != "" {
			report("unknown toolset"+spelling.DidYouMean(g.Toolset, slices.Collect(maps.Keys(c.Toolsets))), "gates", name, "toolset")
		}
		g.check(report, name)
	}
	for name, s := range c.Toolsets {
		for i, pack := range s.Packs {
			if _, ok := c.Packs[pack]; !ok {
				report("the pack is not enabled"+spelling.DidYouMean(pack, slices.Collect(maps.Keys(c.Packs))), "toolsets", name, "packs", fmt.Sprint(i))
			}
		}
	}
	for i, n := range c.PrivateNetworks {
		if _, err := netip.ParsePrefix(string(n)); err != nil {
			report("must be a network such as 10.0.0.0/8", "privateNetworks", fmt.Sprint(i))
		}
	}
	c.checkIssuers(report)
	c.checkSecretStores(report)
	c.checkServers(report)
	c.checkPacks(report)
	c.checkRules(report)
	c.checkRates(report)
	c.checkAgents(report)
	c.checkStore(report)
	return issues
}

// Prefixes parses networks. They must have been validated.
func Prefixes(networks []Network) (list []netip.Prefix) {
	for _, network := range networks {
		if p, err := netip.ParsePrefix(string(network)); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// IsLoopback reports whether a host is reachable only from this machine.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
