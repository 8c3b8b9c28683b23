package account

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/engine"
	"github.com/toolyard/toolyard/packs/trading/market"
	"github.com/toolyard/toolyard/yard"
)

// Request is a proposal and its circumstances.
type Request struct {
	Proposal    engine.Proposal
	Reasoning   string
	Key         string // identifies the order; if empty, the position in the journal does
	ClientID    string // chosen by the caller; derived from Key if empty
	ExplicitKey bool   // whether the caller chose Key or ClientID
	Caller      string
	Session     string
	Gate        string
	AsOf        time.Time
	Simulated   bool // whether the caller sets the as-of time
	Broker      market.Broker

	// Confirm asks a person whether an order may be placed. If it may not, Confirm returns the
	// reason. It is called again whenever the decision is repeated, because consent to one order is
	// not consent to another. It is nil if no confirmation is needed.
	Confirm func(context.Context, *engine.Decision) (refusal string, err error)
}

// clientID returns the client order ID. If there is no key, it is derived from the position in the
// journal, so that a simulation can be repeated exactly.
func (r *Request) clientID(account string, l *Ledger) string {
	key := cmp.Or(r.Key, "row "+strconv.FormatUint(l.seq-l.resetSeq, 10))
	return cmp.Or(r.ClientID, market.ClientID(account, key))
}

// Result is the outcome of a proposal.
type Result struct {
	Kind     Kind          `json:"kind" enum:"noop,rejected,executed,resting,pending,canceled,unknown"`
	Rule     engine.Rule   `json:"rule,omitempty" doc:"The rule that rejected the order."`
	Detail   string        `json:"detail,omitempty"`
	Decision string        `json:"decision" doc:"ID of the decision; see get_decision_snapshot."`
	ClientID string        `json:"clientOrderId,omitempty"`
	OrderID  string        `json:"orderId,omitempty"`
	Fill     *ExecutedFill `json:"fill,omitempty"`
	Order    *market.Order `json:"order,omitempty" doc:"The order as it was placed."`
	Adjusted []string      `json:"adjusted,omitempty" doc:"Values that were rounded to lots and ticks."`
	Repeated bool          `json:"repeated,omitempty" doc:"Whether the order had already been proposed with the same key. The result is that of the first proposal."`
}

// ExecutedFill is the executed part of an order.
type ExecutedFill struct {
	Size     string `json:"size"`
	AvgPrice string `json:"avgPrice"`
	FeeUSD   string `json:"feeUsd"`
}

// maxAttempts limits how often a decision is repeated because another replica was faster.
const maxAttempts = 100

var errTooBusy = toolyard.Errorf(toolyard.Unavailable, "The account is changing too quickly. Try again.")

// Evaluate returns the verdicts of all rules. It changes nothing.
func (a *Account) Evaluate(ctx context.Context, r Request) (engine.Decision, error) {
	l, err := a.Ledger(ctx, r.AsOf)
	if err != nil {
		return engine.Decision{}, err
	}
	in, err := a.input(ctx, l, &r)
	if err != nil {
		return engine.Decision{}, err
	}
	return engine.EvaluateAll(in), nil
}

// Propose decides about a proposal, records the decision and, if it is accepted, places the
// order. A rejection is a result, not an error.
func (a *Account) Propose(ctx context.Context, r Request) (*Result, error) {
	r.AsOf = r.AsOf.UTC().Truncate(time.Microsecond)
	for range maxAttempts {
		if err := a.catchUp(ctx, &r); err != nil {
			return nil, err
		}
		l, err := a.Ledger(ctx, r.AsOf)
		if err != nil {
			return nil, err
		}
		if changed, err := a.resolve(ctx, l, r.Broker, r.AsOf); err != nil {
			return nil, err
		} else if changed {
			continue
		}
		if earlier, err := a.earlier(ctx, l, &r); err != nil || earlier != nil {
			return earlier, err
		}
		in, err := a.input(ctx, l, &r)
		if err != nil {
			return nil, err
		}
		decision := engine.Evaluate(in)
		d := a.decide(&r, &in, &decision, l)
		if d.Kind == Pending && r.Confirm != nil {
			refusal, err := r.Confirm(ctx, &decision)
			if err != nil {
				return nil, err
			}
			if refusal != "" {
				d.Kind, d.Rule, d.Detail = Rejected, RuleConfirm, refusal
			}
		}
		result, err := a.commit(ctx, l, &r, in.ClientID, d, decision.Halt)
		if !HasCode(err, toolyard.VersionConflict) {
			return result, err
		}
	}
	return nil, errTooBusy
}

// catchUp moves a proposal that is older than the journal's newest row to that row's time, because
// a decision depends on all rows. It refuses a simulated proposal instead.
func (a *Account) catchUp(ctx context.Context, r *Request) error {
	last, err := a.LastTime(ctx)
	switch {
	case err != nil || !r.AsOf.Before(last):
		return err
	case r.Simulated:
		return toolyard.Errorf(toolyard.Invalid, "The account has already advanced to %s and cannot go back in time. Reset the account to start over.", last.Format(time.RFC3339))
	}
	r.AsOf = last
	return nil
}

// LastTime returns the time of the journal's newest row, or zero if there is none.
func (a *Account) LastTime(ctx context.Context) (time.Time, error) {
	rows, err := a.Journal.List(ctx, a.stream(), yard.JournalQuery{Newest: true, Limit: 1})
	if err != nil || len(rows) == 0 {
		return time.Time{}, err
	}
	return rows[0].AsOf, nil
}

// decide converts the engine's verdicts into a decision.
func (a *Account) decide(r *Request, in *engine.Input, e *engine.Decision, l *Ledger) *Decision {
	d := &Decision{
		Proposal: r.Proposal, Reasoning: r.Reasoning, Kind: Pending, Verdicts: e.Verdicts, Adjusted: e.Adjusted,
		EquityUSD: in.Account.EquityUSD, Watermark: l.mark(&in.Account), Caller: r.Caller, Gate: r.Gate,
	}
	if r.Proposal.PlacesOrder() && e.Order.Symbol != "" {
		d.Order, d.Estimate = &e.Order, &e.Estimate
	}
	refusal, refused := e.Refusal()
	switch {
	case refused:
		d.Kind, d.Rule, d.Detail = Rejected, refusal.Rule, refusal.Detail
	case r.Proposal.Action == engine.Hold:
		d.Kind = Noop
	case a.Submit == Never:
		d.Kind, d.Rule, d.Detail = Rejected, RuleSubmit, "this account does not place orders (submit: never)"
	}
	return d
}

// commit records a decision and carries it out.
func (a *Account) commit(ctx context.Context, l *Ledger, r *Request, clientID string, d *Decision, halt *engine.Halt) (*Result, error) {
	id := "d" + strconv.FormatUint(l.seq+1, 10)
	observed, err := a.observedRange(ctx, r)
	if err != nil {
		return nil, err
	}
	d.Observed = observed
	rows := []yard.JournalEntry{row(kindDecision, clientID, r.AsOf, d)}
	var intent *Intent
	if d.Kind == Pending {
		intent = &Intent{Order: d.Order, Stamp: market.NextStamp(l.nonce, r.AsOf)}
		if r.Proposal.Action == engine.CancelOne {
			ref := refOf(r.Proposal)
			intent.Cancel = &ref
		}
		rows = append(rows, row(kindIntent, clientID, r.AsOf, intent))
	}
	if halt != nil && d.Kind == Rejected {
		rows = append(rows, row(kindHalt, "", r.AsOf, halt))
	}
	if _, err := a.Journal.Append(ctx, a.stream(), l.seq, rows...); err != nil {
		return nil, err
	}
	a.closeObservedRange(ctx, observed, id, r.AsOf)
	result := &Result{Kind: d.Kind, Rule: d.Rule, Detail: d.Detail, Decision: id, Adjusted: d.Adjusted}
	switch {
	case intent == nil:
		return result, nil
	case intent.Cancel != nil:
		return a.sendCancel(ctx, r, result, clientID, intent)
	}
	result.ClientID, result.Order = clientID, d.Order
	outcome, err := a.send(ctx, r.Broker, clientID, intent)
	if err != nil {
		return nil, err
	}
	result.add(outcome)
	if outcome.Unknown {
		return nil, toolyard.Errorf(toolyard.OutcomeUnknown, "It is unknown whether order %s was placed (decision %s). Until this is resolved, the account accepts only orders that do not add risk.", clientID, id)
	}
	return result, nil
}

// refOf returns the order that a proposal cancels. Client IDs start with 0x.
func refOf(p engine.Proposal) market.Ref {
	if len(p.OrderID) > 2 && p.OrderID[:2] == "0x" {
		return market.Ref{Symbol: p.Symbol, ClientID: p.OrderID}
	}
	return market.Ref{Symbol: p.Symbol, OrderID: p.OrderID}
}

// add adds an outcome to a decision's result.
func (r *Result) add(o *Outcome) {
	r.Kind = o.kind()
	if o.NotPlaced != "" {
		r.Rule, r.Detail = RuleVenue, o.NotPlaced
	}
	p := o.Placed
	if p == nil {
		return
	}
	r.OrderID, r.Detail = p.OrderID, p.Detail
	if p.Status == market.Rejected {
		r.Rule = RuleVenue
	}
	if p.Filled.IsPositive() {
		r.Fill = &ExecutedFill{Size: p.Filled.String(), AvgPrice: p.AvgPrice.String(), FeeUSD: p.FeeUSD.String()}
	}
}

// send places an order and records the outcome. Once the intent is recorded, the caller can no
// longer interrupt it.
func (a *Account) send(ctx context.Context, b market.Broker, clientID string, i *Intent) (*Outcome, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendWithin)
	defer cancel()
	placed, err := b.Place(ctx, *i.Order, i.Stamp)
	outcome := &Outcome{Placed: &placed}
	switch {
	case HasCode(err, toolyard.OutcomeUnknown):
		if outcome, err = a.await(ctx, b, clientID, i.Stamp); err != nil {
			return nil, err
		}
	case err != nil:
		outcome = &Outcome{NotPlaced: toolyard.AsError(err).Message}
	}
	return outcome, a.record(ctx, clientID, i.Stamp.At, outcome)
}

// Time limits for sending an order and determining its outcome.
const (
	sendWithin   = 25 * time.Second
	settleWithin = 5 * time.Second // once a stamp has expired, the venue can report the outcome
	findEvery    = 500 * time.Millisecond
)

// await queries the broker for an order's outcome until the order has expired.
func (a *Account) await(ctx context.Context, b market.Broker, clientID string, s market.Stamp) (*Outcome, error) {
	for {
		placed, found, err := b.Find(ctx, clientID)
		expired := a.Now().After(s.Expires.Add(settleWithin))
		switch {
		case err == nil && found:
			return &Outcome{Placed: &placed}, nil
		case err == nil && expired:
			return &Outcome{NotPlaced: "the venue did not accept the order in time"}, nil
		case expired:
			return &Outcome{Unknown: true}, nil
		}
		select {
		case <-ctx.Done():
			return &Outcome{Unknown: true}, nil
		case <-time.After(findEvery):
		}
	}
}

// record appends an intent's outcome, unless another replica has recorded one.
func (a *Account) record(ctx context.Context, clientID string, asOf time.Time, o *Outcome) error {
	ctx = context.WithoutCancel(ctx)
	for range maxAttempts {
		last, err := a.Journal.Last(ctx, a.stream())
		if err != nil {
			return err
		}
		known, err := a.outcome(ctx, clientID, time.Time{})
		if err != nil || known != nil && !known.Unknown {
			return err
		}
		_, err = a.Journal.Append(ctx, a.stream(), last, row(kindOutcome, clientID, asOf, o))
		if !HasCode(err, toolyard.VersionConflict) {
			return err
		}
	}
	return errTooBusy
}

// outcome returns an order's last recorded outcome, or nil.
func (a *Account) outcome(ctx context.Context, clientID string, until time.Time) (*Outcome, error) {
	rows, err := a.Journal.List(ctx, a.stream(), yard.JournalQuery{Kinds: []string{kindOutcome}, Key: clientID, Until: until, Newest: true, Limit: 1})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	var o Outcome
	return &o, json.Unmarshal(rows[0].Body, &o)
}

// resolve determines the outcome of intents that have none and whose stamp has expired: their
// replica was killed, or the venue did not respond. It reports whether it recorded anything.
func (a *Account) resolve(ctx context.Context, l *Ledger, b market.Broker, now time.Time) (changed bool, err error) {
	if b == nil {
		return false, nil
	}
	for _, id := range slices.Sorted(maps.Keys(l.intents)) {
		i := l.intents[id]
		expired := now.After(i.Stamp.Expires.Add(settleWithin))
		if !expired && !i.unknown {
			continue
		}
		placed, found, err := b.Find(ctx, id)
		switch {
		case err != nil && i.unknown:
			continue // still unknown; the account stays restricted
		case err != nil:
			err = a.record(ctx, id, i.Stamp.At, &Outcome{Unknown: true})
		case found:
			err = a.record(ctx, id, i.Stamp.At, &Outcome{Placed: &placed})
		case expired:
			err = a.record(ctx, id, i.Stamp.At, &Outcome{NotPlaced: "the order never reached the venue"})
		default:
			continue
		}
		if err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}

// earlier returns the result of an earlier proposal with the same client order ID, or nil. A
// repeated call gets that result, but the DUPLICATE rule rejects a different order.
func (a *Account) earlier(ctx context.Context, l *Ledger, r *Request) (*Result, error) {
	clientID := r.clientID(a.Name, l)
	rows, err := a.Journal.List(ctx, a.stream(), yard.JournalQuery{After: l.resetSeq, Kinds: []string{kindDecision}, Key: clientID, Limit: 1})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	d, err := decisionOf(rows[0])
	if err != nil || !sameProposal(&d.Proposal, &r.Proposal) {
		return nil, err
	}
	result := &Result{Kind: d.Kind, Rule: d.Rule, Detail: d.Detail, Decision: decisionID(rows[0]), Adjusted: d.Adjusted, Repeated: true}
	if d.Kind != Pending || d.Order == nil {
		return result, nil
	}
	result.ClientID, result.Order = clientID, d.Order
	o, err := a.outcome(ctx, clientID, time.Time{})
	switch {
	case err != nil:
		return nil, err
	case o == nil || o.Unknown:
		return nil, toolyard.Errorf(toolyard.OutcomeUnknown, "It is not yet known whether order %s was placed (decision %s).", clientID, result.Decision)
	}
	result.add(o)
	return result, nil
}

func sameProposal(a, b *engine.Proposal) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func decisionOf(r yard.JournalEntry) (*Decision, error) {
	var d Decision
	return &d, json.Unmarshal(r.Body, &d)
}

func decisionID(r yard.JournalEntry) string { return "d" + strconv.FormatUint(r.Seq, 10) }

// sendCancel cancels an order. Canceling twice is harmless, so a lost response is treated as a
// plain error.
func (a *Account) sendCancel(ctx context.Context, r *Request, result *Result, clientID string, i *Intent) (*Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendWithin)
	defer cancel()
	outcome := &Outcome{Placed: &market.Placed{ClientID: i.Cancel.ClientID, OrderID: i.Cancel.OrderID, Status: market.Canceled, At: r.AsOf}}
	err := r.Broker.Cancel(ctx, *i.Cancel, i.Stamp)
	if err != nil {
		outcome = &Outcome{NotPlaced: toolyard.AsError(err).Message}
	}
	if err := a.record(ctx, clientID, r.AsOf, outcome); err != nil {
		return nil, err
	}
	if HasCode(err, toolyard.OutcomeUnknown) {
		return nil, fmt.Errorf("cancellation of %s: %w", r.Proposal.OrderID, err)
	}
	result.add(outcome)
	return result, nil
}
