package account

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/engine"
	"github.com/toolyard/toolyard/packs/trading/market"
	"github.com/toolyard/toolyard/yard"
)

// Record is a recorded decision.
type Record struct {
	Decision
	ID       string
	At       time.Time
	ClientID string
	Outcome  *Outcome // nil if no order was placed or its outcome is not known yet
}

// Final returns the kind, rule and detail, taking the order's outcome into account.
func (r *Record) Final() (Kind, engine.Rule, string) {
	result := Result{Kind: r.Kind, Rule: r.Rule, Detail: r.Detail}
	if r.Outcome != nil {
		result.add(r.Outcome)
	}
	return result.Kind, result.Rule, result.Detail
}

// RecordQuery selects decisions.
type RecordQuery struct {
	AsOf   time.Time
	Symbol string      // empty for all
	Kind   Kind        // empty for all
	Rule   engine.Rule // empty for all
	Caller string      // empty for all
	Limit  int
}

// maxScanned limits how many rows one query reads.
const maxScanned = 5000

// Decisions returns the decisions up to the query's as-of time, newest first.
func (a *Account) Decisions(ctx context.Context, q RecordQuery) ([]Record, error) {
	l, err := a.Ledger(ctx, q.AsOf)
	if err != nil {
		return nil, err
	}
	var list []Record
	before, page := l.seq+1, min(q.Limit+1, pageSize)
	for scanned := 0; scanned < maxScanned; page = min(4*page, pageSize) {
		rows, err := a.Journal.List(ctx, a.stream(), yard.JournalQuery{
			After: l.resetSeq, Before: before, Kinds: []string{kindDecision}, Until: q.AsOf, Newest: true, Limit: page,
		})
		if err != nil || len(rows) == 0 {
			return list, err
		}
		for _, row := range rows {
			r, err := a.readRecord(ctx, row, q.AsOf)
			if err != nil {
				return nil, err
			}
			if r.matches(&q) {
				list = append(list, r)
			}
			if len(list) == q.Limit {
				return list, nil
			}
		}
		before = rows[len(rows)-1].Seq
		scanned += len(rows)
	}
	return list, nil
}

// EachDecision calls visit for all decisions up to the as-of time, oldest first.
func (a *Account) EachDecision(ctx context.Context, asOf time.Time, visit func(*Record)) error {
	l, err := a.Ledger(ctx, asOf)
	if err != nil {
		return err
	}
	for after := l.resetSeq; ; {
		rows, err := a.Journal.List(ctx, a.stream(), yard.JournalQuery{After: after, Kinds: []string{kindDecision}, Until: asOf, Limit: pageSize})
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, row := range rows {
			r, err := a.readRecord(ctx, row, asOf)
			if err != nil {
				return err
			}
			visit(&r)
			after = row.Seq
		}
	}
}

func (a *Account) readRecord(ctx context.Context, row yard.JournalEntry, asOf time.Time) (Record, error) {
	d, err := decisionOf(row)
	if err != nil {
		return Record{}, err
	}
	r := Record{Decision: *d, ID: decisionID(row), At: row.AsOf, ClientID: row.Key}
	if d.Kind == Pending {
		r.Outcome, err = a.outcome(ctx, row.Key, asOf)
	}
	return r, err
}

func (r *Record) matches(q *RecordQuery) bool {
	kind, rule, _ := r.Final()
	return (q.Symbol == "" || q.Symbol == r.Proposal.Symbol) && (q.Kind == "" || q.Kind == kind) &&
		(q.Rule == "" || q.Rule == rule) && (q.Caller == "" || q.Caller == r.Caller)
}

// Find returns a decision by its ID.
func (a *Account) Find(ctx context.Context, id string, asOf time.Time) (*Record, error) {
	seq, err := strconv.ParseUint(strings.TrimPrefix(id, "d"), 10, 64)
	if err == nil && seq > 0 {
		rows, err := a.Journal.List(ctx, a.stream(), yard.JournalQuery{After: seq - 1, Before: seq + 1, Kinds: []string{kindDecision}, Until: asOf, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(rows) == 1 {
			r, err := a.readRecord(ctx, rows[0], asOf)
			return &r, err
		}
	}
	return nil, toolyard.Errorf(toolyard.NotFound, "Decision %q not found. Use get_recent_decisions to list decisions.", id)
}

// FillsOf returns the fills of an order, its stop and its target.
func FillsOf(fills []market.Fill, clientID string) []market.Fill {
	ids := []string{clientID, market.ChildID(clientID, market.StopOrder), market.ChildID(clientID, market.TakeProfit)}
	var own []market.Fill
	for _, f := range fills {
		if slices.Contains(ids, f.ClientID) {
			own = append(own, f)
		}
	}
	return own
}

// CommandRecord is a recorded command, or a halt that a rule caused.
type CommandRecord struct {
	At time.Time `json:"at"`
	Command
}

// History returns the commands up to the as-of time, newest first.
func (a *Account) History(ctx context.Context, asOf time.Time, limit int) ([]CommandRecord, error) {
	l, err := a.Ledger(ctx, asOf)
	if err != nil {
		return nil, err
	}
	rows, err := a.Journal.List(ctx, a.stream(), yard.JournalQuery{
		After: l.resetSeq, Kinds: []string{kindCommand, kindHalt}, Until: asOf, Newest: true, Limit: limit,
	})
	list := make([]CommandRecord, 0, len(rows))
	for _, row := range rows {
		r := CommandRecord{At: row.AsOf}
		apply := func(_ yard.JournalEntry, c *Command) { r.Command = *c }
		if row.Kind == kindHalt {
			err = decode(row, func(_ yard.JournalEntry, h *engine.Halt) {
				r.Command = Command{Name: "halt", By: "rule " + string(h.Rule), Reason: h.Reason, Effect: string(h.Trading)}
			})
		} else {
			err = decode(row, apply)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, err
}
