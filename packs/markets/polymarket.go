package markets

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	polymarketBudget = 150 // in requests
	polymarketWindow = 10 * time.Second
	pageSize         = 100
	maxPositions     = 500
)

// NewPolymarket returns a provider of a caller's positions on Polymarket. Numbers are returned as
// received. Data that would require the account's key is empty and marked as such.
func NewPolymarket(o Options) (*Provider, error) {
	p, err := newProvider(&o, service{
		kind: polymarket, name: "Polymarket", url: "https://data-api.polymarket.com", path: "positions",
		budget: polymarketBudget, window: polymarketWindow, heaviest: 1,
	})
	if err != nil {
		return nil, err
	}
	p.fetch = p.fetchPolymarket
	return p, nil
}

// polymarketData is the context data.
type polymarketData struct {
	Positions  []bet           `json:"positions"`
	Truncated  bool            `json:"truncated,omitempty"` // whether there are more positions
	OpenOrders []any           `json:"openOrders"`
	Balance    json.RawMessage `json:"balance"`
	Note       string          `json:"note"`
}

// bet is a position.
type bet struct {
	Market       string      `json:"market"`
	Outcome      string      `json:"outcome"`
	Size         json.Number `json:"size"`
	AvgPrice     json.Number `json:"avgPrice"`
	CurrentPrice json.Number `json:"currentPrice"`
	PnL          json.Number `json:"pnl"`
	ConditionID  string      `json:"conditionId"`
	Asset        string      `json:"asset"`
}

const (
	noteHidden = "openOrders and balance are unknown: they are visible only with the account's own key, which is not requested."
	noteCut    = " Only the 500 positions with the highest value are listed; there are more."
)

// fetchPolymarket reads pages until one is not full. Positions are sorted by value, highest first, so
// that truncation drops the smallest.
func (p *Provider) fetchPolymarket(ctx context.Context, address string) (any, error) {
	out := polymarketData{Positions: []bet{}, OpenOrders: []any{}, Balance: json.RawMessage("null"), Note: noteHidden}
	seen := map[string]bool{} // a position that moves to a later page must not count twice
	for offset := 0; offset <= maxPositions; {
		limit := min(pageSize, maxPositions+1-offset) // the extra position only indicates whether there are more
		page, err := p.askPositions(ctx, address, limit, offset)
		if err != nil {
			return nil, err
		}
		for _, b := range page {
			if !seen[b.Asset] {
				seen[b.Asset] = true
				out.Positions = append(out.Positions, b)
			}
		}
		if len(page) < limit {
			break
		}
		offset += limit
	}
	if len(out.Positions) > maxPositions {
		out.Positions, out.Truncated, out.Note = out.Positions[:maxPositions], true, noteHidden+noteCut
	}
	return out, nil
}

func (p *Provider) askPositions(ctx context.Context, address string, limit, offset int) ([]bet, error) {
	if err := p.client.take(ctx, 1); err != nil {
		return nil, err
	}
	answer, err := p.client.get(ctx, url.Values{
		"user": {strings.ToLower(address)}, "limit": {strconv.Itoa(limit)}, "offset": {strconv.Itoa(offset)},
		"sizeThreshold": {"0"}, "sortBy": {"CURRENT"}, "sortDirection": {"DESC"},
	})
	if err != nil {
		return nil, err
	}
	page, err := readPositions(answer, limit)
	if err != nil {
		return nil, p.client.unexpectedAnswer("a list of positions", err)
	}
	return page, nil
}

var conditionRE = regexp.MustCompile(`^0x[0-9a-fA-F]{64}$`)

// readPositions reads a page of at most limit positions.
func readPositions(answer []byte, limit int) ([]bet, error) {
	var r reading
	page := objects(&r, "answer", trimmed(answer), func(o object) bet {
		b := bet{
			Market: o.text("title"), Outcome: o.text("outcome"), Size: o.number("size"), AvgPrice: o.number("avgPrice"),
			CurrentPrice: o.number("curPrice"), PnL: o.number("cashPnl"), ConditionID: o.text("conditionId"), Asset: o.text("asset"),
		}
		if !conditionRE.MatchString(b.ConditionID) {
			o.fail(o.at("conditionId"), "0x and 64 hexadecimal digits")
		}
		return b
	})
	if len(page) > limit {
		r.fail("answer", "a page of at most "+strconv.Itoa(limit))
	}
	return page, r.err
}
