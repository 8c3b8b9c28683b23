// Package engine decides whether a proposed order may be placed.
//
// The engine is a list of rules in a fixed order. Every rule is a pure function of the mandate, the
// state of the account, the market, the proposal and the time. The engine has no side effects and
// reads no clock, so the same input always leads to the same verdict: [Evaluate] decides, and
// [EvaluateAll] explains.
package engine

import (
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard/packs/trading/market"
)

// Rule is the name of a rule.
type Rule string

// The rules, in the order of evaluation.
const (
	Shape     Rule = "SHAPE"
	State     Rule = "STATE"
	Scope     Rule = "SCOPE"
	Precision Rule = "PRECISION"
	Notional  Rule = "NOTIONAL"
	Collar    Rule = "COLLAR"
	Position  Rule = "POSITION"
	Exposure  Rule = "EXPOSURE"
	Leverage  Rule = "LEVERAGE"
	DailyLoss Rule = "DAILY_LOSS"
	Drawdown  Rule = "DRAWDOWN"
	Pace      Rule = "PACE"
	Duplicate Rule = "DUPLICATE"
	Reduce    Rule = "REDUCE"
	Stop      Rule = "STOP"
)

// rules lists the rules in order. A rule returns the reason for a refusal, or "".
var rules = []struct {
	name  Rule
	check func(*Input, *Plan) string
	// risk marks limits on risk. They do not apply to orders that only reduce a position, because a
	// limit must never trap an account in a position.
	risk bool
	// early marks rules that do not need a plan.
	early bool
}{
	{name: Shape, check: checkShape, early: true},
	{name: State, check: checkState, early: true},
	{name: Scope, check: checkScope, early: true},
	{name: Precision, check: checkPrecision},
	{name: Notional, check: checkNotional},
	{name: Collar, check: checkCollar},
	{name: Position, check: checkPosition, risk: true},
	{name: Exposure, check: checkExposure, risk: true},
	{name: Leverage, check: checkLeverage, risk: true},
	{name: DailyLoss, check: checkDailyLoss, risk: true},
	{name: Drawdown, check: checkDrawdown, risk: true},
	{name: Pace, check: checkPace, risk: true},
	{name: Duplicate, check: checkDuplicate},
	{name: Reduce, check: checkReduce},
	{name: Stop, check: checkStop},
}

// Rules returns the names of all rules in order.
func Rules() []Rule {
	names := make([]Rule, len(rules))
	for i, r := range rules {
		names[i] = r.name
	}
	return names
}

// Input is everything that a decision depends on.
type Input struct {
	Mandate  *Mandate
	Account  market.Snapshot
	History  History
	Market   market.Market
	Listed   bool // whether the venue lists the market; if not, Market and Quote are empty
	Quote    Quote
	Fees     market.Fees
	Proposal Proposal
	ClientID string
	Now      time.Time
}

// Quote is the price of a market.
type Quote struct {
	Mid, Mark decimal.Decimal
	At        time.Time
	MaxAge    time.Duration // older quotes cannot be traded on
}

// Trading describes to what extent an account may trade.
type Trading string

// The states of an account. A Reducing account may only reduce positions and cancel orders; a
// Halted account can do nothing. Operators can always flatten it.
const (
	Active   Trading = "active"
	Reducing Trading = "reducing"
	Halted   Trading = "halted"
)

// History is the part of an account's history that rules depend on.
type History struct {
	Trading      Trading
	Reason       string          // reason for a state other than Active
	DayStartUSD  decimal.Decimal // equity at 00:00 UTC; zero if unknown
	HighUSD      decimal.Decimal // highest equity so far; zero if unknown
	Proposals    []time.Time     // proposals in the last minute
	Orders       []RecentOrder   // orders accepted within Mandate.DuplicateWithin
	LastClosed   time.Time       // time when a position in the symbol was last closed
	StopsToday   int             // stop losses filled since 00:00 UTC
	ClientIDUsed bool            // whether an order with this client order ID exists
	ExplicitKey  bool            // whether the caller chose a key that has not been used before
}

// RecentOrder is a recent order, which a caller might repeat by mistake.
type RecentOrder struct {
	At     time.Time
	Symbol string
	Side   market.Side
	Size   decimal.Decimal
}

// Verdict states whether one rule accepts a proposal, and why.
type Verdict struct {
	Rule    Rule   `json:"rule"`
	OK      bool   `json:"ok"`
	Detail  string `json:"detail,omitempty" doc:"Why the rule refuses the order, or why it was not evaluated."`
	Skipped bool   `json:"skipped,omitempty" doc:"Whether the rule was not evaluated because an earlier rule found the proposal incomplete."`
}

// Halt is a change of state caused by a refusal.
type Halt struct {
	Trading Trading   `json:"trading"`
	Rule    Rule      `json:"rule"`
	Reason  string    `json:"reason"`
	Until   time.Time `json:"until,omitzero"` // zero if it lasts until an operator clears it
}

// Decision is the outcome of an evaluation.
type Decision struct {
	Plan
	Verdicts []Verdict
	Halt     *Halt // may be nil
}

// Refusal returns the first verdict that refuses the proposal.
func (d *Decision) Refusal() (Verdict, bool) {
	for _, v := range d.Verdicts {
		if !v.OK {
			return v, true
		}
	}
	return Verdict{}, false
}

// Evaluate applies the rules in order, up to the first refusal.
func Evaluate(in Input) Decision { return evaluate(&in, false) }

// EvaluateAll applies all rules. Its first refusal is the same as that of [Evaluate].
func EvaluateAll(in Input) Decision { return evaluate(&in, true) }

func evaluate(in *Input, all bool) Decision {
	var d Decision
	planned := false
	for _, r := range rules {
		if !r.early && !planned {
			if _, refused := d.Refusal(); refused && !canPlan(in, d.Verdicts) {
				d.Verdicts = append(d.Verdicts, Verdict{Rule: r.name, Skipped: true, Detail: "not evaluated"})
				continue
			}
			d.Plan, planned = newPlan(in), true
		}
		v := Verdict{Rule: r.name, OK: true}
		switch {
		case r.risk && !in.Proposal.addsRisk():
			v.Detail = "does not apply to orders that reduce a position"
		default:
			v.Detail = r.check(in, &d.Plan)
			v.OK = v.Detail == ""
		}
		d.Verdicts = append(d.Verdicts, v)
		if !v.OK {
			if d.Halt == nil {
				d.Halt = haltAfter(r.name, v.Detail, in.Now)
			}
			if !all {
				return d
			}
		}
	}
	return d
}

// canPlan reports whether an order can be derived from a refused proposal: its shape is valid and
// its market exists.
func canPlan(in *Input, verdicts []Verdict) bool { return verdicts[0].OK && in.Listed }

// haltAfter returns the change of state that a refusal by a rule causes.
func haltAfter(r Rule, reason string, now time.Time) *Halt {
	switch r {
	case DailyLoss:
		midnight := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
		return &Halt{Trading: Reducing, Rule: r, Reason: reason, Until: midnight}
	case Drawdown:
		return &Halt{Trading: Halted, Rule: r, Reason: reason}
	}
	return nil
}
