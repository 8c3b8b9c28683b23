package fakemarkets

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/shopspring/decimal"
)

const (
	noncesKept = 100
	nonceAge   = 2 * dayMillis
	nonceAhead = dayMillis
)

// LoseAnswers makes the venue execute the next n actions but end the connection before it responds.
func (h *Hyperliquid) LoseAnswers(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.loseAnswers = n
}

// refusedAction returns the response to an action that fails as a whole. Its status is also 200.
func refusedAction(format string, args ...any) reply {
	return reply{1, http.StatusOK, map[string]any{"status": "err", "response": fmt.Sprintf(format, args...)}}
}

func acceptedAction(response any) reply {
	return reply{1, http.StatusOK, map[string]any{"status": "ok", "response": response}}
}

func statusesOf(kind string, statuses []any) reply {
	return acceptedAction(map[string]any{"type": kind, "data": map[string]any{"statuses": statuses}})
}

// exchange executes a signed action.
func (h *Hyperliquid) exchange(body []byte) reply {
	var r signedRequest
	var kind struct{ Type string }
	if json.Unmarshal(body, &r) != nil || json.Unmarshal(r.Action, &kind) != nil {
		return invalidBody
	}
	signer, err := r.signer(h.mainnet)
	if err != nil {
		return invalidBody
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runSchedules()
	owner, ok := h.agents[signer]
	if !ok {
		return refusedAction("User or API Wallet %s does not exist.", signer)
	}
	now := h.now().UnixMilli()
	if r.ExpiresAfter != nil && int64(*r.ExpiresAfter) < now {
		return refusedAction("Action expired")
	}
	if text := h.useNonce(signer, int64(r.Nonce), now); text != "" {
		return refusedAction("%s", text)
	}
	answer := h.execute(kind.Type, h.traders[owner], r.Action, now)
	if h.loseAnswers > 0 && answer.status == http.StatusOK {
		h.loseAnswers--
		answer.body = lost{}
	}
	return answer
}

// useNonce records a nonce, or returns the reason why it is refused. A nonce must be new, greater
// than the smallest of the 100 highest, and close to the current time.
func (h *Hyperliquid) useNonce(signer string, nonce, now int64) string {
	used := h.nonces[signer]
	switch {
	case slices.Contains(used, nonce):
		return fmt.Sprintf("Invalid nonce: duplicate nonce %d", nonce)
	case nonce < now-nonceAge || nonce > now+nonceAhead || len(used) == noncesKept && nonce < used[0]:
		return fmt.Sprintf("Invalid nonce: %d is out of range", nonce)
	}
	used = append(used, nonce)
	slices.Sort(used)
	h.nonces[signer] = used[max(0, len(used)-noncesKept):]
	return ""
}

func (h *Hyperliquid) execute(kind string, t *trader, action json.RawMessage, now int64) reply {
	switch kind {
	case "order":
		return h.placeOrders(t, action, now)
	case "cancel", "cancelByCloid":
		return h.cancelOrders(kind, t, action, now)
	case "scheduleCancel":
		var a struct{ Time int64 }
		if json.Unmarshal(action, &a) != nil {
			return invalidBody
		}
		if a.Time != 0 && a.Time < now+5000 {
			return refusedAction("Scheduled cancel time too early, must be at least 5 seconds from now.")
		}
		t.cancelAt = a.Time
		return acceptedAction(map[string]string{"type": "default"})
	case "updateLeverage":
		return acceptedAction(map[string]string{"type": "default"})
	}
	return invalidBody
}

// wireOrder is an order in an action.
type wireOrder struct {
	A    int    `json:"a"`
	B    bool   `json:"b"`
	P, S string `json:"-"`
	R    bool   `json:"r"`
	T    struct {
		Limit   *struct{ TIF string }
		Trigger *struct {
			IsMarket        bool
			TriggerPx, TPSL string
		}
	} `json:"t"`
	C string `json:"c"`
}

// UnmarshalJSON reads the members p and s. They differ only in case from P and S in other actions.
func (o *wireOrder) UnmarshalJSON(data []byte) error {
	type plain wireOrder
	var text struct {
		P string `json:"p"`
		S string `json:"s"`
	}
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	err := json.Unmarshal(data, (*plain)(o))
	o.P, o.S = text.P, text.S
	return err
}

func (h *Hyperliquid) placeOrders(t *trader, action json.RawMessage, now int64) reply {
	var a struct {
		Orders   []wireOrder
		Grouping string
	}
	if json.Unmarshal(action, &a) != nil || len(a.Orders) == 0 {
		return invalidBody
	}
	statuses := []any{}
	waiting := false // the children of a resting entry
	for i := range a.Orders {
		if a.Grouping == "normalTpsl" && i > 0 && waiting {
			h.addTrigger(t, &a.Orders[i], now, true)
			statuses = append(statuses, "waitingForFill")
			continue
		}
		status, failed := h.place(t, &a.Orders[i], now)
		statuses = append(statuses, status)
		if a.Grouping == "normalTpsl" && i == 0 {
			if failed {
				return statusesOf("order", []any{status, status, status}[:len(a.Orders)])
			}
			_, filled := status.(map[string]any)["filled"]
			waiting = !filled
		}
	}
	return statusesOf("order", statuses)
}

// place executes one order and returns its status.
func (h *Hyperliquid) place(t *trader, o *wireOrder, now int64) (status any, failed bool) {
	if text := h.check(t, o); text != "" {
		h.record(t, o, now, rejection(text), decimal.Zero)
		return map[string]any{"error": text + fmt.Sprintf(" asset=%d", o.A)}, true
	}
	if o.T.Trigger != nil {
		order := h.addTrigger(t, o, now, false)
		return map[string]any{"resting": order.ids()}, false
	}
	m := h.markets[o.A]
	bid, ask := spread(m)
	price, size := decimal.RequireFromString(o.P), decimal.RequireFromString(o.S)
	best := ask
	if !o.B {
		best = bid
	}
	if crosses := o.B && !price.LessThan(ask) || !o.B && !price.GreaterThan(bid); crosses {
		order := h.record(t, o, now, "filled", decimal.Zero)
		h.fill(t, order, best, size, true, now)
		return map[string]any{"filled": map[string]any{"totalSz": size.String(), "avgPx": best.String(), "oid": order.ID}}, false
	}
	order := h.record(t, o, now, "open", size)
	return map[string]any{"resting": order.ids()}, false
}

// rejection returns the state of an order that was refused with the given text.
func rejection(text string) string {
	for beginning, state := range map[string]string{
		"Price": "tickRejected", "Order must have": "minTradeNtlRejected", "Reduce": "reduceOnlyRejected", "Post": "badAloPxRejected",
		"Order could": "iocCancelRejected", "Insufficient": "perpMarginRejected", "Invalid TP": "badTriggerPxRejected",
	} {
		if strings.HasPrefix(text, beginning) {
			return state
		}
	}
	return "rejected"
}

var (
	plainDecimal = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)
	plainCloid   = regexp.MustCompile(`^0x[0-9a-f]{32}$`)
	minimumValue = decimal.NewFromInt(10)
)

// check returns the reason why an order is refused, or "".
func (h *Hyperliquid) check(t *trader, o *wireOrder) string {
	if o.A < 0 || o.A >= len(h.markets) || h.markets[o.A].Delisted {
		return "Asset is not tradable."
	}
	m := h.markets[o.A]
	if !plainDecimal.MatchString(o.P) || !plainDecimal.MatchString(o.S) || o.C != "" && !plainCloid.MatchString(o.C) {
		return "Order has invalid price or size."
	}
	price, size := decimal.RequireFromString(o.P), decimal.RequireFromString(o.S)
	bid, ask := spread(m)
	position := t.positions[m.Name].size
	reduces := position.IsPositive() && !o.B || position.IsNegative() && o.B
	switch {
	case !price.IsPositive() || !tick(price, m).Equal(price):
		return "Price must be divisible by tick size."
	case !size.IsPositive() || !size.Round(int32(m.SzDecimals)).Equal(size):
		return "Order has invalid size."
	case o.R && o.T.Trigger == nil && (!reduces || size.GreaterThan(position.Abs())):
		return "Reduce only order would increase position."
	case price.Mul(size).LessThan(minimumValue) && (!o.R || !size.Equal(position.Abs())):
		return "Order must have minimum value of $10."
	case o.T.Trigger != nil:
		return checkTrigger(o, decimal.RequireFromString(m.Mid))
	case o.T.Limit == nil:
		return "Order has invalid type."
	}
	crosses := o.B && !price.LessThan(ask) || !o.B && !price.GreaterThan(bid)
	switch {
	case o.T.Limit.TIF == "Alo" && crosses:
		return fmt.Sprintf("Post only order would have immediately matched, bbo was %s@%s.", bid, ask)
	case o.T.Limit.TIF == "Ioc" && !crosses:
		return "Order could not immediately match against any resting orders."
	case !o.R && !reduces && price.Mul(size).GreaterThan(h.equity(t).Mul(decimal.NewFromInt(int64(m.MaxLeverage)))):
		return "Insufficient margin to place order."
	}
	return ""
}

// checkTrigger refuses a trigger that the price has already passed.
func checkTrigger(o *wireOrder, mid decimal.Decimal) string {
	if !plainDecimal.MatchString(o.T.Trigger.TriggerPx) {
		return "Invalid TP/SL price."
	}
	px := decimal.RequireFromString(o.T.Trigger.TriggerPx)
	above := o.B == (o.T.Trigger.TPSL == "sl") // a stop that buys triggers above the price
	if above && !px.GreaterThan(mid) || !above && !px.LessThan(mid) {
		return "Invalid TP/SL price."
	}
	return ""
}

func (h *Hyperliquid) cancelOrders(kind string, t *trader, action json.RawMessage, now int64) reply {
	var a struct {
		Cancels []struct {
			A     int    `json:"a"`
			O     uint64 `json:"o"`
			Asset int    `json:"asset"`
			Cloid string `json:"cloid"`
		}
	}
	if json.Unmarshal(action, &a) != nil || len(a.Cancels) == 0 {
		return invalidBody
	}
	statuses := []any{}
	for _, c := range a.Cancels {
		i := slices.IndexFunc(t.orders, func(o *order) bool {
			return o.open() && (kind == "cancel" && o.ID == c.O && o.asset == c.A || kind == "cancelByCloid" && o.Cloid == c.Cloid && o.asset == c.Asset)
		})
		if i < 0 {
			statuses = append(statuses, map[string]any{"error": fmt.Sprintf("Order was never placed, already canceled, or filled. asset=%d", c.A+c.Asset)})
			continue
		}
		t.orders[i].end("canceled", now)
		statuses = append(statuses, "success")
	}
	return statusesOf("cancel", statuses)
}
