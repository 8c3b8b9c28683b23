package fakemarkets

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Hyperliquid is an Info API. It supports clearinghouseState and spotClearinghouseState.
type Hyperliquid struct {
	*Server
	accounts map[string]HyperliquidAccount // by address in lower case; under the lock of Server
}

// HyperliquidAccount is what a user has. Decimals that are empty are "0.0".
type HyperliquidAccount struct {
	AccountValue, TotalNtlPos, TotalRawUsd, TotalMarginUsed, Withdrawable string

	Positions []HyperliquidPosition
	Balances  []HyperliquidBalance
}

// HyperliquidPosition is an open perpetual.
type HyperliquidPosition struct {
	Coin, Szi, EntryPx, PositionValue, UnrealizedPnl, ReturnOnEquity, MarginUsed string

	LiquidationPx string // null when empty
	Leverage      int    // 1 when zero
	Isolated      bool
	RawUsd        string // of an isolated position
	MaxLeverage   int    // 50 when zero
}

// HyperliquidBalance is a token of the spot account.
type HyperliquidBalance struct {
	Coin                  string
	Token                 int
	Total, Hold, EntryNtl string
}

// NewHyperliquid starts an Info API without accounts. It accepts a weight of 1200 per minute.
func NewHyperliquid() *Hyperliquid {
	h := &Hyperliquid{accounts: map[string]HyperliquidAccount{}}
	h.Server = start(1200, time.Minute, h.info)
	return h
}

// Set sets the account of a user.
func (h *Hyperliquid) Set(user string, a HyperliquidAccount) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.accounts[strings.ToLower(user)] = a
}

func (h *Hyperliquid) info(r *http.Request, body []byte) reply {
	if r.Method != http.MethodPost || r.URL.Path != "/info" {
		return reply{0, http.StatusNotFound, "Not Found"}
	}
	var q struct{ Type, User string }
	known := map[string]func(HyperliquidAccount) any{"clearinghouseState": perpState, "spotClearinghouseState": spotState}
	if json.Unmarshal(body, &q) != nil || known[q.Type] == nil || !isAddress(q.User) {
		return reply{0, http.StatusUnprocessableEntity, "Failed to deserialize the JSON body into the target type"}
	}
	h.mu.Lock()
	a := h.accounts[strings.ToLower(q.User)]
	h.mu.Unlock()
	return reply{2, http.StatusOK, known[q.Type](a)}
}

func decimal(s string) string { return cmp.Or(s, "0.0") }

func perpState(a HyperliquidAccount) any {
	margin := map[string]string{
		"accountValue": decimal(a.AccountValue), "totalNtlPos": decimal(a.TotalNtlPos),
		"totalRawUsd": decimal(a.TotalRawUsd), "totalMarginUsed": decimal(a.TotalMarginUsed),
	}
	positions := []any{}
	for _, p := range a.Positions {
		positions = append(positions, map[string]any{"type": "oneWay", "position": perpPosition(p)})
	}
	return map[string]any{
		"marginSummary": margin, "crossMarginSummary": margin, "crossMaintenanceMarginUsed": "0.0",
		"withdrawable": decimal(a.Withdrawable), "assetPositions": positions, "time": time.Now().UnixMilli(),
	}
}

func perpPosition(p HyperliquidPosition) any {
	leverage := map[string]any{"type": "cross", "value": cmp.Or(p.Leverage, 1)}
	if p.Isolated {
		leverage["type"], leverage["rawUsd"] = "isolated", decimal(p.RawUsd)
	}
	var liquidation any
	if p.LiquidationPx != "" {
		liquidation = p.LiquidationPx
	}
	return map[string]any{
		"coin": p.Coin, "szi": decimal(p.Szi), "leverage": leverage, "entryPx": decimal(p.EntryPx),
		"positionValue": decimal(p.PositionValue), "unrealizedPnl": decimal(p.UnrealizedPnl),
		"returnOnEquity": decimal(p.ReturnOnEquity), "liquidationPx": liquidation, "marginUsed": decimal(p.MarginUsed),
		"maxLeverage": cmp.Or(p.MaxLeverage, 50),
		"cumFunding":  map[string]string{"allTime": "0.0", "sinceOpen": "0.0", "sinceChange": "0.0"},
	}
}

func spotState(a HyperliquidAccount) any {
	balances := []any{}
	for _, b := range a.Balances {
		balances = append(balances, map[string]any{
			"coin": b.Coin, "token": b.Token, "total": decimal(b.Total), "hold": decimal(b.Hold), "entryNtl": decimal(b.EntryNtl),
		})
	}
	return map[string]any{"balances": balances}
}
