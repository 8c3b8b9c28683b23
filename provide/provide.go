// Package provide asks services elsewhere what a caller has there: positions, balances, tokens.
// It hands over data, never credentials. The services are public and are asked by the address
// that the caller linked; nothing else of the caller leaves the house.
package provide

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
)

// Links knows which accounts elsewhere a caller has linked.
type Links interface {
	// Linked is the address that the caller linked as kind, and "" for none.
	Linked(ctx context.Context, caller toolyard.Caller, kind string) (string, error)
}

// Options say where a provider asks, and how much.
type Options struct {
	URL     string           // where the service is; its public address when empty, which a wallet has none of
	Links   Links            // whose account is whose
	Budget  int              // what may be asked in a minute, in the weights of the service; its own limit when zero
	Chain   int              // for a wallet: the chain that the URL must be of; any when zero
	Tokens  []Token          // for a wallet: the tokens whose balances are read
	Private []netip.Prefix   // addresses that may be reached although they are not public
	Now     func() time.Time // nil for time.Now
	Log     *slog.Logger     // nil for none
}

// Token is a contract that keeps balances.
type Token struct {
	Symbol   string // what people call it; asked when it is empty
	Address  string
	Decimals *int // how many digits are behind the point; asked when it is nil
}

// The kinds of context that this package provides, which are also what an address is linked as.
const (
	hyperliquid = "hyperliquid"
	polymarket  = "polymarket"
	wallet      = "wallet"
)

// makers make the provider of each kind.
var makers = map[string]func(Options) (*Provider, error){
	hyperliquid: NewHyperliquid,
	polymarket:  NewPolymarket,
	wallet:      NewWallet,
}

// Kinds are the kinds of context that this package provides. An account of each is linked by
// the address of a wallet.
func Kinds() []string { return slices.Sorted(maps.Keys(makers)) }

// New makes the provider of a kind.
func New(kind string, o Options) (*Provider, error) {
	if maker := makers[kind]; maker != nil {
		return maker(o)
	}
	return nil, fmt.Errorf("%s is no kind of context; there are %s", kind, strings.Join(Kinds(), ", "))
}

const (
	fetchWithin = 8 * time.Second // for all requests that one answer takes
	maxAge      = 5 * time.Minute // how far back a live service may stand for the past
)

// Provider answers with what a caller has at one service.
type Provider struct {
	kind    string
	links   Links
	fetch   func(ctx context.Context, address string) (any, error)
	client  *client
	recent  *recent
	share   share
	now     func() time.Time
	log     *slog.Logger
	failing atomic.Bool
}

// service is what is known of a service beside what the operator says.
type service struct {
	kind, name string
	url        string        // its public address
	path       string        // below the URL
	budget     int           // how much weight it takes
	window     time.Duration // in which time
	heaviest   int           // the most weight that is asked for at once
}

// newProvider makes a provider that lacks its fetch.
func newProvider(o *Options, s service) (*Provider, error) {
	if o.Links == nil {
		return nil, fmt.Errorf("context %s: nobody says who has linked which account; set Links", s.kind)
	}
	p := &Provider{kind: s.kind, links: o.Links, now: o.Now, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler))}
	if p.now == nil {
		p.now = time.Now
	}
	if o.Budget != 0 {
		s.budget, s.window = o.Budget, time.Minute
	}
	if s.budget < s.heaviest {
		return nil, fmt.Errorf("context %s: its budget must be at least %d, which is what one answer takes", s.kind, s.heaviest)
	}
	var err error
	if p.client, err = newClient(cmp.Or(o.URL, s.url), s, o.Private, p.now); err != nil {
		return nil, fmt.Errorf("context %s: url: %w", s.kind, err)
	}
	p.recent = newRecent(p.now)
	return p, nil
}

// Close closes the connections that nobody uses.
func (p *Provider) Close() { p.client.http.Close() }

// Provide answers with what the caller has at the service. There are three ways to end without
// an answer, all of type [*toolyard.Error]: NoData when the caller has linked nothing or asks
// about the past, Unavailable when the service does not answer as it should, and Canceled when
// the caller went away. A caller who linked an account in which there is nothing gets empty lists.
func (p *Provider) Provide(ctx context.Context, caller toolyard.Caller, asOf time.Time) (json.RawMessage, error) {
	if p.now().Sub(asOf) > maxAge {
		return nil, toolyard.Errorf(toolyard.NoData, "There is no %s context for a time in the past: its service only knows the present.", p.kind)
	}
	address, err := p.address(ctx, caller)
	if err != nil {
		return nil, err
	}
	data, err := p.recent.get(ctx, address, func(ctx context.Context) (json.RawMessage, error) {
		if !p.share.take(caller.ID, p.now()) {
			return nil, p.client.unavailable("you have asked it too often within a minute", nil)
		}
		return p.ask(ctx, address)
	})
	if err == nil {
		return bytes.Clone(data), nil
	}
	own := *toolyard.AsError(err)     // others may have got the same
	if own.Code == toolyard.Timeout { // the caller's time is over, which the service took
		own = *p.client.unavailable("it did not answer in time", err)
	}
	return nil, &own
}

// address is what the caller linked: an account of the service itself, or else a wallet.
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
			return "", &toolyard.Error{Code: toolyard.Unavailable, Message: "It cannot be looked up now which accounts you have linked; try again later.", Err: err}
		case linked == "":
			continue
		}
		address, err := ParseAddress(linked)
		if err != nil {
			return "", &toolyard.Error{Code: toolyard.NoData, Err: err, Message: "What you linked as " + kind + " is not an address; " + howToLink(kind)}
		}
		return address, nil
	}
	return "", toolyard.Errorf(toolyard.NoData, "You have not linked a %s account; %s", p.kind, howToLink(p.kind))
}

func howToLink(kind string) string {
	return "link your wallet in the settings, or with `toolyard accounts link CALLER " + kind + " ADDRESS`, and ask again."
}

// ask asks the service. It logs when the service begins to fail and when that is over.
func (p *Provider) ask(ctx context.Context, address string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	answer, err := p.fetch(ctx, address)
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // nobody waits any more, which says nothing about the service
		return nil, ctx.Err()
	case err != nil:
		if !p.failing.Swap(true) {
			p.log.Warn("context provider fails", "kind", p.kind, "error", err, "cause", errors.Unwrap(err))
		}
		return nil, err
	}
	if p.failing.Swap(false) {
		p.log.Info("context provider works again", "kind", p.kind)
	}
	return json.Marshal(answer)
}
