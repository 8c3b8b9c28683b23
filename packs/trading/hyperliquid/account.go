package hyperliquid

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/market"
)

// Account is the account at an address. Anyone can read it.
type Account struct {
	client  *Client
	address string
}

var (
	_ market.Portfolio      = (*Account)(nil)
	_ market.FillHistory    = (*Account)(nil)
	_ market.FundingHistory = (*Account)(nil)
	_ market.FeeSchedule    = (*Account)(nil)
)

// NewAccount returns the account at an address. It must be the address that holds the money, not
// its agent's.
func NewAccount(c *Client, address string) (*Account, error) {
	if !isAddress(address) {
		return nil, errors.New("address must be 0x followed by 40 hexadecimal digits")
	}
	return &Account{c, strings.ToLower(address)}, nil
}

func isAddress(s string) bool {
	digits, ok := strings.CutPrefix(s, "0x")
	return ok && len(digits) == 40 && strings.Trim(digits, "0123456789abcdefABCDEF") == ""
}

// At implements [market.Portfolio]. The venue has no portfolio history.
func (a *Account) At(ctx context.Context, asOf time.Time) (market.Snapshot, error) {
	if err := a.client.present("portfolio", asOf); err != nil {
		return market.Snapshot{}, err
	}
	state, err := a.client.clearinghouseState(ctx, a.address)
	if err != nil {
		return market.Snapshot{}, err
	}
	orders, err := a.client.openOrders(ctx, a.address)
	if err != nil {
		return market.Snapshot{}, err
	}
	equity, used := state.MarginSummary.AccountValue.Decimal, state.MarginSummary.TotalMarginUsed.Decimal
	out := market.Snapshot{
		AsOf: asOf, EquityUSD: equity, MarginUsedUSD: used,
		AvailableUSD: decimal.Max(equity.Sub(used), decimal.Zero),
	}
	for i := range state.AssetPositions {
		if p := &state.AssetPositions[i].Position; !p.Size.IsZero() {
			out.Positions = append(out.Positions, p.position())
		}
	}
	slices.SortFunc(out.Positions, func(a, b market.Position) int { return cmp.Compare(a.Symbol, b.Symbol) })
	for i := range orders {
		out.Orders = append(out.Orders, orders[i].openOrder())
	}
	slices.SortFunc(out.Orders, func(a, b market.OpenOrder) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.OrderID, b.OrderID))
	})
	return out, nil
}

func (p *positionWire) position() market.Position {
	out := market.Position{
		Symbol: p.Coin, Size: p.Size.Decimal, MarkPrice: p.PositionValue.Div(p.Size.Abs()),
		UnrealizedUSD: p.UnrealizedPnl.Decimal, MarginUSD: p.MarginUsed.Decimal,
		Leverage: decimal.NewFromInt(int64(p.Leverage.Value)), LiquidationPrice: optional(p.LiquidationPx),
	}
	if p.EntryPx != nil {
		out.EntryPrice = p.EntryPx.Decimal
	}
	return out
}

func (o *openOrderWire) openOrder() market.OpenOrder {
	out := market.OpenOrder{
		OrderID: strconv.FormatUint(o.ID, 10), At: time.UnixMilli(int64(o.Time)).UTC(), Remaining: o.Size.Decimal,
		Order: market.Order{
			Symbol: o.Coin, Side: sideOf(o.Side), Type: market.LimitOrder, Size: o.OrigSize.Decimal,
			Price: o.LimitPx.Decimal, ReduceOnly: o.ReduceOnly,
		},
	}
	if o.Cloid != nil {
		out.ClientID = *o.Cloid
	}
	if o.TIF != nil {
		out.TIF = market.TimeInForce(*o.TIF)
	}
	if o.IsTrigger {
		out.Type = market.StopOrder
		if strings.HasPrefix(o.OrderType, "Take Profit") {
			out.Type = market.TakeProfit
		}
		out.Trigger = decimal.NewNullDecimal(o.TriggerPx.Decimal)
	}
	return out
}

func sideOf(wire string) market.Side {
	if wire == "B" {
		return market.Buy
	}
	return market.Sell
}

// Fees returns the account's fee rates.
func (a *Account) Fees(ctx context.Context) (market.Fees, error) {
	f, err := a.client.userFees(ctx, a.address)
	return market.Fees{Taker: f.Taker.Decimal, Maker: f.Maker.Decimal}, err
}

// Find returns an order's state by its client order ID.
func (a *Account) Find(ctx context.Context, clientID string) (market.Placed, bool, error) {
	s, ok, err := a.client.orderStatus(ctx, a.address, clientID)
	if err != nil || !ok {
		return market.Placed{}, false, err
	}
	out := market.Placed{
		ClientID: clientID, OrderID: strconv.FormatUint(s.Order.ID, 10),
		Status: statusOf(s.Status), At: time.UnixMilli(int64(s.At)).UTC(),
	}
	if out.Status == market.Rejected || out.Status == market.Canceled {
		out.Detail = s.Status
	}
	if out.Status == market.Filled || s.Order.Size.LessThan(s.Order.OrigSize.Decimal) {
		if err := a.addFills(ctx, &out, s.Order.ID, time.UnixMilli(int64(s.Order.Time)), out.At.Add(fillDelay)); err != nil {
			return market.Placed{}, false, err
		}
	}
	return out, true, nil
}

// statusOf converts an orderStatus state. There are about thirty of them.
func statusOf(wire string) market.Status {
	switch {
	case wire == "open" || wire == "triggered":
		return market.Resting
	case wire == "filled":
		return market.Filled
	case wire == "rejected" || strings.HasSuffix(wire, "Rejected"):
		return market.Rejected
	case wire == "canceled" || strings.HasSuffix(wire, "Canceled"):
		return market.Canceled
	}
	return market.Pending // the venue has added this state since; the fills decide
}

// fillDelay is how much later than its order's state a fill may appear.
const fillDelay = 5 * time.Second

// addFills adds the size, average price and fees of an order's fills in a period.
func (a *Account) addFills(ctx context.Context, p *market.Placed, order uint64, from, to time.Time) error {
	fills, err := a.client.fillsBetween(ctx, a.address, from, to)
	if err != nil {
		return err
	}
	var size, value, fee decimal.Decimal
	for i := range fills {
		if f := &fills[i]; f.Order == order {
			size, value, fee = size.Add(f.Size.Decimal), value.Add(f.Size.Mul(f.Px.Decimal)), fee.Add(f.Fee.Decimal)
		}
	}
	if size.IsPositive() {
		p.Filled, p.AvgPrice, p.FeeUSD = size, value.Div(size), fee
	}
	return nil
}

// maxPages limits the number of requests for an account's history.
const maxPages = 10

// Fills returns the fills with from < At ≤ to, oldest first. The venue returns at most 2,000 at a time.
func (a *Account) Fills(ctx context.Context, from, to time.Time) ([]market.Fill, error) {
	var out []market.Fill
	for range maxPages {
		page, err := a.client.fillsBetween(ctx, a.address, from.Add(time.Millisecond), to)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if f := page[i].fill(); f.At.After(from) && !f.At.After(to) {
				out = append(out, f)
			}
		}
		if len(page) < maxFills {
			return out, nil
		}
		from = time.UnixMilli(int64(page[len(page)-1].Time))
	}
	return nil, toolyard.Errorf(toolyard.NoData, "The period has more than %d fills; choose a shorter one.", maxPages*maxFills)
}

func (f *fillWire) fill() market.Fill {
	side := sideOf(f.Side)
	return market.Fill{
		ID: strconv.FormatUint(f.ID, 10), OrderID: strconv.FormatUint(f.Order, 10), Symbol: f.Coin, Side: side, Size: f.Size.Decimal,
		Price: f.Px.Decimal, FeeUSD: f.Fee.Decimal, RealizedUSD: f.ClosedPnl.Decimal, After: f.Start.Add(side.Signed(f.Size.Decimal)),
		At: time.UnixMilli(int64(f.Time)).UTC(),
	}
}

// Payments returns the funding payments with from < At ≤ to, oldest first.
func (a *Account) Payments(ctx context.Context, from, to time.Time) ([]market.Payment, error) {
	var out []market.Payment
	for range maxPages {
		page, err := a.client.fundingBetween(ctx, a.address, from.Add(time.Millisecond), to)
		if err != nil || len(page) == 0 {
			return out, err
		}
		for i := range page {
			p := &page[i]
			if at := time.UnixMilli(int64(p.Time)).UTC(); at.After(from) && !at.After(to) {
				out = append(out, market.Payment{At: at, Symbol: p.Delta.Coin, Rate: p.Delta.Rate.Decimal, AmountUSD: p.Delta.USD.Decimal})
			}
		}
		if len(page) < fundingPage {
			return out, nil
		}
		from = time.UnixMilli(int64(page[len(page)-1].Time))
	}
	return nil, toolyard.Errorf(toolyard.NoData, "The period has more than %d funding payments; choose a shorter one.", maxPages*fundingPage)
}

// Verify returns an error if the address is not a separate account. The error says what to
// configure instead.
func (a *Account) Verify(ctx context.Context) error {
	role, err := a.client.userRole(ctx, a.address)
	if err != nil {
		return err
	}
	switch role.Role {
	case "user", "subAccount", "vault":
		return nil
	case "agent":
		return toolyard.Errorf(toolyard.PermissionDenied, "Address %s is an agent (API wallet) for %.60s. Set address to the account that holds the funds.", a.address, role.Data.User)
	}
	return toolyard.Errorf(toolyard.NoData, "Hyperliquid has no account %s on this network. Check the address and testnet.", a.address)
}
