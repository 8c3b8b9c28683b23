// Package config reads the configuration file. Its JSON Schema, derived from the types
// below, is the validator, the editor's help and the reference; every fault is
// reported at once, each with file, line, key and what to do about it.
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

// File is the name that is looked for when none is given.
const File = "toolyard.yaml"

// Config is the whole file. Default is what an absent one means.
type Config struct {
	Name        string               `json:"name" default:"toolyard" pattern:"^[A-Za-z0-9-]{1,32}$" doc:"What this yard calls itself."`
	Listen      string               `json:"listen" default:"127.0.0.1:3001" doc:"Address for HTTP, host:port. Beyond loopback every gate needs callers: keys, or anonymous must say that anyone may call."`
	Anonymous   bool                 `json:"anonymous" default:"false" doc:"Let anyone who reaches the address call tools. Needed to listen beyond loopback, unless every gate says callers: keys."`
	Origins     []Origin             `json:"origins,omitempty" doc:"Web origins that may call from a browser, such as http://localhost:6274."`
	Hosts       []Host               `json:"hosts,omitempty" doc:"Names that this server is reached by, such as tools.example.com. On loopback its own names, elsewhere bare addresses, need not be said."`
	SSE         bool                 `json:"sse" default:"false" doc:"Also serve the HTTP+SSE transport of 2024-11-05, at /sse."`
	Log         Log                  `json:"log" default:"{}" doc:"What is logged, and where to."`
	Metrics     Metrics              `json:"metrics" default:"{}" doc:"Where the metrics are."`
	Limits      Limits               `json:"limits" default:"{}" doc:"Bounds on every call."`
	Scripts     *Scripts             `json:"scripts,omitempty" doc:"A folder of TypeScript tools."`
	Private     []Network            `json:"private,omitempty" doc:"Networks beside the public internet that the names of servers, and names granted to scripts, may lead to, such as 10.0.0.0/8. Addresses and localhost in a url need not be said."`
	Secrets     map[string]SecretRef `json:"secrets,omitempty" doc:"Where secrets are, by name: env:NAME, file:path, age:path#key. They are read when they are needed and never shown."`
	Identity    string               `json:"identity,omitempty" doc:"The file with the age identity that opens age: secrets."`
	Store       string               `json:"store,omitempty" doc:"Where limits, money, keys and the record of calls are kept: postgres://user@host/database for many replicas, sqlite:path for one, memory. Beside this file, in a .db of its name, if it is not said and something must be kept."`
	OnStoreDown string               `json:"onStoreDown" default:"refuse" enum:"refuse,local" doc:"What becomes of calls with limits while the store is away: refused, or counted by each replica alone for a minute. Money and idempotency keys are always refused."`
	Record      Record               `json:"record" default:"{}" doc:"What is kept of calls."`
	Edits       []Editable           `json:"edits,omitempty" doc:"What operators may change through the API and the console: toolsets, gates. Changes are kept in the store, with every version, and beat this file by name."`
	ExecuteUSD  *Price               `json:"executeUsd,omitempty" doc:"What a call of a local tool costs at a gate for execution if nobody says otherwise."`
	Terms       map[string]Terms     `json:"terms,omitempty" doc:"Limits and prices of local tools, by name."`
	Context     map[string]Context   `json:"context,omitempty" doc:"Where context that tools require comes from, by kind."`
	Servers     map[string]Server    `json:"servers,omitempty" doc:"Other MCP servers whose tools are offered, by id: letters, digits and -, with single dots between them."`
	Toolsets    map[string]Toolset   `json:"toolsets,omitempty" doc:"Named selections of tools."`
	Gates       map[string]Gate      `json:"gates,omitempty" doc:"Ways in. Gate x is at /mcp/x; the one called default, or the only one, is at /mcp too. Without any, all tools are at /mcp."`
}

// Log is the log's settings.
type Log struct {
	Level  string `json:"level" default:"info" enum:"debug,info,warn,error" doc:"The least grave messages that are kept."`
	Format string `json:"format" default:"auto" enum:"auto,text,json" doc:"auto is text on a terminal and JSON elsewhere."`
	File   string `json:"file,omitempty" doc:"Where to append the log; standard error when empty."`
}

// Metrics is where the metrics are.
type Metrics struct {
	Listen string `json:"listen,omitempty" doc:"An address for /metrics alone, host:port, where nobody is asked who they are. When empty it is beside everything else, and needs an API key with the scope viewer if a gate takes keys."`
}

// Limits are the bounds on every call.
type Limits struct {
	Wait    Duration `json:"wait" default:"10s" doc:"How long a call may wait for a limit before it is refused, 1h at most. With 0s calls do not wait."`
	Timeout Duration `json:"timeout" default:"30s" doc:"How long a call may take. A tool may ask for less."`
	Args    Size     `json:"args" default:"256KiB" doc:"How large arguments may be."`
	Result  Size     `json:"result" default:"1MiB" doc:"How large a result may be before it is cut."`
	Body    Size     `json:"body" default:"1MiB" doc:"How large a request may be, 64MiB at most."`

	Connections int `json:"connections" default:"20000" minimum:"2" maximum:"1000000" doc:"How many HTTP connections may be open. One address gets half of them at most, also that of a proxy."`
	Streams     int `json:"streams" default:"10000" minimum:"4" maximum:"1000000" doc:"How many streams that wait for changes may be open. One caller, or one address that sends no key, gets a quarter of them at most."`
}

// Scripts is a folder of TypeScript tools. Paths are relative to the configuration file.
type Scripts struct {
	Dir     string           `json:"dir" default:"tools" minLength:"1" doc:"The folder."`
	Glob    string           `json:"glob" default:"**/*.ts" minLength:"1" doc:"Which files in it are tools."`
	Memory  Size             `json:"memory" default:"64MiB" doc:"How much memory a call may use, 8MiB to 1024MiB."`
	CPU     Duration         `json:"cpu" default:"5s" doc:"How much CPU time a call may use."`
	Workers int              `json:"workers" default:"0" minimum:"0" maximum:"256" doc:"How many processes run scripts at most; 0 for one for each processor."`
	Grants  map[string]Grant `json:"grants,omitempty" doc:"What tools may reach, by name; * is for all. Nothing is granted otherwise."`
}

// Grant is what a script may reach.
type Grant struct {
	Net  []Reach   `json:"net,omitempty" doc:"Hosts: api.example.com, api.example.com:8443, *.example.com or *. Addresses that are not public need a name without a star."`
	Read []string  `json:"read,omitempty" doc:"Folders and files that may be read."`
	Env  []EnvName `json:"env,omitempty" doc:"Environment variables: NAME or PREFIX_*."`
}

// Reach is a pattern of hosts.
type Reach string

// JSONSchema describes a Reach.
func (Reach) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^(\\*|(\\*\\.)?[A-Za-z0-9-]+(\\.[A-Za-z0-9-]+)*|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?$","examples":["api.example.com","*.example.com"]}`)
}

// EnvName is a name of environment variables, or the beginning of some.
type EnvName string

// JSONSchema describes an EnvName.
func (EnvName) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^([A-Za-z_][A-Za-z0-9_]*)?\\*?$","minLength":1,"examples":["API_KEY","APP_*"]}`)
}

// Toolset is a named selection of tools.
type Toolset struct {
	Tools   []string `json:"tools,omitempty" doc:"Names of local tools."`
	Servers []Pick   `json:"servers,omitempty" doc:"Servers, or some of the tools and resources of one."`
}

// Gate is one way in.
type Gate struct {
	Mode    toolyard.Mode     `json:"mode" enum:"read,write" doc:"Whether callers may only read, or also change things."`
	Surface toolyard.Surface  `json:"surface" default:"both" enum:"answer,execute,both" doc:"What the tools are for: composing answers, or paid execution."`
	Toolset string            `json:"toolset,omitempty" minLength:"1" doc:"The toolset that callers see; all tools when empty."`
	Naming  gates.Naming      `json:"naming" default:"mcp" enum:"mcp,plain,dotted,client" doc:"How names are written."`
	Notes   gates.SourceNotes `json:"notes,omitempty" enum:"off,relative,absolute" doc:"Whether descriptions say which file a TypeScript tool is made from. Off over HTTP and relative on standard input and output when it is not said."`
	Callers string            `json:"callers,omitempty" enum:"anyone,keys" doc:"Who may enter: anyone, which is so on loopback if it is not said, or those with an API key (toolyard keys)."`
	Errors  gates.ErrorStyle  `json:"errors" default:"result" enum:"result,protocol" doc:"Whether failures are results that a model can read, or JSON-RPC errors."`
}

// Duration is a time.Duration that is written as 30s or 1m30s.
type Duration time.Duration

// JSONSchema describes a Duration.
func (Duration) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$","examples":["30s"]}`)
}

// UnmarshalText reads a Duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// Std is the duration as the standard library has it.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// Size is a number of bytes that is written as 64KiB or 1MiB.
type Size int64

// JSONSchema describes a Size.
func (Size) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^[1-9][0-9]{0,5}(B|KiB|MiB)$","examples":["64KiB"]}`)
}

// UnmarshalText reads a Size.
func (s *Size) UnmarshalText(text []byte) error {
	digits := strings.TrimRight(string(text), "BKiM")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return fmt.Errorf("size %q: write it as 64KiB or 1MiB", text)
	}
	unit, ok := map[string]int64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[string(text)[len(digits):]]
	if !ok {
		return fmt.Errorf("size %q: write it as 64KiB or 1MiB", text)
	}
	*s = Size(n * unit)
	return nil
}

// Origin is a web origin: a scheme and a host.
type Origin string

// JSONSchema describes an Origin.
func (Origin) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^https?://[A-Za-z0-9.:\\[\\]-]+$","examples":["http://localhost:6274"]}`)
}

// Host is the name of a server.
type Host string

// JSONSchema describes a Host.
func (Host) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^[A-Za-z0-9.-]+$","examples":["tools.example.com"]}`)
}

var schema = toolyard.SchemaFor[Config]()

// Schema returns the JSON Schema of the file, for editors. Contexts describe the settings of
// the kinds of context that a program registers.
func Schema(contexts map[string]*toolyard.Schema) json.RawMessage {
	var doc map[string]any
	_ = json.Unmarshal(schema.JSON(), &doc) // it compiled
	if len(contexts) > 0 {
		kinds := make(map[string]any, len(contexts))
		for kind, settings := range contexts {
			kinds[kind] = settings.JSON()
		}
		doc["properties"].(map[string]any)["context"].(map[string]any)["properties"] = kinds
	}
	doc["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	doc["title"] = "Toolyard configuration"
	raw, _ := json.MarshalIndent(doc, "", "  ")
	return append(raw, '\n')
}

// Default is the configuration without a file.
func Default() *Config {
	c, _ := decode(json.RawMessage("{}"))
	return c
}

// decode makes a Config of a value that may lack what has a default.
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

// address is the host of an address to listen at.
func address(text string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return host, err == nil
}

// check finds what a schema cannot say.
func (c *Config) check() (issues []toolyard.Issue) {
	add := func(message string, steps ...string) {
		issues = append(issues, toolyard.Issue{Path: strings.Join(steps, "."), Message: message, Location: steps})
	}
	if host, ok := address(c.Listen); !ok {
		add("must be host:port, such as 127.0.0.1:3001", "listen")
	} else if !c.Anonymous && !IsLoopback(host) && c.Open() {
		add("is reachable from other machines, and unauthenticated callers are accepted; listen on 127.0.0.1, or set callers: keys at every gate or anonymous: true", "listen")
	}
	if _, ok := address(c.Metrics.Listen); !ok && c.Metrics.Listen != "" {
		add("must be host:port, such as 127.0.0.1:9090", "metrics", "listen")
	} else if ok && c.Metrics.Listen == c.Listen {
		add("is the same as listen; choose another address, or omit it", "metrics", "listen")
	}
	if wait := c.Limits.Wait.Std(); wait < 0 || wait > time.Hour {
		add("must be 0s (calls do not wait for a limit) to 1h", "limits", "wait")
	}
	if c.Limits.Timeout <= 0 {
		add("must be greater than zero", "limits", "timeout")
	}
	if c.Limits.Body > 64<<20 {
		add("must be at most 64MiB", "limits", "body")
	}
	if s := c.Scripts; s != nil && (s.Memory < 8<<20 || s.Memory > 1<<30) {
		add("must be 8MiB to 1024MiB", "scripts", "memory")
	}
	if s := c.Scripts; s != nil && s.CPU <= 0 {
		add("must be greater than zero", "scripts", "cpu")
	}
	for name, g := range c.Gates {
		if !gateName.MatchString(name) {
			add("is not a valid gate name: use a-z, 0-9 and -", "gates", name)
		}
		if _, ok := c.Toolsets[g.Toolset]; !ok && g.Toolset != "" {
			add("unknown toolset"+near(g.Toolset, slices.Collect(maps.Keys(c.Toolsets))), "gates", name, "toolset")
		}
	}
	for i, n := range c.Private {
		if _, err := netip.ParsePrefix(string(n)); err != nil {
			add("must be a network such as 10.0.0.0/8", "private", fmt.Sprint(i))
		}
	}
	c.checkServers(add)
	c.checkContract(add)
	return issues
}

// near suggests a name that may have been meant.
func near(name string, names []string) string {
	if near := spelling.Nearest(name, names); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	return ""
}

// IsLoopback reports whether a host to listen on is reachable from this machine only.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
