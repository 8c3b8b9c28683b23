// Package trading is a pack for agents that trade perpetuals: market data, news, a portfolio, an
// engine whose rules every order has to pass, and tools that explain every decision.
//
// A gate is bound to an account, which is a broker with a mandate and a journal. A read gate and a
// write gate with the same account share its journal, so a chat can explain what an agent did but
// cannot trade itself. At a gate with clock: caller, the same tools work at past times, so a
// backtest is just another way to use them.
//
// Some words differ from those of the platform. An account is an account at a broker, with money to
// trade; it does not pay for calls. A ledger is the state of such an account, folded from its
// journal, and unrelated to limits and prices. A mark is the price at which the venue values
// positions ([paper.Mark] records how far a paper account is settled), and a watermark the equity
// that losses are measured from. A session is a session of the platform: a decision's observations
// come from the same session.
package trading

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/account"
	"github.com/toolyard/toolyard/packs/trading/engine"
	"github.com/toolyard/toolyard/packs/trading/hyperliquid"
	"github.com/toolyard/toolyard/packs/trading/market"
	"github.com/toolyard/toolyard/packs/trading/paper"
	"github.com/toolyard/toolyard/yard"
)

// Pack returns the pack.
func Pack() yard.Pack { return packWith(connect) }

// packWith returns the pack with the given source of market data.
func packWith(connect connector) yard.Pack {
	return yard.Pack{
		Settings: toolyard.SchemaFor[settings](), GateSettings: toolyard.SchemaFor[gateSettings](),
		Open:     func(_ context.Context, setup yard.PackSetup) (toolyard.Source, error) { return open(setup, connect) },
		Commands: commands(),
	}
}

// gateSettings bind a gate to an account.
type gateSettings struct {
	Account string `json:"account" minLength:"1" doc:"The account that the gate's tools work with."`
}

// Source is the open pack.
type Source struct {
	setup    yard.PackSetup
	feed     *feed
	accounts map[string]*tradedAccount

	mu        sync.Mutex
	simulated map[string]string // a gate with clock: caller, keyed by account
	written   map[string]string // a write gate that uses the system clock, keyed by account
}

// tradedAccount is an account and its brokers.
type tradedAccount struct {
	*account.Account
	broker    market.Broker // for the present; nil if the account cannot trade
	simulator market.Broker // for a caller's time; nil if the account is live
	paper     *paper.Account
}

func open(setup yard.PackSetup, connect connector) (*Source, error) {
	var s settings
	if err := json.Unmarshal(setup.Settings, &s); err != nil {
		return nil, err
	}
	feed, err := connect(&s, setup)
	if err != nil {
		return nil, err
	}
	src := &Source{setup: setup, feed: feed, accounts: map[string]*tradedAccount{}, simulated: map[string]string{}, written: map[string]string{}}
	base := s.Risk.mandate(engine.DefaultMandate())
	signers := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Accounts)) {
		a := s.Accounts[name]
		if other := signers[a.AgentKey]; a.AgentKey != "" && other != "" {
			return nil, fmt.Errorf("accounts.%s: agentKey is also used by account %s; each account needs its own agent", name, other)
		}
		signers[a.AgentKey] = name
		traded, err := src.openAccount(name, &a, base, setup.Journal)
		if err != nil {
			return nil, fmt.Errorf("accounts.%s: %w", name, err)
		}
		src.accounts[name] = traded
	}
	return src, nil
}

func (src *Source) openAccount(name string, s *accountSettings, base engine.Mandate, j yard.Journal) (*tradedAccount, error) {
	mandate := s.Risk.mandate(base)
	if err := mandate.CheckTightens(&base); err != nil {
		return nil, fmt.Errorf("risk: %w", err)
	}
	if !accountName.MatchString(name) {
		return nil, errors.New("an account name must consist of a-z, 0-9 and -")
	}
	o := account.Options{
		Name: name, BrokerName: s.Broker, Mandate: mandate, Submit: s.submission(), Data: src.feed, Interval: s.Interval,
		Journal: j, Now: src.setup.Now, Log: src.setup.Log,
	}
	t := &tradedAccount{}
	if s.Broker == "paper" {
		if err := s.checkPaper(); err != nil {
			return nil, err
		}
		t.paper = paper.Open(name, s.paper(), j, src.feed)
		t.broker, t.simulator, o.Portfolio = t.paper.Broker(), t.paper.Simulator(), t.paper
	} else {
		if src.feed.venue == nil {
			return nil, errors.New("broker hyperliquid is not available here")
		}
		live, err := hyperliquid.NewAccount(src.feed.venue, s.Address)
		if err != nil {
			return nil, err
		}
		o.Portfolio = live
		if s.AgentKey != "" {
			if t.broker, err = hyperliquid.NewBroker(live, s.AgentKey, s.Live); err != nil {
				return nil, err
			}
		}
	}
	t.Account = account.New(o)
	return t, nil
}

// Run publishes the tools. They need no connection at this point: a tool that needs one connects
// when it is called. Run then verifies the live accounts and publishes problems with them.
func (src *Source) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	offer := toolyard.Offer{Tools: observed(Tools())}
	publish(offer)
	src.watchAccounts(ctx, func(problems []toolyard.Problem) {
		offer.Problems = problems
		publish(offer)
	})
	<-ctx.Done()
	return nil
}

// Close closes connections.
func (src *Source) Close() error {
	if src.feed.closer != nil {
		return src.feed.closer.Close()
	}
	return nil
}

var _ interface {
	toolyard.Source
	io.Closer
	yard.Lender
	yard.Operator
} = (*Source)(nil)

// Lend lends market data to every gate, and the account and its broker to the gates that are bound
// to it. It lends the broker only in mode write.
func (src *Source) Lend(g yard.PackGate) (*toolyard.Clients, error) {
	clients := &toolyard.Clients{}
	src.feed.lend(clients)
	if g.Settings == nil {
		return clients, nil
	}
	var s gateSettings
	if err := json.Unmarshal(g.Settings, &s); err != nil {
		return nil, err
	}
	a, ok := src.accounts[s.Account]
	if !ok {
		return nil, fmt.Errorf("unknown account %q; accounts: %v", s.Account, slices.Sorted(maps.Keys(src.accounts)))
	}
	if g.CallerClock && a.simulator == nil {
		return nil, fmt.Errorf("account %s is live: a gate with clock: caller requires an account with broker: paper", s.Account)
	}
	simulated, err := src.bind(s.Account, g)
	if err != nil {
		return nil, err
	}
	toolyard.Lend(clients, &account.Access{Account: a.Account, Gate: g.Name, CallerClock: g.CallerClock, Simulated: simulated})
	toolyard.Lend[market.Portfolio](clients, a.Portfolio)
	broker := a.broker
	if g.CallerClock {
		broker = a.simulator
	}
	if broker != nil {
		toolyard.Lend(clients, broker, toolyard.Write)
	}
	return clients, nil
}

// bind records which gates use an account. Orders with a caller-set time and orders at the current
// time must not be mixed. A read-only gate shows a simulated account at the account's own time.
func (src *Source) bind(name string, g yard.PackGate) (simulated bool, err error) {
	src.mu.Lock()
	defer src.mu.Unlock()
	for _, gates := range []map[string]string{src.simulated, src.written} {
		if gates[name] == g.Name { // the gate's settings may have changed
			delete(gates, name)
		}
	}
	switch {
	case g.CallerClock:
		src.simulated[name] = g.Name
	case g.Mode == toolyard.Write:
		src.written[name] = g.Name
	}
	if src.simulated[name] != "" && src.written[name] != "" {
		err = fmt.Errorf("account %s is used by gate %s, which has clock: caller, and by gate %s, which does not: use two accounts", name, src.simulated[name], src.written[name])
	}
	return src.simulated[name] != "", err
}
