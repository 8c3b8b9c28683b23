package store

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// diff holds the values of a table's changed rows. They are sorted by key, so that transactions
// that insert the same rows do not deadlock.
type diff struct{ created, changed, deleted [][]any }

func diffOf[K comparable, R interface{ Pending() ledger.Change }](all map[K]R, order func(K, K) int, values func(K, R) []any) (d diff) {
	for _, key := range slices.SortedFunc(maps.Keys(all), order) {
		switch row := all[key]; row.Pending() {
		case ledger.Created:
			d.created = append(d.created, values(key, row))
		case ledger.Changed:
			d.changed = append(d.changed, values(key, row))
		case ledger.Deleted:
			d.deleted = append(d.deleted, values(key, row))
		case ledger.Unchanged:
		}
	}
	return d
}

// writes are a transaction's pending writes.
type writes struct {
	limits, balances, holds, runs diff
	approvals                     diff // only changed rows
	transfers, calls              [][]any
	record                        []*CallRow // the calls to record
	intents, recordedIntents      [][]any
}

func writesOf(r *ledger.Rows) *writes {
	w := &writes{
		limits:   diffOf(r.Limits, strings.Compare, limitValues),
		balances: diffOf(r.Balances, strings.Compare, balanceValues),
		holds:    diffOf(r.Holds, strings.Compare, holdValues),
		runs:     diffOf(r.Runs, ledger.RunKey.Compare, runValues),

		approvals: diffOf(r.Approvals, strings.Compare, approvalUseValues),
	}
	for _, t := range mergeCharges(r.Transfers) {
		w.transfers = append(w.transfers, transferValues(&t))
	}
	w.record = uniqueCalls(r.Calls)
	for _, c := range w.record {
		w.calls = append(w.calls, callValues(c))
		if c.Intended {
			w.recordedIntents = append(w.recordedIntents, []any{clean(c.ID)})
		}
	}
	for _, i := range r.Intents {
		w.intents = append(w.intents, intentValues(i))
	}
	return w
}

// uniqueCalls sorts calls by key and removes duplicates, preferring a row with a price.
func uniqueCalls(calls []*CallRow) []*CallRow {
	same := func(a, b *CallRow) int {
		return cmp.Or(cmp.Compare(a.At.UnixMicro(), b.At.UnixMicro()), strings.Compare(a.ID, b.ID))
	}
	sorted := slices.SortedStableFunc(slices.Values(calls), func(a, b *CallRow) int {
		return cmp.Or(same(a, b), cmp.Compare(min(b.Price, 1), min(a.Price, 1)))
	})
	return slices.CompactFunc(sorted, func(a, b *CallRow) bool { return same(a, b) == 0 })
}

// mergeCharges merges all charges with the same source and target into one transfer.
func mergeCharges(transfers []ledger.Transfer) (list []ledger.Transfer) {
	type route struct{ from, to string }
	at := make(map[route]int)
	for _, t := range transfers {
		if t.Kind != "charge" {
			list = append(list, t)
			continue
		}
		if i, ok := at[route{t.From, t.To}]; ok {
			list[i].Amount += t.Amount
			continue
		}
		at[route{t.From, t.To}] = len(list)
		t.ID = "charge/" + t.ID
		list = append(list, t)
	}
	return list
}

// action is a kind of write.
type action int

const (
	insert action = iota
	insertIfAbsent
	insertCall // see keepCharged
	update
	remove
)

type writing struct {
	table  *table
	action action
}

// writeStatements returns the statements for all writes.
func writeStatements(text func(*table, action) string) map[writing]string {
	texts := make(map[writing]string)
	for _, step := range (&writes{}).steps() {
		texts[step.writing] = text(step.table, step.action)
	}
	return texts
}

// writeStep writes rows to one table.
type writeStep struct {
	writing
	rows [][]any
}

// steps returns the writes in an order that satisfies foreign keys.
func (w *writes) steps() []writeStep {
	return []writeStep{
		{writing{&limitTable, remove}, w.limits.deleted},
		{writing{&holdTable, remove}, w.holds.deleted},
		{writing{&balanceTable, remove}, w.balances.deleted},
		{writing{&runTable, remove}, w.runs.deleted},
		{writing{&limitTable, update}, w.limits.changed},
		{writing{&limitTable, insert}, w.limits.created},
		{writing{&balanceTable, update}, w.balances.changed},
		{writing{&balanceTable, insert}, w.balances.created},
		{writing{&holdTable, update}, w.holds.changed},
		{writing{&holdTable, insert}, w.holds.created},
		{writing{&runTable, update}, w.runs.changed},
		{writing{&runTable, insert}, w.runs.created},
		{writing{&approvalTable, update}, w.approvals.changed},
		{writing{&transferTable, insert}, w.transfers},
		{writing{&callTable, insertCall}, w.calls},
		{writing{&intentTable, insertIfAbsent}, w.intents},
		{writing{&intentTable, remove}, w.recordedIntents},
	}
}

// each calls do for every step that has rows.
func (w *writes) each(do func(*table, action, [][]any) error) error {
	for _, step := range w.steps() {
		if len(step.rows) == 0 {
			continue
		}
		if err := do(step.table, step.action, step.rows); err != nil {
			return err
		}
	}
	return nil
}

func (w *writes) empty() bool {
	return w.each(func(*table, action, [][]any) error { return errNotEmpty }) == nil
}

var errNotEmpty = errors.New("not empty")

// onConflict returns the clause that updates an existing row.
func (t *table) onConflict(set string) string {
	return ` ON CONFLICT (` + write("{}", ", ", t.columns[:t.keys], 1) + `) DO UPDATE SET ` + set
}

// keepCharged returns the clause for a call that is already recorded. The row is replaced only if
// the new row has a price and the old one does not. more can set additional columns in that case.
func keepCharged(t *table, more string) string {
	return t.onConflict(t.rest(`{} = excluded.{}`)+more) + ` WHERE ` + t.name + `.price = 0 AND excluded.price > 0`
}
