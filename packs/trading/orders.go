package trading

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/account"
	"github.com/toolyard/toolyard/packs/trading/engine"
	"github.com/toolyard/toolyard/packs/trading/market"
)

// number is an exact decimal in a tool's arguments.
type number struct{ decimal.NullDecimal }

// JSONSchema describes a number as a string, because JSON numbers lose digits.
func (number) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^[0-9]{1,15}(\\.[0-9]{1,12})?$"}`)
}

// UnmarshalText implements [encoding.TextUnmarshaler]. The schema's pattern limits the text.
func (n *number) UnmarshalText(text []byte) error {
	d, err := decimal.NewFromString(string(text))
	n.NullDecimal = decimal.NewNullDecimal(d)
	return err
}

// orderArgs are the arguments of propose_order and simulate_action.
type orderArgs struct {
	Symbol string             `json:"symbol" minLength:"1" maxLength:"32" doc:"Symbol of the perpetual to trade, such as BTC."`
	Action engine.Action      `json:"action" enum:"open,close,reduce,cancel,hold" doc:"What to do. open: open or add to a position. close: close the whole position. reduce: close part of the position. cancel: cancel an open order. hold: record the decision to do nothing."`
	Side   market.Side        `json:"side,omitempty" enum:"buy,sell" doc:"For open: buy opens a long position, sell opens a short one. Omit it for all other actions."`
	Type   market.OrderType   `json:"type,omitempty" enum:"market,limit,stop,take_profit" doc:"Order type. stop and take_profit orders wait until triggerPrice is reached. Default: market."`
	TIF    market.TimeInForce `json:"tif,omitempty" enum:"Gtc,Ioc,Alo" doc:"Time in force of a limit order. Gtc: stays open until it is filled or canceled (the default). Ioc: whatever cannot be filled immediately is canceled. Alo: rejected if it would be filled immediately (post-only)."`

	Size         *number `json:"size,omitempty" doc:"Size of the order in units of the asset, such as 0.5 for 0.5 BTC. To open or reduce, set exactly one of size, notionalUsd and fraction."`
	NotionalUSD  *number `json:"notionalUsd,omitempty" doc:"Size of the order as its value in US dollars."`
	Fraction     *number `json:"fraction,omitempty" doc:"Size of the order as a fraction, such as 0.25 for a quarter: for reduce, of the position; for open, of the account's equity."`
	LimitPrice   *number `json:"limitPrice,omitempty" doc:"For limit orders: the worst acceptable price."`
	TriggerPrice *number `json:"triggerPrice,omitempty" doc:"For stop and take_profit orders: the price at which the order is triggered."`
	StopLoss     *number `json:"stopLoss,omitempty" doc:"For open: the price at which the position is closed to limit the loss."`
	TakeProfit   *number `json:"takeProfit,omitempty" doc:"For open: the price at which the position is closed to take the profit."`

	ReduceOnly bool   `json:"reduceOnly,omitempty" doc:"Whether to reject the order if it would open or enlarge a position."`
	OrderID    string `json:"orderId,omitempty" maxLength:"64" doc:"For cancel: the orderId or clientOrderId of the open order to cancel."`
	orderNotes
}

type orderNotes struct {
	Reasoning string `json:"reasoning" minLength:"20" maxLength:"2000" doc:"Why you made this decision. It is recorded and shown to people."`
	ClientID  string `json:"clientOrderId,omitempty" pattern:"^0x[0-9a-f]{32}$" doc:"Your own ID for the order. To place an identical order again intentionally, pass a new ID; otherwise, it is rejected as a duplicate."`
}

func (in *orderArgs) proposal() engine.Proposal {
	value := func(n *number) decimal.NullDecimal {
		if n == nil {
			return decimal.NullDecimal{}
		}
		return n.NullDecimal
	}
	return engine.Proposal{
		Symbol: in.Symbol, Action: in.Action, Side: in.Side, Type: in.Type, TIF: in.TIF, ReduceOnly: in.ReduceOnly, OrderID: in.OrderID,
		Size: value(in.Size), NotionalUSD: value(in.NotionalUSD), Fraction: value(in.Fraction), LimitPrice: value(in.LimitPrice),
		TriggerPrice: value(in.TriggerPrice), StopLoss: value(in.StopLoss), TakeProfit: value(in.TakeProfit),
	}
}

// request returns the order that a call proposes. At a gate where callers set the time, calls do
// not get their own keys, so that a simulation can be repeated exactly.
func (in *orderArgs) request(ctx context.Context, c *toolyard.Call, a *account.Access) (account.Request, error) {
	asOf, err := a.Time(ctx, c)
	r := account.Request{
		Proposal: in.proposal(), Reasoning: in.Reasoning, Key: cmp.Or(c.IdempotencyKey, c.ID), ClientID: in.ClientID,
		ExplicitKey: in.ClientID != "" || c.IdempotencyKey != "", Caller: c.Caller.ID, Session: c.Session, Gate: c.Gate,
		AsOf: asOf, Simulated: a.CallerClock,
	}
	if a.CallerClock {
		r.Key = c.IdempotencyKey
	}
	return r, err
}

func proposeOrder() *toolyard.Tool {
	return toolyard.Define(toolyard.Spec{
		Name: "propose_order", Category: execution, Effects: "write", Origin: "packs/trading",
		Description: "Proposes an order or a cancellation, or records the decision to hold. The account's rules decide whether it is accepted; if a rule rejects it, the result contains the rule and the reason. Sizes are rounded down to lots, and prices are rounded to ticks.",
		Hint:        "Use for every decision, including the decision to hold. If you are not sure about the limits, call simulate_action first",
	}, func(ctx context.Context, c *toolyard.Call, in orderArgs) (*account.Result, error) {
		a, err := account.Of(c)
		if err != nil {
			return nil, err
		}
		broker, ok := toolyard.Client[market.Broker](c)
		if !ok {
			return nil, toolyard.Errorf(toolyard.NoData, "Account %s has no broker at gate %s, so it is read-only.", a.Name, c.Gate)
		}
		r, err := in.request(ctx, c, a)
		if err != nil {
			return nil, err
		}
		r.Broker = broker
		if a.Submit == account.Confirm {
			r.Confirm = func(ctx context.Context, d *engine.Decision) (string, error) {
				return confirm(ctx, c, a, &r.Proposal, d)
			}
		}
		return a.Propose(ctx, r)
	})
}

// consent is the part of a question that the order must match.
type consent struct {
	Price    decimal.Decimal `json:"price"`
	ValueUSD decimal.Decimal `json:"valueUsd"`
}

// confirm asks a person whether an order may be placed. If it may not, confirm returns the reason.
// If the position changes before the answer, the person is asked again.
func confirm(ctx context.Context, c *toolyard.Call, a *account.Access, p *engine.Proposal, d *engine.Decision) (refusal string, err error) {
	now := consent{d.Estimate.Price, d.Estimate.NotionalUSD}
	state, err := json.Marshal(now)
	if err != nil {
		return "", err
	}
	reply, err := toolyard.Ask[struct{}](ctx, c, toolyard.Question{
		Key: "confirm", Message: question(a, p, d), State: state, Bind: fmt.Sprintf("%s %s %s", a.BrokerName, a.Name, d.Held),
	})
	switch {
	case err != nil:
		return "", err
	case reply.Action == "decline":
		return "the user declined the order", nil
	case !reply.Accepted():
		return "the user closed the question and did not answer it", nil
	}
	var then consent
	if err := json.Unmarshal(reply.State, &then); err != nil {
		return "", err
	}
	switch collar := a.Mandate.CollarBps; {
	case moved(then.Price, now.Price, collar):
		return fmt.Sprintf("the price moved from %s to %s before the user answered; propose a new order", then.Price, now.Price), nil
	case moved(then.ValueUSD, now.ValueUSD, collar):
		return fmt.Sprintf("the value of the order changed from %s to %s USD before the user answered; propose a new order", then.ValueUSD.Round(2), now.ValueUSD.Round(2)), nil
	}
	return "", nil
}

// moved reports whether a value changed by more than the given number of basis points.
func moved(from, to decimal.Decimal, bps int) bool {
	return to.Sub(from).Abs().Mul(decimal.NewFromInt(10_000)).GreaterThan(from.Mul(decimal.NewFromInt(int64(bps))))
}

func question(a *account.Access, p *engine.Proposal, d *engine.Decision) string {
	if p.Action == engine.CancelOne {
		return fmt.Sprintf("Cancel order %s in %s for account %s (%s)?", p.OrderID, p.Symbol, a.Name, a.BrokerName)
	}
	o, e := &d.Order, &d.Estimate
	var b strings.Builder
	fmt.Fprintf(&b, "Place this order in account %s (%s)?\n%s %s %s, %s, about %s USD at %s", a.Name, a.BrokerName,
		strings.ToUpper(string(o.Side)), o.Size, o.Symbol, o.Type, e.NotionalUSD.Round(2), e.Price)
	if o.Type == market.MarketOrder {
		fmt.Fprintf(&b, ", at worst %s", o.Price)
	}
	if o.ReduceOnly {
		b.WriteString(", reduce only")
	}
	if o.StopLoss.Valid {
		fmt.Fprintf(&b, ", stop loss %s", o.StopLoss.Decimal)
	}
	if o.TakeProfit.Valid {
		fmt.Fprintf(&b, ", take profit %s", o.TakeProfit.Decimal)
	}
	fmt.Fprintf(&b, ".\nFee about %s USD, margin after %s USD", e.FeeUSD.Round(4), e.MarginAfterUSD.Round(2))
	if e.LiquidationPrice.Valid {
		fmt.Fprintf(&b, ", liquidation at %s", e.LiquidationPrice.Decimal)
	}
	fmt.Fprintf(&b, ".\nAll %d rules accept the order.", len(d.Verdicts))
	return b.String()
}

func simulateAction() *toolyard.Tool {
	type args struct {
		orderArgs
		Reasoning string `json:"reasoning,omitempty" maxLength:"2000" doc:"Optional here; propose_order requires it."`
	}
	type result struct {
		WouldBe  account.Kind     `json:"wouldBe" enum:"noop,rejected,executed,resting,pending,canceled"`
		Rule     engine.Rule      `json:"rule,omitempty" doc:"The first rule that rejects the order."`
		Detail   string           `json:"detail,omitempty"`
		Rules    []engine.Verdict `json:"rules" doc:"The verdict of every rule, in order."`
		Order    *market.Order    `json:"order,omitempty" doc:"The order as it would be placed."`
		Estimate *engine.Estimate `json:"estimate,omitempty"`
		Adjusted []string         `json:"adjusted,omitempty"`
	}
	return toolyard.Define(toolyard.Spec{
		Name: "simulate_action", Category: execution, Effects: toolyard.ReadOnly, Origin: "packs/trading",
		Description: "Shows what propose_order would do with the same arguments: the verdict of every rule, the rounded order, and estimates of the price, fee, margin and liquidation price. Changes nothing.",
		Hint:        "Use to check an order against the limits before proposing it",
	}, func(ctx context.Context, c *toolyard.Call, in args) (*result, error) {
		a, err := account.Of(c)
		if err != nil {
			return nil, err
		}
		r, err := in.request(ctx, c, a)
		if err != nil {
			return nil, err
		}
		d, err := a.Evaluate(ctx, r)
		if err != nil {
			return nil, err
		}
		out := &result{WouldBe: wouldBe(&r, &d), Rules: d.Verdicts, Adjusted: d.Adjusted}
		if refusal, refused := d.Refusal(); refused {
			out.Rule, out.Detail = refusal.Rule, refusal.Detail
		} else if a.Submit == account.Never && r.Proposal.Action != engine.Hold {
			out.WouldBe, out.Rule, out.Detail = account.Rejected, account.RuleSubmit, "this account does not place orders (submit: never)"
		}
		if d.Order.Symbol != "" {
			out.Order, out.Estimate = &d.Order, &d.Estimate
		}
		return out, nil
	})
}

// wouldBe predicts the outcome of a proposal.
func wouldBe(r *account.Request, d *engine.Decision) account.Kind {
	_, refused := d.Refusal()
	switch {
	case refused:
		return account.Rejected
	case r.Proposal.Action == engine.Hold:
		return account.Noop
	case r.Proposal.Action == engine.CancelOne:
		return account.Canceled
	case d.Order.TIF != market.IOC:
		return account.Resting
	case r.Simulated:
		return account.Pending
	}
	return account.Executed
}
