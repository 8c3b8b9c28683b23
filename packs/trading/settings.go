package trading

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard/packs/trading/account"
	"github.com/toolyard/toolyard/packs/trading/engine"
	"github.com/toolyard/toolyard/packs/trading/market"
	"github.com/toolyard/toolyard/packs/trading/paper"
)

// settings are the settings in packs.trading.
type settings struct {
	Hyperliquid hyperliquidSettings        `json:"hyperliquid,omitzero" doc:"Where to read market data and place live orders."`
	CryptoPanic *cryptopanicSettings       `json:"cryptopanic,omitempty" doc:"The news source. If absent, there is no news."`
	Bars        string                     `json:"bars" default:"bars" doc:"Folder with stored price bars, relative to the configuration file. New bars are cached there."`
	Accounts    map[string]accountSettings `json:"accounts,omitempty" doc:"Accounts, by name. To use an account at a gate, set packs: {trading: {account: NAME}} there."`
	Risk        riskSettings               `json:"risk,omitzero" doc:"Limits for all accounts. An account can tighten them."`
}

type hyperliquidSettings struct {
	URL         string `json:"url,omitempty" format:"uri" doc:"The API's URL. Default: the public URL."`
	Testnet     *bool  `json:"testnet,omitempty" doc:"Use the testnet. Default: true if an account has broker: hyperliquid but not live: true, and false otherwise."`
	Leaderboard bool   `json:"leaderboard,omitempty" doc:"Let get_top_traders read the leaderboard, an undocumented file of about 25 MB."`

	LeaderboardURL string `json:"leaderboardUrl,omitempty" format:"uri" doc:"The leaderboard's URL. Default: the public URL."`
}

type cryptopanicSettings struct {
	Plan  string `json:"plan" enum:"developer,growth,enterprise" default:"developer" doc:"The CryptoPanic plan."`
	Token string `json:"token" minLength:"1" doc:"API token, usually ${secret:NAME}."`
	URL   string `json:"url,omitempty" format:"uri" doc:"The API's URL. Default: the public URL for the plan."`
}

// accountSettings are an account's settings.
type accountSettings struct {
	Broker string             `json:"broker" enum:"paper,hyperliquid" doc:"Where orders are placed: paper simulates them, hyperliquid sends them to Hyperliquid."`
	Submit account.Submission `json:"submit,omitempty" enum:"auto,confirm,never" doc:"When to place orders: immediately (auto), after a person confirms them (confirm), or never. Default: auto for paper, confirm for hyperliquid."`
	Risk   riskSettings       `json:"risk,omitzero" doc:"Limits for this account. They can only be stricter than the pack's limits."`

	DepositUSD  *amount         `json:"depositUsd,omitempty" doc:"Paper: initial cash. Default: 10000."`
	SlippageBps *int            `json:"slippageBps,omitempty" minimum:"0" maximum:"1000" doc:"Paper: slippage of fills compared to the market price, in basis points. Default: 2."`
	TakerFee    *amount         `json:"takerFee,omitempty" doc:"Paper: taker fee, as a fraction of the fill's value. Default: 0.00045."`
	MakerFee    *amount         `json:"makerFee,omitempty" doc:"Paper: maker fee, as a fraction of the fill's value. Default: 0.00015."`
	Interval    market.Interval `json:"interval" enum:"1m,5m,15m,1h,4h,1d" default:"1m" doc:"Paper: length of the bars that are used to fill orders."`

	Address  string `json:"address,omitempty" pattern:"^0x[0-9a-fA-F]{40}$" doc:"Hyperliquid: the address of the trading account."`
	AgentKey string `json:"agentKey,omitempty" doc:"Hyperliquid: private key of an agent (API wallet), which can trade but can't withdraw. Without it, the account is read-only."`
	Live     bool   `json:"live,omitempty" doc:"Hyperliquid: trade with real money, on mainnet. The default is the testnet."`
}

// riskSettings are limits. An absent limit is inherited.
type riskSettings struct {
	AllowedSymbols  []string `json:"allowedSymbols,omitempty" maxItems:"200" uniqueItems:"true" doc:"Symbols that can be traded. If empty, all symbols can be traded."`
	MaxOrderUSD     *amount  `json:"maxOrderUsd,omitempty" doc:"Maximum value of an order, in US dollars. Default: no limit."`
	MaxPositionUSD  *amount  `json:"maxPositionUsd,omitempty" doc:"Maximum value of a position, in US dollars. Default: no limit."`
	MaxPositionPct  *amount  `json:"maxPositionPct,omitempty" doc:"Maximum value of a position, in percent of the equity. Default: 25."`
	MaxExposurePct  *amount  `json:"maxExposurePct,omitempty" doc:"Maximum value of all positions together, in percent of the equity. Default: 100."`
	MaxSymbols      *int     `json:"maxSymbols,omitempty" minimum:"0" doc:"Maximum number of symbols with open positions. Default: 5."`
	MaxLeverage     *amount  `json:"maxLeverage,omitempty" doc:"Maximum leverage. Default: 3."`
	CollarBps       *int     `json:"collarBps,omitempty" minimum:"0" maximum:"5000" doc:"How much worse than the market an order's price can be, in basis points. Default: 100."`
	MaxDailyLossUSD *amount  `json:"maxDailyLossUsd,omitempty" doc:"Maximum loss since 00:00 UTC, in US dollars."`
	MaxDailyLossPct *amount  `json:"maxDailyLossPct,omitempty" doc:"Maximum loss since 00:00 UTC, in percent of the equity at that time. Default: 5."`
	MaxDrawdownPct  *amount  `json:"maxDrawdownPct,omitempty" doc:"Maximum drop from the peak equity, in percent. Default: 20."`
	RequireStop     *bool    `json:"requireStop,omitempty" doc:"Require a stop loss for orders that open a position."`
	riskPace
}

type riskPace struct {
	OrdersPerMinute *int      `json:"ordersPerMinute,omitempty" minimum:"0" doc:"Maximum number of proposals per minute. Default: 6."`
	Cooldown        *duration `json:"cooldown,omitempty" doc:"How long to wait after a position is closed before the same symbol can be opened again. Default: 0s."`
	MaxStopsPerDay  *int      `json:"maxStopsPerDay,omitempty" minimum:"0" doc:"Maximum number of stop losses per day. After that, no positions can be opened. Default: 4."`
	DuplicateWithin *duration `json:"duplicateWithin,omitempty" doc:"How long an identical order counts as a duplicate. Default: 60s."`
}

var (
	accountName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	plainNumber = regexp.MustCompile(`^[0-9]{1,15}(\.[0-9]{1,12})?$`)
)

// amount is a non-negative exact decimal, written as a number or a string.
type amount struct{ decimal.Decimal }

// JSONSchema describes an amount.
func (amount) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":["string","number"],"pattern":"^[0-9]{1,15}(\\.[0-9]{1,12})?$","minimum":0}`)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (a *amount) UnmarshalJSON(data []byte) error {
	text := string(data)
	if len(text) > 1 && text[0] == '"' {
		text = text[1 : len(text)-1]
	}
	if !plainNumber.MatchString(text) {
		return fmt.Errorf("%.40q is not a decimal number", text)
	}
	var err error
	a.Decimal, err = decimal.NewFromString(text)
	return err
}

// duration is a duration written as 90s or 15m.
type duration time.Duration

// JSONSchema describes a duration.
func (duration) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^([0-9]{1,6}(ms|s|m|h))+$"}`)
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = duration(v)
	return err
}

// mandate returns m with the limits that are set.
func (r *riskSettings) mandate(m engine.Mandate) engine.Mandate {
	if len(r.AllowedSymbols) > 0 {
		m.AllowedSymbols = r.AllowedSymbols
	}
	for _, f := range []struct {
		from *amount
		to   *decimal.Decimal
	}{
		{r.MaxOrderUSD, &m.MaxOrderUSD},
		{r.MaxPositionUSD, &m.MaxPositionUSD},
		{r.MaxPositionPct, &m.MaxPositionPct},
		{r.MaxExposurePct, &m.MaxExposurePct},
		{r.MaxLeverage, &m.MaxLeverage},
		{r.MaxDailyLossUSD, &m.MaxDailyLossUSD},
		{r.MaxDailyLossPct, &m.MaxDailyLossPct},
		{r.MaxDrawdownPct, &m.MaxDrawdownPct},
	} {
		if f.from != nil {
			*f.to = f.from.Decimal
		}
	}
	set(&m.MaxSymbols, r.MaxSymbols)
	set(&m.CollarBps, r.CollarBps)
	set(&m.OrdersPerMinute, r.OrdersPerMinute)
	set(&m.MaxStopsPerDay, r.MaxStopsPerDay)
	set(&m.RequireStop, r.RequireStop)
	set(&m.Cooldown, (*time.Duration)(r.Cooldown))
	set(&m.DuplicateWithin, (*time.Duration)(r.DuplicateWithin))
	return m
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func (s *accountSettings) submission() account.Submission {
	switch {
	case s.Submit != "":
		return s.Submit
	case s.Broker == "paper":
		return account.Auto
	}
	return account.Confirm
}

// testnet reports whether the pack uses the testnet. Prices differ between the networks, so the
// market data and all accounts at the venue use the same network: the testnet, unless the accounts
// are live.
func (s *settings) testnet() (bool, error) {
	live, test := "", ""
	for _, name := range slices.Sorted(maps.Keys(s.Accounts)) {
		switch a := s.Accounts[name]; {
		case a.Broker == "paper":
		case a.Live:
			live = name
		default:
			test = name
		}
	}
	chosen := s.Hyperliquid.Testnet
	switch {
	case live != "" && test != "":
		return false, fmt.Errorf("accounts: %s is live and %s is not, but all accounts use the same network; set live: true for all of them, or use two yards", live, test)
	case live != "" && chosen != nil && *chosen:
		return false, fmt.Errorf("accounts.%s: live: true trades on mainnet, but hyperliquid.testnet is true; remove one of them", live)
	case test != "" && chosen != nil && !*chosen && s.Accounts[test].AgentKey != "":
		return false, fmt.Errorf("accounts.%s: set live: true to trade with real money on mainnet, or remove hyperliquid.testnet: false", test)
	case chosen != nil:
		return *chosen, nil
	}
	return test != "", nil
}

// checkPaper returns an error if a paper account has a live account's settings.
func (s *accountSettings) checkPaper() error {
	if s.Address != "" || s.AgentKey != "" || s.Live {
		return fmt.Errorf("address, agentKey and live apply only to broker: hyperliquid")
	}
	return nil
}

func (s *accountSettings) paper() paper.Settings {
	p := paper.Settings{DepositUSD: decimal.NewFromInt(10_000), Interval: s.Interval, SlippageBps: 2, Fees: paper.DefaultFees}
	if s.DepositUSD != nil {
		p.DepositUSD = s.DepositUSD.Decimal
	}
	if s.TakerFee != nil {
		p.Fees.Taker = s.TakerFee.Decimal
	}
	if s.MakerFee != nil {
		p.Fees.Maker = s.MakerFee.Decimal
	}
	set(&p.SlippageBps, s.SlippageBps)
	return p
}
