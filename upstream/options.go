package upstream

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
)

// Transport is a way to exchange messages with a server.
type Transport string

// The transports. Empty means stdio for a command. For a URL, it means HTTP, with HTTP+SSE as a
// fallback for old servers.
const (
	TransportStdio Transport = "stdio"
	TransportHTTP  Transport = "http"
	TransportSSE   Transport = "sse"
)

// Options configure a server. ID and either Command or URL are required.
type Options struct {
	ID        string // part of its tools' names
	Transport Transport

	Command []string                 // program and arguments
	Dir     string                   // working directory
	Env     func() ([]string, error) // returns KEY=VALUE pairs; called at each start and every 10 s. After a change, the process is restarted once its calls have ended. May be nil

	URL         string
	Headers     func() (http.Header, error) // returns headers for every request; called for each session and every 10 s. May be nil
	Authorizer  Authorizer                  // provides credentials for requests to the URL; may be nil
	Private     []netip.Prefix              // non-public networks that the URL may resolve to
	Connections int                         // number of idle connections to keep; zero for 16

	Exposure
	Limits
	ClientInfo

	// PerCaller means that the Authorizer has separate credentials for each caller. Only tools are
	// offered then, because other lists may be personal, and each caller has its own session with a
	// legacy server.
	PerCaller bool

	owner *toolyard.Call // owner of the session; nil for the yard's own session

	Redact func(string) string // redacts secrets in the server's text; may be nil
	Log    *slog.Logger        // may be nil
}

// Exposure controls which of a server's definitions are offered, and how they are classified.
type Exposure struct {
	Tools     []string                 // tools to offer; all if empty
	Resources []string                 // resources that may be read; all if empty
	Effects   map[string]toolyard.Mode // keyed by tool; * applies to all other tools
	Trust     bool                     // whether to trust the server's annotations
	Pins      Pins                     // pins are kept in memory if nil
	Pinning   Pinning
}

// Limits are the limits on a server's calls.
type Limits struct {
	Timeout   time.Duration            // zero for DefaultTimeout
	Timeouts  map[string]time.Duration // keyed by tool
	MaxArgs   int                      // in bytes; zero for the yard's default
	MaxResult int                      // in bytes; zero for the yard's default
}

// ClientInfo identifies the yard to a server.
type ClientInfo struct {
	Name, Version string // default to toolyard and dev
	Self          string // ID of the yard, to detect a server that is the yard itself; may be empty
}

// DefaultTimeout is the timeout for calls if none is configured.
const DefaultTimeout = 10 * time.Second

// complete validates the options and fills in defaults.
func (o *Options) complete() error {
	if err := ident.CheckServerID(o.ID); err != nil {
		return err
	}
	if (len(o.Command) == 0) == (o.URL == "") {
		return fmt.Errorf("server %s: set either command or url", o.ID)
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Connections = cmp.Or(o.Connections, 16)
	o.Name, o.Version = cmp.Or(o.Name, "toolyard"), cmp.Or(o.Version, "dev")
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("server", o.ID)
	if o.Pins == nil {
		o.Pins = &memory{}
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	return nil
}

// timeoutOf returns the timeout for calls of a tool.
func (o *Options) timeoutOf(tool string) time.Duration { return cmp.Or(o.Timeouts[tool], o.Timeout) }

// terms returns a tool's terms.
func (o *Options) terms(timeout time.Duration) toolyard.Terms {
	return toolyard.Terms{Timeout: timeout, MaxArgs: o.MaxArgs, MaxResult: o.MaxResult}
}

// maxDrain limits how long to wait for calls in flight when a session ends.
const maxDrain = 30 * time.Second

// longestTimeout returns the maximum duration of any call, up to maxDrain.
func (o *Options) longestTimeout() time.Duration {
	longest := o.Timeout
	for _, t := range o.Timeouts {
		longest = max(longest, t)
	}
	return min(longest, maxDrain)
}
