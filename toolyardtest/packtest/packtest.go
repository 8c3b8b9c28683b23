// Package packtest opens packs in tests that have no yard.
//
//	p := packtest.Open(t, parcels.Pack(), packtest.Options{Settings: `{"url":"` + server.URL + `"}`, HTTP: server.Client()})
//	res, err := toolyardtest.Call(t, p.Tool("track_parcel"), `{"id":"P-1"}`, &toolyardtest.Options{Clients: p.Lend(yard.PackGate{Name: "shop"})})
package packtest

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/yard"
)

// Options control how a pack is opened. The zero value opens it with no settings.
type Options struct {
	Settings string           // JSON object; empty means {}. Secret references are not replaced
	Dir      string           // defaults to a temporary folder
	HTTP     *http.Client     //nolint:forbidigo // of the test; nil for http.DefaultClient
	Journal  yard.Journal     // defaults to a new in-memory journal
	Now      func() time.Time // defaults to time.Now
}

// Pack is an open pack. It is closed when the test ends.
type Pack struct {
	Source  toolyard.Source
	Journal yard.Journal
	Offer   toolyard.Offer // the pack's first offer

	t    testing.TB
	pack yard.Pack
}

// timeout limits how long a pack may take to publish its offer and to stop, even on a busy machine.
const timeout = 30 * time.Second

// Open opens a pack, runs its source and waits for its first offer. It fails the test if the
// settings are invalid, or if the pack does not open, publish or stop.
func Open(t testing.TB, pack yard.Pack, o Options) *Pack {
	t.Helper()
	p, err := TryOpen(t, pack, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TryOpen is like Open, but returns an error if the settings are invalid or the pack cannot be
// opened.
func TryOpen(t testing.TB, pack yard.Pack, o Options) (*Pack, error) {
	t.Helper()
	settings, err := complete(t, pack.Settings, o.Settings)
	if err != nil {
		return nil, err
	}
	setup := yard.PackSetup{
		Settings: settings, Dir: o.Dir, HTTP: o.HTTP, Journal: o.Journal, Now: o.Now, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if setup.Dir == "" {
		setup.Dir = t.TempDir()
	}
	if setup.HTTP == nil {
		setup.HTTP = http.DefaultClient //nolint:forbidigo // reaches fakes only
	}
	if setup.Journal == nil {
		setup.Journal = yard.MemoryJournal()
	}
	if setup.Now == nil {
		setup.Now = time.Now
	}
	source, err := pack.Open(t.Context(), setup)
	if err != nil {
		return nil, err
	}
	p := &Pack{Source: source, Journal: setup.Journal, t: t, pack: pack}
	p.run()
	return p, nil
}

// run runs the source until the test ends, and waits for its first offer.
func (p *Pack) run() {
	p.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	offers, ended := make(chan toolyard.Offer, 1), make(chan error, 1)
	go func() {
		ended <- p.Source.Run(ctx, func(o toolyard.Offer) {
			select {
			case offers <- o:
			default: // only the first offer matters
			}
		})
	}()
	p.t.Cleanup(func() {
		stop()
		select {
		case <-ended:
		case <-time.After(timeout):
			p.t.Error("Run did not return after its context ended")
		}
		if c, ok := p.Source.(io.Closer); ok {
			if err := c.Close(); err != nil {
				p.t.Error(err)
			}
		}
	})
	select {
	case p.Offer = <-offers:
	case err := <-ended:
		ended <- err // the cleanup reads this too
		select {
		case p.Offer = <-offers:
		default:
			p.t.Fatalf("Run returned before publishing an offer: %v", err)
		}
	case <-time.After(timeout):
		p.t.Fatal("the pack did not publish an offer")
	}
}

// Tool returns the tool with this name from the first offer. It fails the test if there is none.
func (p *Pack) Tool(name string) *toolyard.Tool {
	p.t.Helper()
	return find(p.t, "tool", name, p.Offer.Tools)
}

// Action returns the operators' action with this name. It fails the test if there is none.
func (p *Pack) Action(name string) *toolyard.Tool {
	p.t.Helper()
	var actions []*toolyard.Tool
	if o, ok := p.Source.(yard.Operator); ok {
		actions = o.Actions()
	}
	return find(p.t, "action", name, actions)
}

func find(t testing.TB, kind, name string, tools []*toolyard.Tool) *toolyard.Tool {
	t.Helper()
	for _, tool := range tools {
		if tool.Name == name {
			return tool
		}
	}
	t.Fatalf("the pack has no %s %s", kind, name)
	return nil
}

// Lend returns the clients that the pack lends to a gate. It fails the test if the gate's settings
// are invalid or if the pack refuses them.
func (p *Pack) Lend(g yard.PackGate) *toolyard.Clients {
	p.t.Helper()
	clients, err := p.TryLend(g)
	if err != nil {
		p.t.Fatal(err)
	}
	return clients
}

// TryLend is like Lend, but returns an error instead of failing the test.
func (p *Pack) TryLend(g yard.PackGate) (*toolyard.Clients, error) {
	p.t.Helper()
	if g.Mode == "" {
		g.Mode = toolyard.Write
	}
	if g.Settings != nil {
		settings, err := complete(p.t, p.pack.GateSettings, string(g.Settings))
		if err != nil {
			return nil, err
		}
		g.Settings = settings
	}
	l, ok := p.Source.(yard.Lender)
	if !ok {
		return nil, nil
	}
	return l.Lend(g)
}

// complete sets the defaults of settings and validates them.
func complete(t testing.TB, schema *toolyard.Schema, settings string) (json.RawMessage, error) {
	t.Helper()
	if settings == "" {
		settings = "{}"
	}
	if schema == nil {
		schema = toolyard.SchemaFor[struct{}]()
	}
	completed, issues, err := schema.Complete(t.Context(), json.RawMessage(settings))
	if len(issues) > 0 {
		return nil, &toolyard.Error{Code: toolyard.Invalid, Message: "invalid settings", Issues: issues}
	}
	return completed, err
}
