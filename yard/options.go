package yard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent/model"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

// DefaultGate is the name of the gate at /mcp.
const DefaultGate = config.DefaultGate

// Options configure a yard. The zero value is a yard that has no tools.
type Options struct {
	Tools   []*toolyard.Tool           // Go tools
	Sources map[string]toolyard.Source // more sources of tools, by name
	Scripts Scripts                    // a directory of TypeScript tools
	Clients *toolyard.Clients          // clients lent to tools

	// Policies are steps of the call path, in order. They run after the arguments are validated and
	// before the call is charged. A policy that returns an error refuses the call.
	Policies []toolyard.Policy

	Recorders     []toolyard.Recorder                 // notified of every call
	Providers     map[string]toolyard.ContextProvider // providers of context, by kind
	ProviderKinds map[string]ProviderKind             // more kinds of context that the configuration can enable

	Packs  map[string]Pack        // packs that the configuration can enable, by name
	Models map[string]model.Model // language models for agents, by name, in addition to those in the configuration

	ConfigFile string // path of the configuration file; may be empty
	Store      string // overrides the file's store; if there is no file, the configuration is read from this store and kept current
	Gates      []Gate // gates in the file replace those with the same name

	// Identify authenticates an HTTP request; an error refuses it. The roles viewer and operator
	// let a caller read and change things in the API and the console. If Identify is nil, callers
	// authenticate with API keys or, if there is no store, are anonymous.
	Identify func(*http.Request) (toolyard.Caller, error)

	Log     *slog.Logger // discards everything if nil
	Process Process
	Command Command
}

// Gate is an entry point with its own rules, served at /mcp/{name}. A yard that has no gates offers
// all tools at /mcp.
type Gate struct {
	Name        string
	Mode        toolyard.Mode    // mode Read offers only tools that declare that they change nothing
	Surface     toolyard.Surface // empty means both
	Tools       []string         // local tools to offer; all tools if Tools and Servers are empty
	Servers     []string         // IDs of servers whose tools are offered
	RequireAuth bool             // whether unauthenticated callers are refused
	Naming      string           // naming scheme for tools: plain, mcp or client; defaults to mcp
	Errors      string           // how failures are reported: result or protocol; defaults to result
	SourceNotes string           // file paths in tool descriptions: off, relative or absolute; defaults to off
	CallerClock bool             // whether callers can set the as-of time of their calls, for backtests
	Offer       string           // contents of the tool list: tools, search (meta-tools that find and call tools) or code (also a tool that runs code); defaults to tools
	Pinned      []string         // tools to list as well if Offer is search or code
	Show        int              // how many bytes of a long result to send to the client; zero for the offer's default
}

// check returns an error if a field has an invalid value.
func (g *Gate) check() error {
	for _, field := range []struct {
		name, value string
		valid       []string
	}{
		{"Naming", g.Naming, []string{"plain", "mcp", "client"}},
		{"Errors", g.Errors, []string{"result", "protocol"}},
		{"SourceNotes", g.SourceNotes, []string{"off", "relative", "absolute"}},
		{"Offer", g.Offer, []string{"tools", "search", "code"}},
	} {
		if field.value != "" && !slices.Contains(field.valid, field.value) {
			return fmt.Errorf("Options.Gates: gate %q: %s %q is not one of %s", g.Name, field.name, field.value, strings.Join(field.valid, ", "))
		}
	}
	return nil
}

func (g *Gate) gate() gates.Gate {
	gate := gates.Gate{
		Name: g.Name, Mode: g.Mode, Surface: g.Surface, RequireAuth: g.RequireAuth,
		CallerClock: g.CallerClock, Naming: gates.Naming(g.Naming), Errors: gates.ErrorStyle(g.Errors), SourceNotes: gates.SourceNotes(g.SourceNotes),
		Presentation: gates.Presentation{Offer: gates.Offer(g.Offer), Pinned: g.Pinned, Show: g.Show},
	}
	if g.Show == 0 && !gate.ListsAll() {
		gate.Show = gates.DefaultShow
	}
	if len(g.Tools)+len(g.Servers) > 0 {
		gate.Toolset = &gates.Toolset{Name: g.Name, Tools: g.Tools}
		for _, id := range g.Servers {
			gate.Toolset.Servers = append(gate.Toolset.Servers, gates.ServerPick{ID: id})
		}
	}
	return gate
}

// Process describes the program that a yard runs in.
type Process struct {
	Version string                      // shown to clients
	Now     func() time.Time            // defaults to time.Now
	Getenv  func(string) (string, bool) // defaults to os.LookupEnv
}

// Command contains options for command-line programs. Programs that embed a yard seldom need them.
type Command struct {
	Samples         []*toolyard.Tool // tools to offer if there are no others
	RequireApproval bool             // whether every server definition requires approval, even the first
	SourceNotes     string           // default for gates that do not set it: off, relative or absolute
	LiveArguments   string           // how much of the arguments observers of live calls see: off, shape or full; defaults to the recorded part
	CheckSecrets    bool             // whether to report every unreadable secret in the configuration as a problem

	TLSCert, TLSKey string // certificate files for Serve; override those in the configuration

	URL string // URL at which people reach this process, for sign-in links; overrides url in the configuration

	// OperatorToken grants the role operator while the yard runs. It gives access to the console of
	// a yard that has no API keys. It may be empty.
	OperatorToken string

	// OpenLog opens the log with the configured settings. If set, it replaces Options.Log.
	OpenLog func(level, format, file string) (*slog.Logger, error)
}

// complete sets defaults.
func (o *Options) complete() error {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Process.Now == nil {
		o.Process.Now = time.Now
	}
	if o.Process.Getenv == nil {
		o.Process.Getenv = os.LookupEnv //nolint:forbidigo // for programs that embed a yard
	}
	for _, name := range []string{"go", "scripts"} {
		if o.Sources[name] != nil {
			return fmt.Errorf("Options.Sources: name %q is reserved", name)
		}
	}
	for i := range o.Gates {
		if err := o.Gates[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (o *Options) loader() settings.Options {
	list := make([]gates.Gate, len(o.Gates))
	for i, g := range o.Gates {
		list[i] = g.gate()
	}
	return settings.Options{
		File: o.ConfigFile, Store: o.Store, Getenv: o.Process.Getenv, Gates: list, SourceNotes: gates.SourceNotes(o.Command.SourceNotes),
		Sources: slices.Collect(maps.Keys(o.Sources)), Providers: slices.Collect(maps.Keys(o.Providers)), ProviderKinds: slices.Sorted(maps.Keys(o.ProviderKinds)),
	}
}

// ConfigSchema returns the JSON Schema of the configuration file, for editors. It includes the
// settings of the packs and context kinds in the options.
func ConfigSchema(opts Options) json.RawMessage {
	e := config.Extensions{Contexts: make(map[string]*toolyard.Schema), Packs: make(map[string]*toolyard.Schema), GatePacks: make(map[string]*toolyard.Schema)}
	for kind, k := range opts.ProviderKinds {
		e.Contexts[kind] = k.Settings
	}
	for name, p := range opts.Packs {
		if e.Packs[name] = p.Settings; p.GateSettings != nil {
			e.GatePacks[name] = p.GateSettings
		}
	}
	return config.Schema(e)
}
