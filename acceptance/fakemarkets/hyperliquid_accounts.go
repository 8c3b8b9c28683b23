package fakemarkets

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/shopspring/decimal"
)

var (
	takerRate = decimal.RequireFromString("0.00045")
	makerRate = decimal.RequireFromString("0.00015")
)

// trader is an account that can trade.
type trader struct {
	cash      decimal.Decimal // deposits plus realized profit, less fees
	positions map[string]position
	orders    []*order // all orders ever received, oldest first
	fills     []fill
	agents    []agent
	cancelAt  int64 // time when all orders are canceled; zero for never
}

type position struct{ size, entry decimal.Decimal }

type agent struct {
	name, address string
	validUntil    int64
}

type order struct {
	HyperliquidOrder
	asset    int
	trigger  *wireOrder // set for a trigger order
	waiting  bool       // whether it waits for its entry to be filled
	limit    decimal.Decimal
	at       int64
	statusAt int64
}

// HyperliquidOrder is an order that the venue received.
type HyperliquidOrder struct {
	ID              uint64
	Cloid, Coin     string
	Buy             bool
	Size, Remaining decimal.Decimal
	Status          string // open, filled, canceled or a state that ends in Rejected
	TIF             string
	ReduceOnly      bool
}

func (o *order) open() bool { return o.Status == "open" }

func (o *order) end(status string, now int64) { o.Status, o.statusAt = status, now }

// ids returns an order's IDs in the format of responses.
func (o *order) ids() map[string]any {
	out := map[string]any{"oid": o.ID}
	if o.Cloid != "" {
		out["cloid"] = o.Cloid
	}
	return out
}

type fill struct {
	order            *order
	px, sz, fee, pnl decimal.Decimal
	start            decimal.Decimal // position before the fill
	time             int64
	id               uint64
	crossed          bool
}

// Deposit opens an account that can trade, or adds money to it.
func (h *Hyperliquid) Deposit(user, usd string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	user = strings.ToLower(user)
	if h.traders[user] == nil {
		h.traders[user] = &trader{positions: map[string]position{}}
	}
	h.traders[user].cash = h.traders[user].cash.Add(decimal.RequireFromString(usd))
}

// Approve lets an agent sign for an account, which must have a deposit.
func (h *Hyperliquid) Approve(user, agentAddress string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	user, agentAddress = strings.ToLower(user), strings.ToLower(agentAddress)
	h.agents[agentAddress] = user
	t := h.traders[user]
	t.agents = append(t.agents, agent{fmt.Sprintf("agent%d", len(t.agents)+1), agentAddress, h.now().UnixMilli() + 90*dayMillis})
}

// Orders returns all orders that the venue received for an account, oldest first.
func (h *Hyperliquid) Orders(user string) []HyperliquidOrder {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []HyperliquidOrder
	if t := h.traders[strings.ToLower(user)]; t != nil {
		for _, o := range t.orders {
			out = append(out, o.HyperliquidOrder)
		}
	}
	return out
}

// SetPrice changes a market's price. Resting orders that the price reaches are filled, and triggers
// are executed.
func (h *Hyperliquid) SetPrice(coin, price string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i, m := h.market(coin)
	m.Mid = price
	bid, ask := spread(m)
	now := h.now().UnixMilli()
	for _, t := range h.traders {
		for _, o := range t.orders {
			if o.asset != i || !o.open() || o.waiting {
				continue
			}
			switch {
			case o.trigger != nil:
				h.runTrigger(t, o, m, now)
			case o.Buy && !o.limit.LessThan(ask) || !o.Buy && !o.limit.GreaterThan(bid):
				h.fill(t, o, o.limit, o.Remaining, false, now)
			}
		}
	}
}

// runTrigger executes a trigger order if the price has reached its trigger.
func (h *Hyperliquid) runTrigger(t *trader, o *order, m *HyperliquidMarket, now int64) {
	if checkTrigger(o.trigger, decimal.RequireFromString(m.Mid)) == "" {
		return
	}
	held := t.positions[m.Name].size
	if o.ReduceOnly && (held.IsZero() || held.IsPositive() == o.Buy) {
		o.end("reduceOnlyCanceled", now)
		return
	}
	bid, ask := spread(m)
	price := bid
	if o.Buy {
		price = ask
	}
	size := o.Remaining
	if o.ReduceOnly {
		size = decimal.Min(size, held.Abs())
	}
	h.fill(t, o, price, size, true, now)
}

// record stores an order.
func (h *Hyperliquid) record(t *trader, w *wireOrder, now int64, status string, remaining decimal.Decimal) *order {
	h.lastOrder++
	o := &order{asset: w.A, at: now, statusAt: now, HyperliquidOrder: HyperliquidOrder{
		ID: h.lastOrder, Cloid: w.C, Buy: w.B, Status: status, Remaining: remaining, ReduceOnly: w.R,
	}}
	if w.A >= 0 && w.A < len(h.markets) {
		o.Coin = h.markets[w.A].Name
	}
	o.limit, _ = decimal.NewFromString(w.P)
	o.Size, _ = decimal.NewFromString(w.S)
	if w.T.Limit != nil {
		o.TIF = w.T.Limit.TIF
	}
	t.orders = append(t.orders, o)
	return o
}

func (h *Hyperliquid) addTrigger(t *trader, w *wireOrder, now int64, waiting bool) *order {
	size, _ := decimal.NewFromString(w.S)
	o := h.record(t, w, now, "open", size)
	o.trigger, o.waiting = w, waiting
	return o
}

// fill executes part of an order.
func (h *Hyperliquid) fill(t *trader, o *order, px, size decimal.Decimal, taker bool, now int64) {
	rate := makerRate
	if taker {
		rate = takerRate
	}
	signed := size
	if !o.Buy {
		signed = size.Neg()
	}
	before := t.positions[o.Coin]
	after := position{size: before.size.Add(signed), entry: before.entry}
	pnl := decimal.Zero
	if before.size.Mul(signed).IsNegative() { // the fill closes the position
		closed := decimal.Min(before.size.Abs(), size)
		pnl = px.Sub(before.entry).Mul(closed)
		if before.size.IsNegative() {
			pnl = pnl.Neg()
		}
		if after.size.Mul(before.size).IsNegative() {
			after.entry = px
		}
	} else {
		after.entry = before.entry.Mul(before.size.Abs()).Add(px.Mul(size)).Div(after.size.Abs())
	}
	t.positions[o.Coin] = after
	if after.size.IsZero() {
		delete(t.positions, o.Coin)
	}
	fee := px.Mul(size).Mul(rate).Round(6)
	t.cash = t.cash.Add(pnl).Sub(fee)
	h.lastFill++
	t.fills = append(t.fills, fill{o, px, size, fee, pnl, before.size, now, h.lastFill, taker})
	o.Remaining = decimal.Max(o.Remaining.Sub(size), decimal.Zero)
	if o.Remaining.IsZero() {
		o.end("filled", now)
	}
	for _, child := range t.orders {
		if child.asset == o.asset && child.waiting {
			child.waiting = false
		}
	}
}

// equity returns the cash plus unrealized profit.
func (h *Hyperliquid) equity(t *trader) decimal.Decimal {
	out := t.cash
	for coin, p := range t.positions {
		_, m := h.market(coin)
		out = out.Add(decimal.RequireFromString(m.Mid).Sub(p.entry).Mul(p.size))
	}
	return out
}

// runSchedules cancels the orders of accounts whose scheduled time has come.
func (h *Hyperliquid) runSchedules() {
	now := h.now().UnixMilli()
	for _, t := range h.traders {
		if t.cancelAt == 0 || now < t.cancelAt {
			continue
		}
		t.cancelAt = 0
		for _, o := range t.orders {
			if o.open() {
				o.end("scheduledCancel", now)
			}
		}
	}
}

// account returns the state of an account that can trade.
func (h *Hyperliquid) account(t *trader) HyperliquidAccount {
	a := HyperliquidAccount{AccountValue: h.equity(t).String(), TotalRawUsd: t.cash.String()}
	total, used := decimal.Zero, decimal.Zero
	for _, m := range h.markets {
		p, ok := t.positions[m.Name]
		if !ok {
			continue
		}
		mid := decimal.RequireFromString(m.Mid)
		value := mid.Mul(p.size).Abs()
		margin := value.Div(decimal.NewFromInt(int64(m.MaxLeverage))).Round(6)
		total, used = total.Add(value), used.Add(margin)
		a.Positions = append(a.Positions, HyperliquidPosition{
			Coin: m.Name, Szi: p.size.String(), EntryPx: p.entry.Round(6).String(), PositionValue: value.String(),
			UnrealizedPnl: mid.Sub(p.entry).Mul(p.size).Round(6).String(), MarginUsed: margin.String(),
			Leverage: m.MaxLeverage, MaxLeverage: m.MaxLeverage,
		})
	}
	a.TotalNtlPos, a.TotalMarginUsed = total.String(), used.String()
	a.Withdrawable = decimal.Max(h.equity(t).Sub(used), decimal.Zero).String()
	return a
}

// userInfo handles requests about a user.
func (h *Hyperliquid) userInfo(q *infoRequest, user string) reply {
	t, known := h.traders[user]
	a, listed := h.accounts[user]
	if known {
		a = h.account(t)
	} else {
		t = &trader{}
	}
	switch q.Type {
	case "clearinghouseState":
		return reply{2, http.StatusOK, perpState(a)}
	case "spotClearinghouseState":
		return reply{2, http.StatusOK, spotState(a)}
	case "openOrders", "frontendOpenOrders":
		out := []any{}
		for _, o := range slices.Backward(t.orders) {
			if o.open() {
				out = append(out, o.wire(q.Type == "frontendOpenOrders"))
			}
		}
		return reply{20, http.StatusOK, out}
	case "orderStatus":
		return reply{2, http.StatusOK, t.status(q)}
	case "userFillsByTime":
		return h.fills(q, t)
	case "userFunding":
		return h.userFunding(q, t)
	case "userFees":
		return reply{20, http.StatusOK, map[string]any{
			"dailyUserVlm": []any{}, "userCrossRate": takerRate.String(), "userAddRate": makerRate.String(),
			"userSpotCrossRate": "0.0007", "userSpotAddRate": "0.0004", "activeReferralDiscount": "0.0", "trial": nil,
			"feeTrialEscrow": "0.0", "nextTrialAvailableTimestamp": nil, "stakingLink": nil,
			"activeStakingDiscount": map[string]string{"bpsOfMaxSupply": "0.0", "discount": "0.0"},
			"feeSchedule":           map[string]any{"cross": "0.00045", "add": "0.00015", "spotCross": "0.0007", "spotAdd": "0.0004", "referralDiscount": "0.04"},
		}}
	case "userRole":
		return reply{60, http.StatusOK, h.role(user, known || listed)}
	case "extraAgents":
		out := []any{}
		for _, a := range t.agents {
			out = append(out, map[string]any{"name": a.name, "address": a.address, "validUntil": a.validUntil})
		}
		return reply{20, http.StatusOK, out}
	}
	return invalidBody
}

// userFunding returns the payments for the current positions for every hour in the period.
func (h *Hyperliquid) userFunding(q *infoRequest, t *trader) reply {
	if q.StartTime == nil {
		return invalidBody
	}
	end := h.now().UnixMilli()
	if q.EndTime != nil {
		end = min(end, *q.EndTime)
	}
	out := []any{}
	for hour := (*q.StartTime + hourMillis - 1) / hourMillis; hour*hourMillis <= end; hour++ {
		for _, m := range h.markets {
			p, ok := t.positions[m.Name]
			if !ok || len(out) == fundingPage {
				continue
			}
			rate := decimal.RequireFromString(fundingRate(m.Name, hour))
			out = append(out, map[string]any{"time": hour * hourMillis, "hash": "0x" + strings.Repeat("0", 64), "delta": map[string]any{
				"type": "funding", "coin": m.Name, "usdc": p.size.Mul(decimal.RequireFromString(m.Mid)).Mul(rate).Neg().Round(6).String(),
				"szi": p.size.String(), "fundingRate": rate.String(), "nSamples": nil,
			}})
		}
	}
	return reply{20 + len(out)/20, http.StatusOK, out}
}

func (h *Hyperliquid) role(user string, known bool) any {
	switch owner, agent := h.agents[user]; {
	case agent:
		return map[string]any{"role": "agent", "data": map[string]string{"user": owner}}
	case known:
		return map[string]string{"role": "user"}
	}
	return map[string]string{"role": "missing"}
}

// sideOf returns an order's side in the wire format.
func sideOf(buy bool) string {
	if buy {
		return "B"
	}
	return "A"
}

func (o *order) wire(full bool) map[string]any {
	out := map[string]any{
		"coin": o.Coin, "side": sideOf(o.Buy), "limitPx": o.limit.String(), "sz": o.Remaining.String(), "oid": o.ID,
		"timestamp": o.at, "origSz": o.Size.String(),
	}
	if o.Cloid != "" {
		out["cloid"] = o.Cloid
	} else if full {
		out["cloid"] = nil
	}
	if !full {
		return out
	}
	out["orderType"], out["tif"], out["reduceOnly"], out["isTrigger"], out["isPositionTpsl"] = "Limit", o.TIF, o.ReduceOnly, false, false
	out["triggerPx"], out["triggerCondition"], out["children"] = "0.0", "N/A", []any{}
	if o.trigger != nil {
		out["orderType"], out["tif"], out["isTrigger"], out["triggerPx"] = "Stop Market", nil, true, o.trigger.T.Trigger.TriggerPx
		if o.trigger.T.Trigger.TPSL == "tp" {
			out["orderType"] = "Take Profit Market"
		}
		out["triggerCondition"] = "Price reaches " + o.trigger.T.Trigger.TriggerPx
	}
	return out
}

func (t *trader) status(q *infoRequest) any {
	cloid, id := q.order()
	for _, o := range slices.Backward(t.orders) {
		if cloid != "" && o.Cloid == cloid || cloid == "" && o.ID == id {
			return map[string]any{"status": "order", "order": map[string]any{"order": o.wire(true), "status": o.Status, "statusTimestamp": o.statusAt}}
		}
	}
	return map[string]string{"status": "unknownOid"}
}

func (h *Hyperliquid) fills(q *infoRequest, t *trader) reply {
	if q.StartTime == nil {
		return invalidBody
	}
	out := []any{}
	for _, f := range t.fills {
		if f.time < *q.StartTime || q.EndTime != nil && f.time > *q.EndTime {
			continue
		}
		dir := "Open Long"
		if !f.order.Buy {
			dir = "Open Short"
		}
		if !f.pnl.IsZero() {
			dir = "Close Short"
			if !f.order.Buy {
				dir = "Close Long"
			}
		}
		out = append(out, map[string]any{
			"coin": f.order.Coin, "px": f.px.String(), "sz": f.sz.String(), "side": sideOf(f.order.Buy), "time": f.time,
			"startPosition": f.start.String(), "dir": dir, "closedPnl": f.pnl.String(), "oid": f.order.ID, "crossed": f.crossed,
			"hash": "0x" + strings.Repeat("0", 64), "fee": f.fee.String(), "tid": f.id, "feeToken": "USDC", "twapId": nil,
		})
	}
	return reply{20 + len(out)/20, http.StatusOK, out}
}
