package introspection

import (
	"context"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/account"
	"github.com/toolyard/toolyard/packs/trading/engine"
	"github.com/toolyard/toolyard/packs/trading/market"
)

// Summary is a decision in a list.
type Summary struct {
	ID        string           `json:"id"`
	At        time.Time        `json:"at"`
	Symbol    string           `json:"symbol"`
	Action    engine.Action    `json:"action"`
	Side      market.Side      `json:"side,omitempty"`
	Size      string           `json:"size,omitempty"`
	Reasoning string           `json:"reasoning"`
	Kind      account.Kind     `json:"kind"`
	Rule      engine.Rule      `json:"rule,omitempty"`
	Detail    string           `json:"detail,omitempty"`
	PnlUSD    *decimal.Decimal `json:"pnlUsd,omitempty" doc:"Realized profit of the order, its stop and its target, after fees."`
}

// Summarize returns decisions with the profit that they realized up to the given time.
func Summarize(ctx context.Context, a *account.Access, records []account.Record, asOf time.Time) ([]Summary, error) {
	list := make([]Summary, 0, len(records))
	if len(records) == 0 {
		return list, nil
	}
	fills, err := a.Fills(ctx, records[len(records)-1].At.Add(-1), asOf)
	if err != nil {
		return nil, err
	}
	for i := range records {
		list = append(list, summarize(&records[i], fills))
	}
	return list, nil
}

func summarize(r *account.Record, fills []market.Fill) Summary {
	kind, rule, detail := r.Final()
	s := Summary{
		ID: r.ID, At: r.At, Symbol: r.Proposal.Symbol, Action: r.Proposal.Action, Side: r.Proposal.Side, Reasoning: r.Reasoning,
		Kind: kind, Rule: rule, Detail: detail,
	}
	if r.Order == nil {
		return s
	}
	s.Side, s.Size = r.Order.Side, r.Order.Size.String()
	if own := account.FillsOf(fills, r.ClientID); len(own) > 0 {
		if s.Kind == account.Pending || s.Kind == account.Resting {
			s.Kind = account.Executed // the order was filled after it was placed
		}
		net := decimal.Zero
		for _, f := range own {
			net = net.Add(f.RealizedUSD).Sub(f.FeeUSD)
		}
		s.PnlUSD = &net
	}
	return s
}

func getRecentDecisions() *toolyard.Tool {
	type args struct {
		Limit   int          `json:"limit" minimum:"1" maximum:"50" default:"10" doc:"Maximum number of decisions."`
		Symbol  string       `json:"symbol,omitempty" maxLength:"32" doc:"Only decisions about this symbol."`
		Outcome account.Kind `json:"outcome,omitempty" enum:"noop,rejected,executed,resting,pending,canceled,unknown" doc:"Only decisions with this outcome."`
	}
	return define("get_recent_decisions", "List the account's recent trading decisions, newest first: what was decided, why, and what became of it.",
		"Use to answer what the agent did lately and why. Holding is also a decision.",
		func(ctx context.Context, c *toolyard.Call, a *account.Access, in args) ([]Summary, error) {
			asOf, err := a.Time(ctx, c)
			if err != nil {
				return nil, err
			}
			records, err := a.Decisions(ctx, account.RecordQuery{AsOf: asOf, Symbol: in.Symbol, Kind: in.Outcome, Limit: in.Limit})
			if err != nil {
				return nil, err
			}
			return Summarize(ctx, a, records, asOf)
		})
}

func getDecisionSnapshot() *toolyard.Tool {
	type args struct {
		ID string `json:"id" minLength:"1" maxLength:"32" doc:"ID of a decision, such as d17."`
	}
	type snapshot struct {
		Summary
		Proposal  engine.Proposal       `json:"proposal"`
		Rules     []engine.Verdict      `json:"rules"`
		Order     *market.Order         `json:"order,omitempty"`
		Estimate  *engine.Estimate      `json:"estimate,omitempty"`
		Outcome   *account.Outcome      `json:"outcome,omitempty"`
		Fills     []market.Fill         `json:"fills"`
		EquityUSD decimal.Decimal       `json:"equityUsd" doc:"Equity of the account at the decision."`
		Caller    string                `json:"caller"`
		Gate      string                `json:"gate"`
		Seen      []account.Observation `json:"seen" doc:"What the caller saw before the decision, oldest first."`
	}
	return define("get_decision_snapshot", "Show one trading decision completely: the proposal and its reasoning, everything the agent saw before it, the verdict of every rule, and the orders and fills that followed.",
		"Use to explain a single decision in depth. Get the id from get_recent_decisions.",
		func(ctx context.Context, c *toolyard.Call, a *account.Access, in args) (*snapshot, error) {
			asOf, err := a.Time(ctx, c)
			if err != nil {
				return nil, err
			}
			r, err := a.Find(ctx, in.ID, asOf)
			if err != nil {
				return nil, err
			}
			seen, err := a.Observations(ctx, &r.Decision, r.At)
			if err != nil {
				return nil, err
			}
			fills, err := a.Fills(ctx, r.At.Add(-1), asOf)
			if err != nil {
				return nil, err
			}
			return &snapshot{
				Summary: summarize(r, fills), Proposal: r.Proposal, Rules: r.Verdicts, Order: r.Order, Estimate: r.Estimate, Outcome: r.Outcome,
				Fills: account.FillsOf(fills, r.ClientID), EquityUSD: r.EquityUSD, Caller: r.Caller, Gate: r.Gate, Seen: seen,
			}, nil
		})
}

func getEngineRejections() *toolyard.Tool {
	type args struct {
		Limit int    `json:"limit" minimum:"1" maximum:"50" default:"20" doc:"Maximum number of rejections."`
		Rule  string `json:"rule,omitempty" enum:"SHAPE,STATE,SCOPE,PRECISION,NOTIONAL,COLLAR,POSITION,EXPOSURE,LEVERAGE,DAILY_LOSS,DRAWDOWN,PACE,DUPLICATE,REDUCE,STOP,SUBMIT,CONFIRM,VENUE" doc:"Only rejections by this rule."`
	}
	type rejection struct {
		At       time.Time       `json:"at"`
		Rule     engine.Rule     `json:"rule"`
		Detail   string          `json:"detail"`
		Decision string          `json:"decision"`
		Order    engine.Proposal `json:"order"`
	}
	type rejections struct {
		Rejections []rejection         `json:"rejections"`
		Counts     map[engine.Rule]int `json:"counts" doc:"Number of the newest 500 rejections by rule."`
	}
	return define("get_engine_rejections", "List proposals that the rules rejected, newest first, with counts by rule.",
		"Use to find out which limit an agent keeps running into, before changing a strategy or a mandate.",
		func(ctx context.Context, c *toolyard.Call, a *account.Access, in args) (*rejections, error) {
			asOf, err := a.Time(ctx, c)
			if err != nil {
				return nil, err
			}
			records, err := a.Decisions(ctx, account.RecordQuery{AsOf: asOf, Kind: account.Rejected, Limit: 500})
			if err != nil {
				return nil, err
			}
			out := &rejections{Rejections: []rejection{}, Counts: map[engine.Rule]int{}}
			for i := range records {
				r := &records[i]
				_, rule, detail := r.Final()
				out.Counts[rule]++
				if len(out.Rejections) < in.Limit && (in.Rule == "" || in.Rule == string(rule)) {
					out.Rejections = append(out.Rejections, rejection{r.At, rule, detail, r.ID, r.Proposal})
				}
			}
			return out, nil
		})
}
