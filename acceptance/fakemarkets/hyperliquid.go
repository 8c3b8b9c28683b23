package fakemarkets

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Hyperliquid is a fake venue with an Info API, an exchange and a leaderboard. It has four markets
// with constant prices, candles and funding rates that are a function of time, and no accounts.
type Hyperliquid struct {
	*Server
	mainnet bool

	// The following fields are guarded by Server's lock.
	now         func() time.Time
	accounts    map[string]HyperliquidAccount // keyed by lower-case address; their state does not change
	traders     map[string]*trader            // accounts that can trade, keyed by lower-case address
	agents      map[string]string             // owners, keyed by the agent's address
	markets     []*HyperliquidMarket
	moving      bool                           // whether prices follow the generated candles
	candles     map[string][]HyperliquidCandle // keyed by coin and interval
	nonces      map[string][]int64             // nonces by signer
	leaders     []HyperliquidLeader
	loseAnswers int // number of exchange responses to lose
	lastOrder   uint64
	lastFill    uint64
}

// HyperliquidAccount contains a user's positions and balances. Empty decimals mean "0.0".
type HyperliquidAccount struct {
	AccountValue, TotalNtlPos, TotalRawUsd, TotalMarginUsed, Withdrawable string

	Positions []HyperliquidPosition
	Balances  []HyperliquidBalance
}

// HyperliquidPosition is an open perpetual.
type HyperliquidPosition struct {
	Coin, Szi, EntryPx, PositionValue, UnrealizedPnl, ReturnOnEquity, MarginUsed string

	LiquidationPx string // null if empty
	Leverage      int    // 1 if zero
	Isolated      bool
	RawUsd        string // for an isolated position
	MaxLeverage   int    // 50 if zero
}

// HyperliquidBalance is a token in the spot account.
type HyperliquidBalance struct {
	Coin                  string
	Token                 int
	Total, Hold, EntryNtl string
}

// NewHyperliquid starts a test network. It panics on failure. The network accepts a weight of 1200
// per minute.
func NewHyperliquid() *Hyperliquid {
	h, err := StartHyperliquid()
	if err != nil {
		panic(err)
	}
	return h
}

// StartHyperliquid starts a test network.
func StartHyperliquid() (h *Hyperliquid, err error) {
	h = &Hyperliquid{
		now: time.Now, accounts: map[string]HyperliquidAccount{}, traders: map[string]*trader{}, agents: map[string]string{},
		candles: map[string][]HyperliquidCandle{}, nonces: map[string][]int64{}, lastOrder: 1000, lastFill: 5000,
		markets: []*HyperliquidMarket{
			{Name: "BTC", SzDecimals: 5, MaxLeverage: 40, Mid: "100000"},
			{Name: "ETH", SzDecimals: 4, MaxLeverage: 25, Mid: "4000"},
			{Name: "SOL", SzDecimals: 2, MaxLeverage: 20, Mid: "200"},
			{Name: "kPEPE", SzDecimals: 0, MaxLeverage: 10, Mid: "0.0125"},
		},
	}
	h.Server, err = listen(1200, time.Minute, h.answer)
	return h, err
}

// SetNow sets the clock.
func (h *Hyperliquid) SetNow(now func() time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = now
}

// Set sets a user's account.
func (h *Hyperliquid) Set(user string, a HyperliquidAccount) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.accounts[strings.ToLower(user)] = a
}

// answer routes a request.
func (h *Hyperliquid) answer(r *http.Request, body []byte) reply {
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/info":
		return h.info(body)
	case r.Method == http.MethodPost && r.URL.Path == "/exchange":
		return h.exchange(body)
	case r.Method == http.MethodGet && r.URL.Path == "/Mainnet/leaderboard":
		return h.leaderboard()
	}
	return reply{0, http.StatusNotFound, "Not Found"}
}

// invalidBody is the response to a request that cannot be decoded.
var invalidBody = reply{0, http.StatusUnprocessableEntity, "Failed to deserialize the JSON body into the target type"}

// infoRequest contains the parameters of all Info requests.
type infoRequest struct {
	Type, User, Coin   string
	Oid                json.RawMessage
	StartTime, EndTime *int64
	Req                *struct {
		Coin, Interval     string
		StartTime, EndTime *int64
	}
}

func (h *Hyperliquid) info(body []byte) reply {
	var q infoRequest
	if json.Unmarshal(body, &q) != nil {
		return invalidBody
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runSchedules()
	h.follow()
	if answer, ok := h.marketInfo(&q); ok {
		return answer
	}
	if !isAddress(q.User) {
		return invalidBody
	}
	return h.userInfo(&q, strings.ToLower(q.User))
}

func orZero(s string) string { return cmp.Or(s, "0.0") }

func perpState(a HyperliquidAccount) any {
	margin := map[string]string{
		"accountValue": orZero(a.AccountValue), "totalNtlPos": orZero(a.TotalNtlPos),
		"totalRawUsd": orZero(a.TotalRawUsd), "totalMarginUsed": orZero(a.TotalMarginUsed),
	}
	positions := []any{}
	for _, p := range a.Positions {
		positions = append(positions, map[string]any{"type": "oneWay", "position": perpPosition(p)})
	}
	return map[string]any{
		"marginSummary": margin, "crossMarginSummary": margin, "crossMaintenanceMarginUsed": "0.0",
		"withdrawable": orZero(a.Withdrawable), "assetPositions": positions, "time": time.Now().UnixMilli(),
	}
}

func perpPosition(p HyperliquidPosition) any {
	leverage := map[string]any{"type": "cross", "value": cmp.Or(p.Leverage, 1)}
	if p.Isolated {
		leverage["type"], leverage["rawUsd"] = "isolated", orZero(p.RawUsd)
	}
	var liquidation any
	if p.LiquidationPx != "" {
		liquidation = p.LiquidationPx
	}
	return map[string]any{
		"coin": p.Coin, "szi": orZero(p.Szi), "leverage": leverage, "entryPx": orZero(p.EntryPx),
		"positionValue": orZero(p.PositionValue), "unrealizedPnl": orZero(p.UnrealizedPnl),
		"returnOnEquity": orZero(p.ReturnOnEquity), "liquidationPx": liquidation, "marginUsed": orZero(p.MarginUsed),
		"maxLeverage": cmp.Or(p.MaxLeverage, 50),
		"cumFunding":  map[string]string{"allTime": "0.0", "sinceOpen": "0.0", "sinceChange": "0.0"},
	}
}

func spotState(a HyperliquidAccount) any {
	balances := []any{}
	for _, b := range a.Balances {
		balances = append(balances, map[string]any{
			"coin": b.Coin, "token": b.Token, "total": orZero(b.Total), "hold": orZero(b.Hold), "entryNtl": orZero(b.EntryNtl),
		})
	}
	return map[string]any{"balances": balances}
}
