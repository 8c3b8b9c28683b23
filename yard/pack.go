package yard

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/toolyard/toolyard"
)

// Pack is a set of tools with its own settings. A program registers packs in Options.Packs,
// and the configuration enables them:
//
//	packs:
//	  home: {url: "http://192.168.1.5:8123", token: "${secret:home}"}
//	gates:
//	  family: {mode: write, packs: {home: {floor: ground}}}
type Pack struct {
	Settings     *toolyard.Schema // schema of packs.NAME; nil if the pack has no settings
	GateSettings *toolyard.Schema // schema of gates.GATE.packs.NAME; nil if gates have no settings for the pack

	// Open validates the settings and returns the pack's source, which offers its tools. It must
	// return quickly and must not wait for the network: connect in the source's Run method, or on
	// first use. Do not use the context after Open has returned. Validating a configuration also
	// opens packs, and closes them without running them.
	//
	// If the error has [toolyard.Issue]s, each is reported at the line that its path refers to. The
	// source may implement [io.Closer], [Lender] and [Operator]. It is closed when the
	// configuration no longer contains the pack or its settings change, after its Run has returned.
	Open func(context.Context, PackSetup) (toolyard.Source, error)

	Commands []PackCommand // commands that the pack adds to the command line
}

// PackSetup is the environment in which a pack is opened.
type PackSetup struct {
	Settings json.RawMessage // validated against Pack.Settings, with defaults set and secret references replaced
	Dir      string          // folder of the configuration file; paths in the settings are relative to it

	// HTTP enforces the yard's address rules and limits requests and responses. It supports
	// WebSocket upgrades: the body of a response with status 101 is the connection.
	HTTP *http.Client //nolint:forbidigo // made by internal/trust/outbound

	Journal Journal // stored if the yard has a store, otherwise in memory; its streams are private to the pack
	Now     func() time.Time
	Log     *slog.Logger
}

// Lender is implemented by pack sources that lend clients to a gate's calls, such as a broker for
// the gate's account. Tools use them with [toolyard.Client].
type Lender interface {
	// Lend returns the clients for a gate's calls, or nil if there are none. It is called for every
	// gate whenever the configuration is loaded, before any call. An error refuses the
	// configuration.
	Lend(PackGate) (*toolyard.Clients, error)
}

// PackGate is a gate to which a pack lends clients.
type PackGate struct {
	Name        string
	Mode        toolyard.Mode
	CallerClock bool            // whether callers can set the as-of time
	Settings    json.RawMessage // gates.GATE.packs.NAME, validated against Pack.GateSettings; nil if the gate has none
}

// Operator is implemented by pack sources that have actions for operators, such as stopping all
// trading. Actions are never offered to models: they are not part of the catalog, and operators can
// run them only through the command line, the API and the console. Every run is audited.
//
// The caller of an action is the operator. The call has no gate and no clients. An action that is
// not read-only requires confirmation in the console.
type Operator interface {
	// Actions is called once, after Open.
	Actions() []*toolyard.Tool
}

// PackCommand is a command that a pack adds to the command line as `toolyard PACK NAME`.
type PackCommand struct {
	Name  string              // one or more words, such as "backtest" or "bars fetch"
	Args  string              // positional arguments for the usage line, such as "SYMBOL..."
	Short string              // one line with no final period
	Long  string              // defaults to Short
	Flags func(*flag.FlagSet) // defines the flags; may be nil
	Run   func(context.Context, PackCommandSetup) error
}

// PackCommandSetup is the environment of a pack's command. The yard is open and its sources run, so
// its tools can be called, but it does not serve requests.
type PackCommandSetup struct {
	Args   []string        // positional arguments
	Flags  *flag.FlagSet   // already parsed
	Source toolyard.Source // the open pack's source; nil if the configuration does not enable the pack
	Yard   *Yard
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}
