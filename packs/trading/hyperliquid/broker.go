package hyperliquid

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/market"
)

const (
	verifyEvery = time.Hour
	actionCost  = 1 // weight of an action with fewer than 40 orders
	feeWithin   = 2 * time.Second
)

// stopSlippage is the distance between a triggered market order's limit price and its trigger, as a
// fraction.
var stopSlippage = decimal.RequireFromString("0.1")

// Broker places an account's orders with an agent's key. An agent can trade but not withdraw.
type Broker struct {
	*Account
	signer *signer

	mu       sync.Mutex
	verified time.Time // time when the venue last confirmed the agent
}

var (
	_ market.Broker         = (*Broker)(nil)
	_ market.SwitchedBroker = (*Broker)(nil)
)

// NewBroker returns an account's broker. It refuses the account's own key, and refuses mainnet
// unless live is set.
func NewBroker(a *Account, agentKey string, live bool) (*Broker, error) {
	if !a.client.testnet && !live {
		return nil, errors.New("set live: true to trade with real money on mainnet")
	}
	s, err := newSigner(agentKey, a.client.testnet)
	if err != nil {
		return nil, err
	}
	if s.address == a.address {
		return nil, errors.New("agentKey is the account's own key, which could withdraw everything; create an API wallet on Hyperliquid and use its key")
	}
	return &Broker{Account: a, signer: s}, nil
}

// Verify checks that the venue accepts the agent for the account. Place and Cancel also do this, so
// that an order with a wrong key fails with a clear reason.
func (b *Broker) Verify(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.client.now()
	if !b.verified.IsZero() && now.Sub(b.verified) < verifyEvery {
		return nil
	}
	if err := b.Account.Verify(ctx); err != nil {
		return err
	}
	role, err := b.client.userRole(ctx, b.signer.address)
	if err != nil {
		return err
	}
	if role.Role != "agent" || !strings.EqualFold(role.Data.User, b.address) {
		return toolyard.Errorf(toolyard.PermissionDenied, "Agent %s is not approved for account %s. Approve it as an API wallet on Hyperliquid.", b.signer.address, b.address)
	}
	agents, err := b.client.extraAgents(ctx, b.address)
	if err != nil {
		return err
	}
	for _, agent := range agents {
		if strings.EqualFold(agent.Address, b.signer.address) && agent.ValidUntil != nil && int64(*agent.ValidUntil) <= now.UnixMilli() {
			return toolyard.Errorf(toolyard.PermissionDenied, "The approval for agent %s has expired. Approve a new API wallet on Hyperliquid.", b.signer.address)
		}
	}
	b.verified = now
	return nil
}

// Place implements [market.Broker].
func (b *Broker) Place(ctx context.Context, o market.Order, s market.Stamp) (market.Placed, error) {
	a, err := b.orderAction(ctx, o)
	if err != nil {
		return market.Placed{}, err
	}
	response, err := b.act(ctx, a, s)
	if refused, ok := errors.AsType[*refusal](err); ok {
		return market.Placed{ClientID: o.ClientID, Status: market.Rejected, At: b.client.now().UTC(), Detail: refused.text}, nil
	}
	if err != nil {
		return market.Placed{}, err
	}
	statuses, err := readStatuses(response, len(a.Orders))
	if err != nil {
		return market.Placed{}, outcomeUnknown(err)
	}
	out, order := b.placed(o, statuses)
	if out.Status == market.Filled { // the fee is worth a request, but its failure is ignored
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), feeWithin)
		defer cancel()
		full := out
		if b.addFills(ctx, &full, order, out.At.Add(-market.StampLifetime), out.At.Add(fillDelay)) == nil && full.Filled.Equal(out.Filled) {
			out.FeeUSD = full.FeeUSD
		}
	}
	return out, nil
}

// placed converts the states of an order and its stops, and returns the order's ID.
func (b *Broker) placed(o market.Order, statuses []orderResult) (market.Placed, uint64) {
	out := market.Placed{ClientID: o.ClientID, At: b.client.now().UTC(), Status: market.Resting}
	var order uint64
	switch first := statuses[0]; {
	case first.Error != "":
		out.Status, out.Detail = market.Rejected, cleanText(first.Error)
		if errorKind(first.Error) == iocCancel {
			out.Status = market.Canceled
		}
	case first.Filled != nil:
		order = first.Filled.ID
		out.Status, out.Filled, out.AvgPrice = market.Filled, first.Filled.Size.Decimal, first.Filled.Price.Decimal
		if out.Filled.LessThan(o.Size) && o.TIF == market.IOC {
			out.Status, out.Detail = market.Canceled, "the rest of the order was canceled"
		}
	case first.Resting != nil:
		order = first.Resting.ID
	default: // waitingForTrigger or waitingForFill
		out.Detail = cleanText(first.word)
	}
	if order != 0 {
		out.OrderID = strconv.FormatUint(order, 10)
	}
	for _, child := range statuses[1:] {
		if child.Error != "" && out.Status != market.Rejected {
			out.Detail = strings.TrimPrefix(out.Detail+"; a stop was refused: "+cleanText(child.Error), "; ")
		}
	}
	return out, order
}

// orderAction returns the action that places an order with its stops.
func (b *Broker) orderAction(ctx context.Context, o market.Order) (*orderAction, error) {
	u, err := b.client.fetchUniverse(ctx)
	if err != nil {
		return nil, err
	}
	i, ok := u.byName[o.Symbol]
	if !ok {
		return nil, toolyard.Errorf(toolyard.NoData, "Hyperliquid has no perpetual %q.", o.Symbol)
	}
	m := u.market(i)
	entry, err := wireOrder(o, m)
	if err != nil {
		return nil, toolyard.Errorf(toolyard.Invalid, "The order is invalid: %w", err)
	}
	a := &orderAction{Type: "order", Grouping: groupNone, Orders: []orderWire{entry}}
	for _, stop := range []struct {
		kind    market.OrderType
		trigger decimal.NullDecimal
	}{{market.StopOrder, o.StopLoss}, {market.TakeProfit, o.TakeProfit}} {
		if !stop.trigger.Valid {
			continue
		}
		child, err := wireOrder(market.Order{
			ClientID: market.ChildID(o.ClientID, stop.kind), Symbol: o.Symbol, Side: o.Side.Opposite(), Type: stop.kind,
			Size: o.Size, Trigger: stop.trigger, ReduceOnly: true,
		}, m)
		if err != nil {
			return nil, toolyard.Errorf(toolyard.Invalid, "The order's stop is invalid: %w", err)
		}
		a.Orders, a.Grouping = append(a.Orders, child), groupTPSL
	}
	return a, nil
}

var cloidRE = regexp.MustCompile(`^0x[0-9a-f]{32}$`)

// wireOrder converts an order. It refuses an inexact price or size and does not round it.
func wireOrder(o market.Order, m market.Market) (orderWire, error) {
	w := orderWire{Asset: m.Asset, Buy: o.Side == market.Buy, ReduceOnly: o.ReduceOnly, Cloid: o.ClientID}
	if !cloidRE.MatchString(o.ClientID) {
		return w, errors.New("the client order ID must be 0x followed by 32 hexadecimal digits")
	}
	price := o.Price
	if o.Type.Triggered() {
		trigger := o.Trigger.Decimal
		if err := checkPrice(trigger, int(m.SizeDecimals)); err != nil {
			return w, err
		}
		if price.IsZero() {
			price = m.RoundPrice(trigger.Add(o.Side.Signed(trigger.Mul(stopSlippage))))
		}
		t := &triggerWire{IsMarket: true, TriggerPx: wireDecimal(trigger), TPSL: "sl"}
		if o.Type == market.TakeProfit {
			t.TPSL = "tp"
		}
		w.Type.Trigger = t
	} else {
		tif := o.TIF
		if o.Type == market.MarketOrder {
			tif = market.IOC
		}
		if tif != market.GTC && tif != market.IOC && tif != market.ALO {
			return w, fmt.Errorf("unknown time in force %q", tif)
		}
		w.Type.Limit = &limitWire{TIF: string(tif)}
	}
	if err := errors.Join(checkPrice(price, int(m.SizeDecimals)), checkSize(o.Size, int(m.SizeDecimals))); err != nil {
		return w, err
	}
	w.Price, w.Size = wireDecimal(price), wireDecimal(o.Size)
	return w, nil
}

// Cancel implements [market.Broker].
func (b *Broker) Cancel(ctx context.Context, r market.Ref, s market.Stamp) error {
	asset, err := b.client.assetOf(ctx, r.Symbol)
	if err != nil {
		return err
	}
	var a action = cancelByCloidAction{Type: "cancelByCloid", Cancels: []cancelByCloidWire{{asset, r.ClientID}}}
	if r.ClientID == "" {
		id, err := strconv.ParseUint(r.OrderID, 10, 64)
		if err != nil {
			return toolyard.Errorf(toolyard.Invalid, "%.60q is not a Hyperliquid order ID.", r.OrderID)
		}
		a = cancelAction{Type: "cancel", Cancels: []cancelWire{{asset, id}}}
	}
	response, err := b.act(ctx, a, s)
	if refused, ok := errors.AsType[*refusal](err); ok {
		return toolyard.Errorf(toolyard.Failed, "Hyperliquid refused to cancel the order: %s", refused.text)
	}
	if err != nil {
		return err
	}
	statuses, err := readStatuses(response, 1)
	switch {
	case err != nil:
		return outcomeUnknown(err)
	case statuses[0].Error == "" || errorKind(statuses[0].Error) == missingOrder:
		return nil
	}
	return toolyard.Errorf(toolyard.Failed, "Hyperliquid did not cancel the order: %s", cleanText(statuses[0].Error))
}

// CancelAllAt implements [market.SwitchedBroker].
func (b *Broker) CancelAllAt(ctx context.Context, at time.Time, s market.Stamp) error {
	_, err := b.act(ctx, scheduleCancelAction{Type: "scheduleCancel", Time: uint64(at.UnixMilli())}, s)
	if refused, ok := errors.AsType[*refusal](err); ok {
		return toolyard.Errorf(toolyard.Failed, "Hyperliquid refused to schedule the cancellation: %s", refused.text)
	}
	return err
}

// refusal means that the venue refused a whole action, so nothing happened.
type refusal struct{ text string }

func (e *refusal) Error() string { return e.text }

func outcomeUnknown(cause error) error {
	return &toolyard.Error{
		Code: toolyard.OutcomeUnknown, Err: cause,
		Message: "Hyperliquid did not confirm the action, which may have been executed.",
	}
}

// act signs and sends an action. An error other than OutcomeUnknown means that nothing happened.
// Once sent, the action continues even if the caller disconnects.
func (b *Broker) act(ctx context.Context, a action, s market.Stamp) (json.RawMessage, error) {
	if err := b.Verify(ctx); err != nil {
		return nil, err
	}
	if s.Nonce <= 0 || !b.client.now().Before(s.Expires) {
		return nil, toolyard.Errorf(toolyard.Unavailable, "The action expired before it was sent. Nothing happened.")
	}
	if err := b.client.take(ctx, actionCost); err != nil {
		return nil, err
	}
	nonce, expires := uint64(s.Nonce), uint64(s.Expires.UnixMilli())
	answer, err := b.client.post(context.WithoutCancel(ctx), "exchange", struct {
		Action       action    `json:"action"`
		Nonce        uint64    `json:"nonce"`
		Signature    signature `json:"signature"`
		VaultAddress *string   `json:"vaultAddress"`
		ExpiresAfter uint64    `json:"expiresAfter"`
	}{a, nonce, b.signer.sign(a, nonce, expires), nil, expires})
	if err != nil {
		if notSent(err) {
			return nil, err
		}
		return nil, outcomeUnknown(err)
	}
	var out exchangeAnswer
	if err := decode(answer, &out); err != nil {
		return nil, outcomeUnknown(err)
	}
	switch out.Status {
	case "ok":
		return out.Response, nil
	case "err":
		return nil, b.refused(out.Response)
	}
	return nil, outcomeUnknown(fmt.Errorf("status %.60q", out.Status))
}

// notSent reports whether the venue cannot have accepted the request: there was no connection, or
// the venue refused the request with a 4xx status.
func notSent(err error) bool {
	if status, ok := errors.AsType[*statusError](err); ok {
		return status.status >= http.StatusBadRequest && status.status < http.StatusInternalServerError
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}

// refused converts a failed action's text.
func (b *Broker) refused(response json.RawMessage) error {
	var text string
	if err := json.Unmarshal(response, &text); err != nil {
		return outcomeUnknown(err)
	}
	switch errorKind(text) {
	case unknownSigner:
		b.mu.Lock()
		b.verified = time.Time{}
		b.mu.Unlock()
		return toolyard.Errorf(toolyard.PermissionDenied, "Hyperliquid does not accept the signature from agent %s. Check agentKey, testnet and the agent's approval.", b.signer.address)
	case badNonce: // another process may have used the nonce for the same order
		return outcomeUnknown(errors.New(cleanText(text)))
	case tooManyActions:
		return &toolyard.Error{Code: toolyard.RateLimited, RetryAfter: pauseOn429, Message: "Hyperliquid is rate-limiting this account: " + cleanText(text)}
	}
	return &refusal{cleanText(text)}
}

// Kinds of errors that need special handling.
const (
	iocCancel      = "IocCancel"
	missingOrder   = "MissingOrder"
	unknownSigner  = "UnknownSigner"
	badNonce       = "BadNonce"
	tooManyActions = "TooManyActions"
)

// errorKinds are the prefixes of error texts. The venue appends undocumented details such as "
// asset=3", so only prefixes are compared.
var errorKinds = []struct{ beginning, kind string }{
	{"Order could not immediately match against any resting orders", iocCancel},
	{"Order was never placed, already canceled, or filled", missingOrder},
	{"User or API Wallet ", unknownSigner},
	{"L1 error: User or API Wallet ", unknownSigner},
	{"Invalid nonce", badNonce},
	{"Too many cumulative requests sent", tooManyActions},
}

func errorKind(text string) string {
	for _, k := range errorKinds {
		if strings.HasPrefix(text, k.beginning) {
			return k.kind
		}
	}
	return ""
}

// cleanText makes the venue's text safe to show: one line with a limited length.
func cleanText(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "�"))
	if len(s) > maxErrorText {
		s = strings.ToValidUTF8(s[:maxErrorText], "") + "…"
	}
	return s
}
