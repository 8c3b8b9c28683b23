package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/backoff"
)

// ErrAway means that the database cannot be reached, or cannot write now. What was asked of
// it may or may not have been done; a batch may be sent again.
var ErrAway = errors.New("the store cannot be reached")

// How often something is tried that the database asks to try again, and the longest pause
// before it is.
const (
	maxTries = 10
	maxPause = 50 * time.Millisecond
)

// retry does something until it need not be done again, for a bounded number of times.
func retry(ctx context.Context, do func() (again bool, err error)) error {
	pause := time.Millisecond
	for try := 1; ; try++ {
		again, err := do()
		if !again || try == maxTries {
			return err
		}
		if !backoff.Sleep(ctx, pause/2) {
			return err
		}
		pause = min(2*pause, maxPause)
	}
}

// kind is the type of a column.
type kind int

const (
	text kind = iota
	number
	moment // a time.Time, in microseconds
	blob
	optionalText // nil for none, as the next one
	optionalMoment
)

// column is a column of a table.
type column struct {
	name string
	kind kind
}

// table is a table as both databases have it.
type table struct {
	name    string
	keys    int // the first so many columns name a row
	columns []column
}

var (
	paceTable = table{"paces", 1, []column{{"key", text}, {"state", optionalText}}}

	purseTable = table{"purses", 1, []column{
		{"id", text},
		{"account", text},
		{"state", text},
		{"cap", number},
		{"balance", number},
		{"held", number},
		{"spent", number},
		{"calls", number},
		{"held_calls", number},
		{"max_calls", number},
		{"expires", optionalMoment},
	}}

	holdTable = table{"holds", 1, []column{
		{"id", text},
		{"purse", text},
		{"replica", text},
		{"serial", number},
		{"unspent", number},
		{"spent", number},
		{"calls_unspent", number},
		{"calls_spent", number},
		{"expires", moment},
	}}

	runTable = table{"runs", 2, []column{
		{"scope", text}, {"key", text}, {"digest", blob}, {"call", text}, {"state", text}, {"until", moment}, {"outcome", blob},
	}}

	transferTable = table{"transfers", 1, []column{
		{"id", text}, {"source", text}, {"target", text}, {"amount", number}, {"kind", text}, {"purse", text}, {"at", moment},
	}}

	callTable = table{"calls", 2, []column{
		{"id", text},
		{"at", moment},
		{"elapsed_ns", number},
		{"gate", text},
		{"mode", text},
		{"caller", text},
		{"account", text},
		{"session", text},
		{"server", text},
		{"tool", text},
		{"generation", number},
		{"code", text},
		{"price", number},
		{"args_bytes", number},
		{"result_bytes", number},
		{"args", optionalText},
		{"parent", optionalText},
		{"message", optionalText},
		{"marks", optionalText},
	}}

	sumTable = table{"sums", 5, []column{
		{"account", text},
		{"hour", moment},
		{"server", text},
		{"tool", text},
		{"shard", number},
		{"calls", number},
		{"errors", number},
		{"charged", number},
		{"usd", number},
	}}

	totalTable = table{"totals", 5, []column{
		{"grain", text},
		{"account", text},
		{"at", moment},
		{"server", text},
		{"tool", text},
		{"calls", number},
		{"errors", number},
		{"charged", number},
		{"usd", number},
	}}

	minuteTable = table{"minutes", 2, []column{{"minute", moment}, {"shard", number}, {"calls", number}, {"errors", number}, {"usd", number}}}
)

// list is the names of the columns.
func (t *table) list() string { return t.each("{}") }

// each writes a pattern for every column: {} is its name and # its place, beginning with 1.
func (t *table) each(pattern string) string { return write(pattern, ", ", t.columns, 1) }

// key writes a pattern for the columns that name a row.
func (t *table) key(pattern string) string { return write(pattern, " AND ", t.columns[:t.keys], 1) }

// rest writes a pattern for the columns that do not.
func (t *table) rest(pattern string) string {
	return write(pattern, ", ", t.columns[t.keys:], t.keys+1)
}

func write(pattern, separator string, columns []column, first int) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		parts[i] = strings.NewReplacer("{}", c.name, "#", strconv.Itoa(first+i)).Replace(pattern)
	}
	return strings.Join(parts, separator)
}

// scanner is a row of either database.
type scanner interface{ Scan(...any) error }

// cursor is a result of either database.
type cursor interface {
	scanner
	Next() bool
	Err() error
}

// collectRows puts the rows of a result into a map.
func collectRows[K comparable, R any](from cursor, into map[K]R, scan func(scanner) (K, R, error)) error {
	for from.Next() {
		key, row, err := scan(from)
		if err != nil {
			return err
		}
		into[key] = row
	}
	return from.Err()
}

func scanName(s scanner) (name string, there bool, err error) {
	return name, true, s.Scan(&name)
}

func scanPace(s scanner) (key string, p *paceRow, err error) {
	p = &paceRow{}
	return key, p, s.Scan(&key, (*[]byte)(&p.state))
}

func paceValues(key string, p *paceRow) []any { return []any{key, optional(p.state)} }

func scanPurse(s scanner) (string, *purseRow, error) {
	p, expires := &purseRow{}, (*time.Time)(nil)
	err := s.Scan(&p.id, &p.account, &p.state, &p.limit, &p.balance, &p.held, &p.spent, &p.calls, &p.heldCalls, &p.maxCalls, &expires)
	if expires != nil {
		p.expires = expires.UTC()
	}
	return p.id, p, err
}

func purseValues(id string, p *purseRow) []any {
	var expires any
	if !p.expires.IsZero() {
		expires = p.expires
	}
	return []any{
		id, p.account, string(p.state), int64(p.limit), int64(p.balance), int64(p.held), int64(p.spent),
		int64(p.calls), int64(p.heldCalls), int64(p.maxCalls), expires,
	}
}

func scanHold(s scanner) (string, *holdRow, error) {
	h := &holdRow{}
	err := s.Scan(&h.id, &h.purse, &h.replica, &h.serial, &h.left, &h.spent, &h.callsLeft, &h.callsSpent, &h.expires)
	h.expires = h.expires.UTC()
	return h.id, h, err
}

func holdValues(id string, h *holdRow) []any {
	return []any{id, h.purse, h.replica, h.serial, int64(h.left), int64(h.spent), int64(h.callsLeft), int64(h.callsSpent), h.expires}
}

func scanRun(s scanner) (RunID, *runRow, error) {
	r, digest := &runRow{}, []byte(nil)
	err := s.Scan(&r.id.Scope, &r.id.Key, &digest, &r.call, &r.state, &r.until, (*[]byte)(&r.outcome))
	if err == nil && copy(r.digest[:], digest) != sha256.Size {
		err = fmt.Errorf("the digest of run %q is cut off", r.id.Key)
	}
	r.until = r.until.UTC()
	return r.id, r, err
}

func runValues(id RunID, r *runRow) []any {
	return []any{id.Scope, id.Key, r.digest[:], r.call, string(r.state), r.until, []byte(r.outcome)}
}

func transferValues(t *transfer) []any {
	return []any{t.id, t.from, t.to, int64(t.amount), t.kind, t.purse, t.at}
}

func callValues(c *CallRow) []any {
	return []any{
		clean(c.ID), c.At, int64(c.Elapsed), clean(c.Gate), clean(string(c.Mode)), clean(c.Caller), clean(c.Account),
		clean(c.Session), clean(c.Server), clean(c.Tool), int64(c.Generation), clean(string(c.Code)), int64(c.Price), //nolint:gosec // comes back as it was
		int64(c.ArgsSize), int64(c.ResultSize), optional(c.Args), optional(c.Parent), optional(c.Message), optional(formatMarks(c.Marks)),
	}
}

// optional is a text, or nil for none.
func optional[T ~string | ~[]byte](text T) any {
	if len(text) == 0 {
		return nil
	}
	return clean(string(text))
}

// clean makes a string a text that every database takes, so that one odd call does not keep
// the others that are recorded with it from being recorded.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// check refuses names that a database would keep otherwise, or not at all.
func (r *refs) check() error {
	names := slices.Concat(r.paces, r.purses, r.holds)
	for _, c := range r.calls {
		names = append(names, c.id)
	}
	for _, id := range r.runs {
		names = append(names, id.Scope, id.Key)
	}
	for _, name := range names {
		if !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0 {
			return fmt.Errorf("store: the name %q is not a text: it must be UTF-8 without zeros", name)
		}
	}
	return nil
}

// what is what becomes of the row.
func (c change) what() change { return c }

// diff is what is to be written to a table: the values of rows, in the order of their keys,
// so that two exchanges that insert the same rows do not wait for each other.
type diff struct{ created, changed, deleted [][]any }

func diffOf[K comparable, R interface{ what() change }](all map[K]R, order func(K, K) int, values func(K, R) []any) (d diff) {
	for _, key := range slices.SortedFunc(maps.Keys(all), order) {
		switch row := all[key]; row.what() {
		case created:
			d.created = append(d.created, values(key, row))
		case changed:
			d.changed = append(d.changed, values(key, row))
		case deleted:
			d.deleted = append(d.deleted, values(key, row))
		case unchanged:
		}
	}
	return d
}

// writes is all that a change left to be written.
type writes struct {
	paces, purses, holds, runs diff
	transfers, calls           [][]any
	record                     []*CallRow // what calls was made of
}

func newRows() *rows {
	return &rows{
		paces: map[string]*paceRow{}, purses: map[string]*purseRow{}, holds: map[string]*holdRow{},
		runs: map[RunID]*runRow{}, charged: map[string]bool{},
	}
}

// writes is what is to be written of the rows.
func (r *rows) writes() *writes {
	w := &writes{
		paces:  diffOf(r.paces, strings.Compare, paceValues),
		purses: diffOf(r.purses, strings.Compare, purseValues),
		holds:  diffOf(r.holds, strings.Compare, holdValues),
		runs:   diffOf(r.runs, compareRuns, runValues),
	}
	for _, t := range together(r.transfers) {
		w.transfers = append(w.transfers, transferValues(&t))
	}
	w.record = once(r.calls)
	for _, c := range w.record {
		w.calls = append(w.calls, callValues(c))
	}
	return w
}

// once are calls in the order of their keys, each once: of those with the same key the first
// that says what the call cost, or else the first.
func once(calls []*CallRow) []*CallRow {
	same := func(a, b *CallRow) int {
		return cmp.Or(cmp.Compare(a.At.UnixMicro(), b.At.UnixMicro()), strings.Compare(a.ID, b.ID))
	}
	sorted := slices.SortedStableFunc(slices.Values(calls), func(a, b *CallRow) int {
		return cmp.Or(same(a, b), cmp.Compare(min(b.Price, 1), min(a.Price, 1)))
	})
	return slices.CompactFunc(sorted, func(a, b *CallRow) bool { return same(a, b) == 0 })
}

// together makes one transfer of all charges from the same place to the same place.
func together(transfers []transfer) (list []transfer) {
	type way struct{ from, to string }
	at := make(map[way]int)
	for _, t := range transfers {
		if t.kind != "charge" {
			list = append(list, t)
			continue
		}
		if i, ok := at[way{t.from, t.to}]; ok {
			list[i].amount += t.amount
			continue
		}
		at[way{t.from, t.to}] = len(list)
		t.id = "charge/" + t.id
		list = append(list, t)
	}
	return list
}

func compareRuns(a, b RunID) int {
	if a.Scope != b.Scope {
		return strings.Compare(a.Scope, b.Scope)
	}
	return strings.Compare(a.Key, b.Key)
}

// action is what is done with rows of a table.
type action int

const (
	insert action = iota
	insertMissing
	update
	remove
)

// writing is an action on a table.
type writing struct {
	table  *table
	action action
}

// writeTexts are the statements for everything that is ever written.
func writeTexts(text func(*table, action) string) map[writing]string {
	texts := make(map[writing]string)
	for _, step := range (&writes{}).steps() {
		texts[step.writing] = text(step.table, step.action)
	}
	return texts
}

// step writes rows.
type step struct {
	writing
	rows [][]any
}

// steps are all that is to be written, in an order that never refers to a row that is not
// there.
func (w *writes) steps() []step {
	return []step{
		{writing{&paceTable, remove}, w.paces.deleted},
		{writing{&holdTable, remove}, w.holds.deleted},
		{writing{&purseTable, remove}, w.purses.deleted},
		{writing{&runTable, remove}, w.runs.deleted},
		{writing{&paceTable, update}, w.paces.changed},
		{writing{&paceTable, insert}, w.paces.created},
		{writing{&purseTable, update}, w.purses.changed},
		{writing{&purseTable, insert}, w.purses.created},
		{writing{&holdTable, update}, w.holds.changed},
		{writing{&holdTable, insert}, w.holds.created},
		{writing{&runTable, update}, w.runs.changed},
		{writing{&runTable, insert}, w.runs.created},
		{writing{&transferTable, insert}, w.transfers},
		{writing{&callTable, insertMissing}, w.calls},
	}
}

// each calls do for everything that is to be written.
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

// empty reports whether there is nothing to write.
func (w *writes) empty() bool {
	return w.each(func(*table, action, [][]any) error { return errNotEmpty }) == nil
}

var errNotEmpty = errors.New("not empty")

// onConflict is what becomes of a row that is there already.
func (t *table) onConflict(set string) string {
	return ` ON CONFLICT (` + write("{}", ", ", t.columns[:t.keys], 1) + `) DO UPDATE SET ` + set
}

// keepCharged is what becomes of a call that is on the record already: it stays, unless only
// the new one knows what the call cost. More may be set then.
func keepCharged(t *table, more string) string {
	return t.onConflict(t.rest(`{} = excluded.{}`)+more) + ` WHERE ` + t.name + `.price = 0 AND excluded.price > 0`
}

// AppendCalls puts calls on the record, all of them or none. One that is there already stays
// as it is. The caller bounds how many it appends at once.
func (s *Store) AppendCalls(ctx context.Context, calls []*CallRow) error {
	if len(calls) == 0 {
		return nil
	}
	return s.engine.exchange(ctx, refs{}, func(r *rows) error {
		r.calls = calls
		return nil
	})
}

// Maintain forgets calls that are older than keep, unless it is zero, with their sums,
// idempotency keys that have run out, and what people changed long ago. It is to be done every
// hour or so, by any replica.
func (s *Store) Maintain(ctx context.Context, keep time.Duration) error {
	return s.engine.maintain(ctx, keep)
}

// retire adds what the calls of a table cost that are about to be forgotten to what is known
// of forgotten calls, by who paid, so that the books still add up.
func retire(from string) string {
	return `INSERT INTO retired (purse, amount) SELECT CASE WHEN session <> '' THEN session ELSE account END, sum(price)
		FROM ` + from + ` GROUP BY 1 ON CONFLICT (purse) DO UPDATE SET amount = retired.amount + excluded.amount`
}

// staleRefs finds what has expired: holds, with their purses and accounts, which get the money
// back; sessions that are over, or ended and have money left, with their accounts; runs.
func staleRefs(ctx context.Context, db *sql.DB, now time.Time, limit int) (list []refs, err error) {
	find := func(read func(scanner) (refs, error), text string, args ...any) {
		if err == nil {
			err = query(ctx, db, func(s scanner) error {
				r, err := read(s)
				list = append(list, r)
				return err
			}, text, args...)
		}
	}
	session := func(s scanner) (refs, error) {
		var id, account string
		err := s.Scan(&id, &account)
		return refs{purses: []string{id, account}}, err
	}
	find(func(s scanner) (refs, error) {
		var hold, purse, account string
		err := s.Scan(&hold, &purse, &account)
		return refs{holds: []string{hold}, purses: []string{purse, account}}, err
	}, `SELECT holds.id, purse, account FROM holds JOIN purses ON purses.id = purse WHERE holds.expires <= $1 ORDER BY holds.expires LIMIT $2`, now, limit)
	find(session, `SELECT id, account FROM purses WHERE state = 'open' AND expires <= $1 ORDER BY expires LIMIT $2`, now, limit)
	find(session, `SELECT id, account FROM purses WHERE state <> 'open' AND balance > 0 ORDER BY id LIMIT $1`, limit)
	find(func(s scanner) (refs, error) {
		var id RunID
		err := s.Scan(&id.Scope, &id.Key)
		return refs{runs: []RunID{id}}, err
	}, `SELECT scope, key FROM runs WHERE state = 'running' AND until <= $1 ORDER BY until LIMIT $2`, now, limit)
	return list, err
}

// querier is a database, or a transaction.
type querier interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// query calls do for every row.
func query(ctx context.Context, db querier, do func(scanner) error, text string, args ...any) error {
	found, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer found.Close() //nolint:errcheck // Err says what was wrong
	for found.Next() {
		if err := do(found); err != nil {
			return err
		}
	}
	return found.Err()
}
