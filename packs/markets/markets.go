// Package markets provides context from trading services: a caller's holdings on an EVM chain
// (wallet), on Hyperliquid and on Polymarket. The services are public. They are queried with the
// address that the caller has linked, and receive nothing else about the caller.
package markets

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/sources/provider"
	"github.com/toolyard/toolyard/yard"
)

// Options configure a provider.
type Options struct {
	URL     string           // the service's URL; defaults to its public address. Required for a wallet
	Links   yard.Links       // addresses that callers have linked
	Budget  int              // request weight per minute; defaults to the service's own limit
	Chain   int              // for a wallet: the chain that the URL must serve; zero for any
	Tokens  []Token          // for a wallet: tokens whose balances are read
	Private []netip.Prefix   // private networks that may be reached
	Now     func() time.Time // defaults to time.Now
	Log     *slog.Logger     // discards everything if nil
}

// Token is an ERC-20 contract.
type Token struct {
	Symbol   string // read from the contract if empty
	Address  string
	Decimals *int // read from the contract if nil
}

// The kinds of context in this package. Addresses are linked under the same names.
const (
	hyperliquid = "hyperliquid"
	polymarket  = "polymarket"
	wallet      = "wallet"
)

// serviceSettings are the settings that every kind has.
type serviceSettings struct {
	URL    string `json:"url,omitempty" pattern:"^https?://[^/]" doc:"The service's URL. Default: its public URL."`
	Budget int    `json:"budget,omitempty" minimum:"1" doc:"Maximum request weight per minute, in the service's own units."`
}

// walletSettings are the settings of the kind wallet.
type walletSettings struct {
	URL    string          `json:"url" pattern:"^https?://[^/]" doc:"The JSON-RPC URL of a node."`
	Chain  int             `json:"chain,omitempty" minimum:"1" doc:"The chain ID that the node must serve."`
	Tokens []tokenSettings `json:"tokens,omitempty" doc:"Tokens whose balances are included."`
	Budget int             `json:"budget,omitempty" minimum:"1" doc:"Maximum number of requests per minute."`
}

type tokenSettings struct {
	Symbol   string `json:"symbol" minLength:"1" doc:"The symbol to show."`
	Address  string `json:"address" pattern:"^0x[0-9a-fA-F]{40}$" doc:"The contract address."`
	Decimals *int   `json:"decimals,omitempty" minimum:"0" maximum:"36" doc:"The number of decimal places. By default, it is read from the contract."`
}

// Kinds returns the kinds of context that a configuration can enable with this package:
//
//	cli.Main(yard.Options{ProviderKinds: markets.Kinds()})
func Kinds() map[string]yard.ProviderKind {
	kind := func(settings *toolyard.Schema, open func(Options) (*Provider, error)) yard.ProviderKind {
		return yard.ProviderKind{
			Settings: settings, CheckLink: checkLink,
			New: func(s yard.ProviderSetup) (toolyard.ContextProvider, error) {
				o, err := optionsOf(&s)
				if err != nil {
					return nil, err
				}
				return open(o)
			},
		}
	}
	return map[string]yard.ProviderKind{
		hyperliquid: kind(toolyard.SchemaFor[serviceSettings](), NewHyperliquid),
		polymarket:  kind(toolyard.SchemaFor[serviceSettings](), NewPolymarket),
		wallet:      kind(toolyard.SchemaFor[walletSettings](), NewWallet),
	}
}

func checkLink(value string) error {
	_, err := ParseAddress(value)
	return err
}

// optionsOf converts settings from a configuration. A service's settings have no tokens.
func optionsOf(setup *yard.ProviderSetup) (Options, error) {
	var s walletSettings
	if err := json.Unmarshal(setup.Settings, &s); err != nil {
		return Options{}, err
	}
	o := Options{URL: s.URL, Links: setup.Links, Budget: s.Budget, Chain: s.Chain, Private: setup.Private, Now: setup.Now, Log: setup.Log}
	for _, t := range s.Tokens {
		o.Tokens = append(o.Tokens, Token(t))
	}
	return o, nil
}

const (
	fetchWithin = 8 * time.Second // total time for all requests needed for one result
	maxAge      = 5 * time.Minute // maximum age of an as-of time, because the services have only current data
	cacheTTL    = 2 * time.Second
)

// Provider provides a caller's holdings at one service.
type Provider struct {
	kind    string
	links   yard.Links
	fetch   func(ctx context.Context, address string) (any, error)
	client  *client
	cache   *provider.Cache
	share   share
	now     func() time.Time
	log     *slog.Logger
	failing atomic.Bool
}

// service describes a service, independent of the configuration.
type service struct {
	kind, name string
	url        string        // public URL
	path       string        // appended to the URL
	budget     int           // weight per window
	window     time.Duration // window for the budget
	heaviest   int           // maximum weight of one request
}

// newProvider returns a provider that has no fetch function yet.
func newProvider(o *Options, s service) (*Provider, error) {
	if o.Links == nil {
		return nil, fmt.Errorf("context %s: Links is required", s.kind)
	}
	p := &Provider{kind: s.kind, links: o.Links, now: o.Now, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler))}
	if p.now == nil {
		p.now = time.Now
	}
	if o.Budget != 0 {
		s.budget, s.window = o.Budget, time.Minute
	}
	if s.budget < s.heaviest {
		return nil, fmt.Errorf("context %s: budget must be at least %d, the cost of one query", s.kind, s.heaviest)
	}
	var err error
	if p.client, err = newClient(cmp.Or(o.URL, s.url), s, o.Private, p.now); err != nil {
		return nil, fmt.Errorf("context %s: url: %w", s.kind, err)
	}
	p.cache = provider.NewCache(cacheTTL, p.now)
	return p, nil
}

// Close closes idle connections.
func (p *Provider) Close() error {
	p.client.http.Close()
	return nil
}

// Provide returns the caller's holdings at the service. Errors are of type [*toolyard.Error]: NoData if
// the caller has not linked an address or the as-of time is in the past, Unavailable if the service
// fails, and Canceled if the caller disconnected. An empty account yields empty lists.
func (p *Provider) Provide(ctx context.Context, caller toolyard.Caller, asOf time.Time) (json.RawMessage, error) {
	if p.now().Sub(asOf) > maxAge {
		return nil, toolyard.Errorf(toolyard.NoData, "Context %s is not available for a time in the past.", p.kind)
	}
	address, err := p.address(ctx, caller)
	if err != nil {
		return nil, err
	}
	data, err := p.cache.Get(ctx, address, func(ctx context.Context) (json.RawMessage, error) {
		if !p.share.take(caller.ID, p.now()) {
			return nil, p.client.unavailable("you sent too many requests in the last minute", nil)
		}
		return p.ask(ctx, address)
	})
	if err == nil {
		return bytes.Clone(data), nil
	}
	own := *toolyard.AsError(err)     // copied, because other callers may share the error
	if own.Code == toolyard.Timeout { // the service used up the caller's time
		own = *p.client.unavailable("it did not respond in time", err)
	}
	return nil, &own
}

// address returns the address linked for the service itself or, if there is none, the wallet.
func (p *Provider) address(ctx context.Context, caller toolyard.Caller) (string, error) {
	kinds := []string{p.kind, wallet}
	if p.kind == wallet {
		kinds = kinds[1:]
	}
	for _, kind := range kinds {
		linked, err := p.links.Linked(ctx, caller, kind)
		switch {
		case errors.Is(err, context.Canceled):
			return "", toolyard.AsError(err)
		case err != nil:
			return "", &toolyard.Error{Code: toolyard.Unavailable, Message: "Your linked accounts cannot be read right now. Try again later.", Err: err}
		case linked == "":
			continue
		}
		address, err := ParseAddress(linked)
		if err != nil {
			return "", &toolyard.Error{Code: toolyard.NoData, Err: err, Message: "Your " + kind + " link is not a valid address. " + howToLink(kind)}
		}
		return address, nil
	}
	return "", toolyard.Errorf(toolyard.NoData, "You have not linked a %s account. %s", p.kind, howToLink(p.kind))
}

func howToLink(kind string) string {
	return "Link your wallet in the settings, or with `toolyard accounts link CALLER " + kind + " ADDRESS`, and try again."
}

// ask queries the service. It logs when the service starts failing and when it recovers.
func (p *Provider) ask(ctx context.Context, address string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	answer, err := p.fetch(ctx, address)
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // no caller is waiting; the service may be healthy
		return nil, ctx.Err()
	case err != nil:
		if !p.failing.Swap(true) {
			p.log.Warn("context provider is failing", "kind", p.kind, "error", err, "cause", errors.Unwrap(err))
		}
		return nil, err
	}
	if p.failing.Swap(false) {
		p.log.Info("context provider recovered", "kind", p.kind)
	}
	return json.Marshal(answer)
}
