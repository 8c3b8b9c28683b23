package yard

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
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

	ConfigFile string       // empty for none
	Store      string       // overrides the store of the file; without a file, the configuration is read from it and followed
	Gates      []gates.Gate // gates of the file replace them by name

	// Identify authenticates an HTTP request; an error refuses it. The roles viewer and operator
	// let a caller read and change things in the API and the console. If nil, callers authenticate
	// with API keys if there is a store, and are anonymous otherwise.
	Identify func(*http.Request) (toolyard.Caller, error)

	Log     *slog.Logger // nil to discard
	Process Process
	Command Command
}

// Process describes the program that a yard runs in.
type Process struct {
	Version string                      // shown to clients
	Now     func() time.Time            // nil for time.Now
	Getenv  func(string) (string, bool) // nil for os.LookupEnv
}

// Command holds options of command-line programs. Programs that embed a yard seldom need them.
type Command struct {
	Samples         []*toolyard.Tool  // tools of a yard that has no others
	RequireApproval bool              // require approval of every definition of a server, even of the first
	SourceNotes     gates.SourceNotes // for gates that do not set notes
	LiveArguments   string            // how much of arguments live observers see: off, shape or full; empty for as much as is recorded

	// OperatorToken grants the role operator while the yard runs: the way into the console of a
	// yard without API keys. Empty for none.
	OperatorToken string

	// OpenLog opens the log that the configuration asks for, which is used instead of Options.Log.
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
			return fmt.Errorf("Options.Sources: the name %q is reserved", name)
		}
	}
	return nil
}

func (o *Options) loader() settings.Options {
	return settings.Options{
		File: o.ConfigFile, Store: o.Store, Getenv: o.Process.Getenv, Gates: o.Gates, Notes: o.Command.SourceNotes,
		Sources: slices.Collect(maps.Keys(o.Sources)), Providers: slices.Collect(maps.Keys(o.Providers)), ProviderKinds: slices.Sorted(maps.Keys(o.ProviderKinds)),
	}
}
