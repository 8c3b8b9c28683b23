package markets

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/sources/provider"
)

// Weights of the two requests, from the service's documentation.
const (
	hyperliquidBudget = 1200
	stateWeight       = 2
	spotWeight        = 2
)

// NewHyperliquid returns a provider of a caller's perpetual and spot positions on Hyperliquid. The
// data comes from the Info API, with decimals as strings, exactly as received.
func NewHyperliquid(o Options) (*Provider, error) {
	p, err := newProvider(&o, service{
		kind: hyperliquid, name: "Hyperliquid", url: "https://api.hyperliquid.xyz", path: "info",
		budget: hyperliquidBudget, window: time.Minute, heaviest: stateWeight + spotWeight,
	})
	if err != nil {
		return nil, err
	}
	p.fetch = p.fetchHyperliquid
	return p, nil
}

// hyperliquidData is the context data.
type hyperliquidData struct {
	perpetuals
	SpotBalances  []spotBalance `json:"spotBalances"`
	WalletAddress string        `json:"walletAddress"`
	FetchedAt     time.Time     `json:"fetchedAt"`
}

// perpetuals is the data in clearinghouseState.
type perpetuals struct {
	MarginSummary      margin          `json:"marginSummary"`
	CrossMarginSummary margin          `json:"crossMarginSummary"`
	Withdrawable       string          `json:"withdrawable"`
	AssetPositions     []assetPosition `json:"assetPositions"`
	Time               int64           `json:"time"`
}

type margin struct {
	AccountValue    string `json:"accountValue"`
	TotalNtlPos     string `json:"totalNtlPos"`
	TotalRawUsd     string `json:"totalRawUsd"`
	TotalMarginUsed string `json:"totalMarginUsed"`
}

type assetPosition struct {
	Type     string   `json:"type"`
	Position position `json:"position"`
}

type position struct {
	Coin           string   `json:"coin"`
	Szi            string   `json:"szi"`
	Leverage       leverage `json:"leverage"`
	EntryPx        *string  `json:"entryPx"`
	PositionValue  string   `json:"positionValue"`
	UnrealizedPnl  string   `json:"unrealizedPnl"`
	ReturnOnEquity string   `json:"returnOnEquity"`
	LiquidationPx  *string  `json:"liquidationPx"`
	MarginUsed     string   `json:"marginUsed"`
	MaxLeverage    int64    `json:"maxLeverage"`
	CumFunding     funding  `json:"cumFunding"`
}

type leverage struct {
	Type   string `json:"type"`
	Value  int64  `json:"value"`
	RawUsd string `json:"rawUsd,omitempty"`
}

type funding struct {
	AllTime     string `json:"allTime"`
	SinceOpen   string `json:"sinceOpen"`
	SinceChange string `json:"sinceChange"`
}

type spotBalance struct {
	Coin     string `json:"coin"`
	Token    int64  `json:"token"`
	Total    string `json:"total"`
	Hold     string `json:"hold"`
	EntryNtl string `json:"entryNtl"`
}

// fetchHyperliquid requests both of a user's accounts concurrently.
func (p *Provider) fetchHyperliquid(ctx context.Context, address string) (any, error) {
	if err := p.client.take(ctx, stateWeight+spotWeight); err != nil {
		return nil, err
	}
	out := hyperliquidData{WalletAddress: address}
	var stateErr, spotErr error
	var both sync.WaitGroup
	both.Go(func() {
		out.perpetuals, stateErr = provider.CatchPanic(func() (perpetuals, error) {
			return askInfo(ctx, p.client, "clearinghouseState", address, readPerpetuals)
		})
	})
	both.Go(func() {
		out.SpotBalances, spotErr = provider.CatchPanic(func() ([]spotBalance, error) {
			return askInfo(ctx, p.client, "spotClearinghouseState", address, readSpot)
		})
	})
	both.Wait()
	out.FetchedAt = p.now().UTC().Truncate(time.Millisecond)
	if stateErr != nil {
		return nil, stateErr
	}
	return out, spotErr
}

// askInfo sends one request about a user and parses the response.
func askInfo[T any](ctx context.Context, c *client, kind, user string, read func([]byte) (T, error)) (out T, err error) {
	body, err := json.Marshal(map[string]string{"type": kind, "user": user})
	if err != nil {
		return out, err
	}
	answer, err := c.post(ctx, body)
	if err != nil {
		return out, err
	}
	if out, err = read(answer); err != nil {
		return out, c.unexpectedAnswer("a "+kind, err)
	}
	return out, nil
}

func readPerpetuals(answer []byte) (perpetuals, error) {
	var r reading
	o := r.object("answer", trimmed(answer))
	out := perpetuals{
		MarginSummary:      readMargin(o.object("marginSummary")),
		CrossMarginSummary: readMargin(o.object("crossMarginSummary")),
		Withdrawable:       o.decimal("withdrawable"),
		AssetPositions:     objects(&r, o.at("assetPositions"), o.members["assetPositions"], readAssetPosition),
		Time:               o.whole("time"),
	}
	return out, r.err
}

func readMargin(o object) margin {
	return margin{
		AccountValue: o.decimal("accountValue"), TotalNtlPos: o.decimal("totalNtlPos"),
		TotalRawUsd: o.decimal("totalRawUsd"), TotalMarginUsed: o.decimal("totalMarginUsed"),
	}
}

func readAssetPosition(o object) assetPosition {
	p := o.object("position")
	l, f := p.object("leverage"), p.object("cumFunding")
	out := assetPosition{o.text("type"), position{
		Coin: p.text("coin"), Szi: p.decimal("szi"),
		Leverage: leverage{Type: l.text("type"), Value: l.whole("value")},
		EntryPx:  p.optionalDecimal("entryPx"), PositionValue: p.decimal("positionValue"), UnrealizedPnl: p.decimal("unrealizedPnl"),
		ReturnOnEquity: p.decimal("returnOnEquity"), LiquidationPx: p.optionalDecimal("liquidationPx"),
		MarginUsed: p.decimal("marginUsed"), MaxLeverage: p.whole("maxLeverage"),
		CumFunding: funding{f.decimal("allTime"), f.decimal("sinceOpen"), f.decimal("sinceChange")},
	}}
	if l.has("rawUsd") { // only isolated positions have it
		out.Position.Leverage.RawUsd = l.decimal("rawUsd")
	}
	return out
}

func readSpot(answer []byte) ([]spotBalance, error) {
	var r reading
	o := r.object("answer", trimmed(answer))
	out := objects(&r, o.at("balances"), o.members["balances"], func(o object) spotBalance {
		return spotBalance{o.text("coin"), o.whole("token"), o.decimal("total"), o.decimal("hold"), o.decimal("entryNtl")}
	})
	return out, r.err
}
