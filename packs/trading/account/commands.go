package account

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/market"
	"github.com/toolyard/toolyard/yard"
)

// Commands are operator actions.
var Commands = []string{"pause", "resume", "reduce", "flatten", "kill", "clear-halt"}

// Instruction is a command from an operator. Models cannot issue one.
type Instruction struct {
	Command string
	By      string
	Reason  string
	At      time.Time
	Broker  market.Broker
}

// deadManDelay is the time after a kill when the venue, if it supports this, cancels all orders in
// case individual cancellations fail.
const deadManDelay = 6 * time.Second

// Command carries out an operator's command and returns its effect. It works in every state of the
// account. The restriction applies on all replicas as soon as the command is recorded, before any
// order is canceled.
func (a *Account) Command(ctx context.Context, o Instruction) (effect string, err error) {
	o.At = o.At.UTC().Truncate(time.Microsecond)
	c := Command{Name: o.Command, By: o.By, Reason: o.Reason, Effect: effects[o.Command]}
	if err := a.appendRow(ctx, row(kindCommand, "", o.At, c)); err != nil {
		return "", err
	}
	if o.Command != "kill" && o.Command != "flatten" {
		return c.Effect, nil
	}
	if o.Broker == nil {
		return "", toolyard.Errorf(toolyard.Invalid, "%s, but the account has no broker that can cancel orders or close positions.", c.Effect)
	}
	var failures []string
	canceled, problems := a.cancelAll(ctx, &o)
	failures = append(failures, problems...)
	effect = fmt.Sprintf("%s; %d orders canceled", c.Effect, canceled)
	if o.Command == "flatten" {
		closed, problems := a.closeAll(ctx, &o)
		failures = append(failures, problems...)
		effect += fmt.Sprintf(", %d positions closed", closed)
	}
	if len(failures) > 0 {
		return "", toolyard.Errorf(toolyard.Failed, "%s, but not everything succeeded: %s. Repeat the command.", effect, strings.Join(failures, "; "))
	}
	return effect, nil
}

var effects = map[string]string{
	"pause":      "no orders are accepted until resume",
	"reduce":     "only orders that reduce positions are accepted until resume",
	"resume":     "pause and reduce are lifted",
	"kill":       "no orders are accepted until clear-halt",
	"flatten":    "all orders are canceled and all positions are closed",
	"clear-halt": "kill is lifted, and so are all halts by rules",
}

// appendRow appends a row that does not depend on earlier rows.
func (a *Account) appendRow(ctx context.Context, e yard.JournalEntry) error {
	for range maxAttempts {
		last, err := a.Journal.Last(ctx, a.stream())
		if err != nil {
			return err
		}
		_, err = a.Journal.Append(ctx, a.stream(), last, e)
		if !HasCode(err, toolyard.VersionConflict) {
			return err
		}
	}
	return errTooBusy
}

// intend records an intent with a new stamp.
func (a *Account) intend(ctx context.Context, at time.Time, clientID string, i Intent) (*Intent, error) {
	for range maxAttempts {
		l, err := a.Ledger(ctx, at)
		if err != nil {
			return nil, err
		}
		i.Stamp = market.NextStamp(l.nonce, at)
		_, err = a.Journal.Append(ctx, a.stream(), l.seq, row(kindIntent, clientID, at, i))
		if !HasCode(err, toolyard.VersionConflict) {
			return &i, err
		}
	}
	return nil, errTooBusy
}

func (a *Account) cancelAll(ctx context.Context, o *Instruction) (canceled int, failures []string) {
	fail := func(what string, err error) { failures = append(failures, what+": "+toolyard.AsError(err).Message) }
	if s, ok := o.Broker.(market.SwitchedBroker); ok && o.Command == "kill" {
		i, err := a.intend(ctx, o.At, "", Intent{})
		if err == nil {
			err = s.CancelAllAt(ctx, a.Now().Add(deadManDelay), i.Stamp)
		}
		if err != nil {
			fail("scheduled cancellation", err)
		}
	}
	snapshot, err := a.Portfolio.At(ctx, o.At)
	if local, ok := o.Broker.(market.LocalBroker); ok && err != nil {
		if canceled, err = local.CancelAll(ctx, o.At); err == nil {
			return canceled, failures
		}
	}
	if err != nil {
		fail("open orders", err)
		return 0, failures
	}
	for _, open := range snapshot.Orders {
		ref := market.Ref{Symbol: open.Symbol, ClientID: open.ClientID, OrderID: open.OrderID}
		i, err := a.intend(ctx, o.At, "", Intent{Cancel: &ref})
		if err == nil {
			err = o.Broker.Cancel(ctx, ref, i.Stamp)
		}
		if err != nil {
			fail("order "+open.ClientID, err)
			continue
		}
		canceled++
	}
	return canceled, failures
}

// flattenBps is how far from the market price an operator may close a position, in basis points.
const flattenBps = 500

func (a *Account) closeAll(ctx context.Context, o *Instruction) (closed int, failures []string) {
	fail := func(what string, err error) { failures = append(failures, what+": "+toolyard.AsError(err).Message) }
	snapshot, err := a.Portfolio.At(ctx, o.At)
	if err != nil {
		fail("positions", err)
		return 0, failures
	}
	specs, err := a.Data.Specs(ctx)
	if err != nil {
		fail("markets", err)
		return 0, failures
	}
	for _, p := range snapshot.Positions {
		last, err := a.Journal.Last(ctx, a.stream())
		if err != nil {
			fail(p.Symbol, err)
			continue
		}
		side := p.Side().Opposite()
		bound := decimal.NewFromInt(10_000).Add(side.Signed(decimal.NewFromInt(flattenBps))).Div(decimal.NewFromInt(10_000))
		order := market.Order{
			ClientID: market.ClientID(a.Name, "flatten/"+p.Symbol+"/"+strconv.FormatUint(last, 10)),
			Symbol:   p.Symbol, Side: side, Type: market.MarketOrder, Size: p.Size.Abs(), TIF: market.IOC, ReduceOnly: true,
			Price: specs[p.Symbol].RoundPrice(p.MarkPrice.Mul(bound)),
		}
		i, err := a.intend(ctx, o.At, order.ClientID, Intent{Order: &order})
		if err != nil {
			fail(p.Symbol, err)
			continue
		}
		outcome, err := a.send(ctx, o.Broker, order.ClientID, i)
		switch {
		case err != nil:
			fail(p.Symbol, err)
		case outcome.kind() == Rejected || outcome.kind() == Unknown || outcome.kind() == Canceled:
			fail(p.Symbol, fmt.Errorf("the order is %s %s", outcome.kind(), outcome.NotPlaced))
		default:
			closed++
		}
	}
	return closed, failures
}

// Reset hides everything before the given time. Only simulated accounts can be reset.
func (a *Account) Reset(ctx context.Context, from time.Time) error {
	return a.appendRow(ctx, row(kindReset, "", from, struct{}{}))
}
