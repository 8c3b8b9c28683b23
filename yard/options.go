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

// Options configure a yard. The zero value is a yard without tools.
type Options struct {
	Tools   []*toolyard.Tool           // tools written in Go
	Sources map[string]toolyard.Source // more sources of tools, by name
	Scripts Scripts                    // a directory of TypeScript tools
	Clients *toolyard.Clients          // clients that tools can borrow

	// Policies are steps of the call path, in order. They see calls whose arguments are valid and
	// that have not been charged yet. A policy that returns an error refuses the call.
	Policies []toolyard.Policy

	Recorders     []toolyard.Recorder                 // notified of every call
	Providers     map[string]toolyard.ContextProvider // context for tools, by kind
	ProviderKinds map[string]ProviderKind             // more kinds of context, which the configuration enables

	Packs  map[string]Pack        // packs, by name, which the configuration enables
	Models map[string]model.Model // language models for agents, by name, in addition to those in the configuration

	ConfigFile string // empty for none
	Store      string // overrides the store in the file; without a file, the configuration is read from this store and kept up to date
	Gates      []Gate // entry points; gates in the file replace those with the same name

	// Identify authenticates an HTTP request; an error refuses it. The roles viewer and operator
	// let a caller read and change things in the API and the console. If nil, callers authenticate
	// with API keys if there is a store, and are anonymous otherwise.
	Identify func(*http.Request) (toolyard.Caller, error)

	Log     *slog.Logger // nil to discard
	Process Process
	Command Command
}

// Gate is an entry point with its own rules, served at /mcp/{name}. A yard without gates offers
// all tools at /mcp.
type Gate struct {
	Name        string
	Mode        toolyard.Mode    // a gate in mode Read offers only tools that declare that they only read
	Surface     toolyard.Surface // empty for both
	Tools       []string         // local tools to offer; all tools if Tools and Servers are empty
	Servers     []string         // IDs of servers whose tools are offered
	RequireAuth bool             // refuse unauthenticated callers
	Naming      string           // how tools are named: plain, mcp or client; empty for mcp
	Errors      string           // how failures are reported: result or protocol; empty for result
	SourceNotes string           // whether descriptions include a tool's file path: off, relative or absolute; empty for off
	CallerClock bool             // callers can set the as-of time of their calls, for backtests
	Offer       string           // what the gate lists: tools, search (meta-tools that find and call tools) or code (also a tool that runs code); empty for tools
	Pinned      []string         // tools to list in addition if Offer is search or code
	Show        int              // bytes of a long result to send to the client; zero for the offer's default
}

// check reports a value that does not exist.
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
	Now     func() time.Time            // nil for time.Now
	Getenv  func(string) (string, bool) // nil for os.LookupEnv
}

// Command holds options of command-line programs. Programs that embed a yard seldom need them.
type Command struct {
	Samples         []*toolyard.Tool // tools to offer if there are no others
	RequireApproval bool             // require approval of every server definition, including the first
	SourceNotes     string           // for gates that do not set it: off, relative or absolute
	LiveArguments   string           // how much of the arguments live observers see: off, shape or full; empty for as much as is recorded
	CheckSecrets    bool             // report every configured secret that cannot be read as a problem

	TLSCert, TLSKey string // certificate files for Serve; override those in the configuration

	URL string // URL at which people reach this process, for links to connect to servers; overrides url in the configuration

	// OperatorToken grants the role operator while the yard runs, which gives access to the console
	// of a yard without API keys. Empty for none.
	OperatorToken string

	// OpenLog opens the log with the configured settings. It is used instead of Options.Log.
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
