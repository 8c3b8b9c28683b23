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
	PnlUSD    *decimal.Decimal `json:"pnlUsd,omitempty" doc:"Realized profit of the order, including its stop loss and take profit, after fees."`
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
		Limit   int          `json:"limit" minimum:"1" maximum:"50" default:"10" doc:"Maximum number of decisions to return."`
		Symbol  string       `json:"symbol,omitempty" maxLength:"32" doc:"Return only decisions about this symbol, such as BTC."`
		Outcome account.Kind `json:"outcome,omitempty" enum:"noop,rejected,executed,resting,pending,canceled,unknown" doc:"Return only decisions with this outcome."`
	}
	return define("get_recent_decisions", "Lists the account's recent trading decisions, newest first, with the reasoning and the outcome of each.",
		"Use to explain what the agent did recently, and why. Holding is also a decision.",
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
		ID string `json:"id" minLength:"1" maxLength:"32" doc:"ID of the decision, such as d17. get_recent_decisions lists the IDs."`
	}
	type snapshot struct {
		Summary
		Proposal  engine.Proposal       `json:"proposal"`
		Rules     []engine.Verdict      `json:"rules"`
		Order     *market.Order         `json:"order,omitempty"`
		Estimate  *engine.Estimate      `json:"estimate,omitempty"`
		Outcome   *account.Outcome      `json:"outcome,omitempty"`
		Fills     []market.Fill         `json:"fills"`
		EquityUSD decimal.Decimal       `json:"equityUsd" doc:"The account's equity at the time of the decision."`
		Caller    string                `json:"caller"`
		Gate      string                `json:"gate"`
		Seen      []account.Observation `json:"seen" doc:"The data that the caller received before the decision, oldest first."`
	}
	return define("get_decision_snapshot", "Shows a trading decision in full: the proposal and its reasoning, the data that the agent had received, the verdict of every rule, and the resulting orders and fills.",
		"Use to explain a single decision in detail.",
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
		Limit int    `json:"limit" minimum:"1" maximum:"50" default:"20" doc:"Maximum number of rejections to return."`
		Rule  string `json:"rule,omitempty" enum:"SHAPE,STATE,SCOPE,PRECISION,NOTIONAL,COLLAR,POSITION,EXPOSURE,LEVERAGE,DAILY_LOSS,DRAWDOWN,PACE,DUPLICATE,REDUCE,STOP,SUBMIT,CONFIRM,VENUE" doc:"Return only rejections by this rule."`
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
		Counts     map[engine.Rule]int `json:"counts" doc:"Number of rejections by each rule, among the newest 500."`
	}
	return define("get_engine_rejections", "Lists proposals that the rules rejected, newest first, and the number of rejections by each rule.",
		"Use to find out which limits an agent reaches repeatedly, before you change a strategy or the limits.",
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
