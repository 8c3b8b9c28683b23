package fakemarkets

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Polymarket is a fake Data API. It supports /positions.
type Polymarket struct {
	*Server
	positions map[string][]PolymarketPosition // keyed by lower-case address; guarded by Server's lock
}

// PolymarketPosition is a user's position in one outcome. Empty numbers mean 0; other numbers are
// sent with exactly these digits.
type PolymarketPosition struct {
	Title, Outcome     string
	Asset, ConditionID string // generated if empty

	Size, AvgPrice, CurPrice, CashPnl, CurrentValue json.Number
}

// NewPolymarket starts a Data API that has no positions. It accepts 150 requests per ten seconds.
func NewPolymarket() *Polymarket {
	p := &Polymarket{positions: map[string][]PolymarketPosition{}}
	p.Server = start(150, 10*time.Second, p.list)
	return p
}

// Set sets a user's positions.
func (p *Polymarket) Set(user string, positions ...PolymarketPosition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.positions[strings.ToLower(user)] = positions
}

func (p *Polymarket) list(r *http.Request, _ []byte) reply {
	if r.Method != http.MethodGet || r.URL.Path != "/positions" {
		return reply{1, http.StatusNotFound, map[string]string{"error": "not found"}}
	}
	q := r.URL.Query()
	user := q.Get("user")
	limit, limitErr := within(q, "limit", 100, 500)
	offset, offsetErr := within(q, "offset", 0, 10_000)
	threshold, thresholdErr := within(q, "sizeThreshold", 1, 1_000_000)
	if err := cmp.Or(limitErr, offsetErr, thresholdErr); err != "" || !isAddress(user) {
		return reply{1, http.StatusBadRequest, map[string]string{"error": cmp.Or(err, "required query param 'user' not provided")}}
	}
	p.mu.Lock()
	all := slices.Clone(p.positions[strings.ToLower(user)])
	p.mu.Unlock()
	all = slices.DeleteFunc(all, func(b PolymarketPosition) bool { return float(b.Size) < float64(threshold) })
	by := func(b PolymarketPosition) float64 { return float(b.Size) }
	if q.Get("sortBy") == "CURRENT" {
		by = func(b PolymarketPosition) float64 { return float(b.CurrentValue) }
	}
	slices.SortStableFunc(all, func(a, b PolymarketPosition) int { return cmp.Compare(by(b), by(a)) })
	page := []any{}
	for i := min(offset, len(all)); i < min(offset+limit, len(all)); i++ {
		page = append(page, all[i].json(user, i))
	}
	return reply{1, http.StatusOK, page}
}

// within returns a query's integer parameter, or an error message.
func within(q url.Values, name string, value, most int) (int, string) {
	if !q.Has(name) {
		return value, ""
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < 0 || n > most {
		return 0, "invalid query param '" + name + "'"
	}
	return n, ""
}

func float(n json.Number) float64 {
	f, _ := n.Float64() // 0 if there is no number
	return f
}

func (b *PolymarketPosition) json(user string, i int) any {
	number := func(n json.Number) json.Number { return cmp.Or(n, "0") }
	asset := cmp.Or(b.Asset, fmt.Sprint(1_000_000+i))
	return map[string]any{
		"proxyWallet": user, "asset": asset, "conditionId": cmp.Or(b.ConditionID, fmt.Sprintf("0x%064x", i)),
		"size": number(b.Size), "avgPrice": number(b.AvgPrice), "initialValue": 0, "currentValue": number(b.CurrentValue),
		"cashPnl": number(b.CashPnl), "percentPnl": 0, "totalBought": number(b.Size), "realizedPnl": 0, "percentRealizedPnl": 0,
		"curPrice": number(b.CurPrice), "redeemable": false, "mergeable": false, "title": b.Title, "slug": "a-market",
		"icon": "https://polymarket.example/icon.png", "eventSlug": "an-event", "outcome": b.Outcome, "outcomeIndex": 0,
		"oppositeOutcome": "No", "oppositeAsset": asset + "1", "endDate": "2026-12-31", "negativeRisk": false,
	}
}
