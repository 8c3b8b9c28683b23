package account

import (
	"encoding/json"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard/packs/trading/engine"
	"github.com/toolyard/toolyard/packs/trading/market"
	"github.com/toolyard/toolyard/yard"
)

// Kinds of rows in an account's journal.
const (
	kindDecision = "decision"
	kindIntent   = "intent"
	kindOutcome  = "outcome"
	kindHalt     = "halt"
	kindCommand  = "command"
	kindReset    = "reset"
)

// Kind is the outcome of a decision.
type Kind string

// Kinds of outcomes.
const (
	Noop     Kind = "noop"
	Rejected Kind = "rejected"
	Executed Kind = "executed"
	Resting  Kind = "resting"
	Pending  Kind = "pending"
	Canceled Kind = "canceled"
	Unknown  Kind = "unknown" // whether the order was placed is not known
)

// The account's own rules, in addition to the engine's.
const (
	RuleSubmit  engine.Rule = "SUBMIT"  // the account does not place orders
	RuleConfirm engine.Rule = "CONFIRM" // a person did not agree to the order
	RuleVenue   engine.Rule = "VENUE"   // the broker rejected the order
)

// Decision is a proposal and its verdicts.
type Decision struct {
	Proposal  engine.Proposal  `json:"proposal"`
	Reasoning string           `json:"reasoning"`
	Kind      Kind             `json:"kind"` // Pending for an accepted order, regardless of its outcome
	Rule      engine.Rule      `json:"rule,omitempty"`
	Detail    string           `json:"detail,omitempty"`
	Verdicts  []engine.Verdict `json:"rules"`
	Adjusted  []string         `json:"adjusted,omitempty"`
	Order     *market.Order    `json:"order,omitempty"`
	Estimate  *engine.Estimate `json:"estimate,omitempty"`
	EquityUSD decimal.Decimal  `json:"equityUsd"`
	Watermark market.Watermark `json:"watermark"`
	Caller    string           `json:"caller"`
	Gate      string           `json:"gate"`
	Observed  *ObservedRange   `json:"seen,omitempty"`
}

// ObservedRange locates a caller's observations before a decision.
type ObservedRange struct {
	Stream  string `json:"stream"`
	Session string `json:"session,omitempty"`
	Last    uint64 `json:"last"` // sequence number of the last observation
}

// Intent is an action that is about to be sent to the broker.
type Intent struct {
	Order  *market.Order `json:"order,omitempty"`
	Cancel *market.Ref   `json:"cancel,omitempty"`
	Stamp  market.Stamp  `json:"stamp"`
}

// Outcome is the outcome of an intent.
type Outcome struct {
	Placed    *market.Placed `json:"placed,omitempty"`
	NotPlaced string         `json:"notPlaced,omitempty"` // reason; empty if the order was placed
	Unknown   bool           `json:"unknown,omitempty"`
}

// kind returns the decision's kind, given the outcome.
func (o *Outcome) kind() Kind {
	switch {
	case o.Unknown:
		return Unknown
	case o.Placed == nil:
		return Rejected
	}
	switch p := o.Placed; {
	case p.Status == market.Filled, p.Filled.IsPositive() && !p.Status.Open():
		return Executed
	case p.Status == market.Resting:
		return Resting
	case p.Status == market.Pending:
		return Pending
	case p.Status == market.Canceled:
		return Canceled
	}
	return Rejected
}

// Command is an operator's action.
type Command struct {
	Name   string `json:"command"`
	By     string `json:"by"`
	Reason string `json:"reason"`
	Effect string `json:"effect"`
}

// row encodes a journal row. The values can always be encoded.
func row(kind, key string, asOf time.Time, body any) yard.JournalEntry {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return yard.JournalEntry{Kind: kind, Key: key, AsOf: asOf, Body: raw}
}
