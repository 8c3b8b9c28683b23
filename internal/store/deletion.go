package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// Deletion reports the result of deleting a caller's data.
type Deletion struct {
	Pseudonym string           // replaces the caller's ID in rows that are kept
	Deleted   map[string]int64 // number of deleted rows by table
	Kept      map[string]int64 // number of rows by table that now contain the pseudonym instead, with arguments and messages removed
}

// deletions lists the tables whose rows are deleted. Evidence refers to queries, so it is deleted
// before them.
var deletions = []struct{ table, where string }{
	{"evidence", `query IN (SELECT id FROM queries WHERE {owner})`},
	{"queries", `{owner}`},
	{"query_jobs", `{owner}`},
	{"results", `{owner}`},
	{"approvals", `{owner}`},
	{"grants", `{owner}`},
	{"connections", `{owner}`},
	{"links", `{owner}`},
	{"keys", `{owner}`},
}

// DeleteCaller deletes a caller's data in one transaction: the caller's keys, connections, links,
// results, queries, approvals, stored responses and person, and the arguments and messages of
// recorded calls. Recorded calls and the ledger are kept under a random pseudonym, so that the
// books still balance. If account is not empty, only the caller in that account is deleted. The
// caller's own account, which has the caller's ID and is not used by any other caller, is renamed.
//
// The error is NotFound if there is no data about the caller, and Unavailable while calls hold
// money from the caller's own account.
func (s *Store) DeleteCaller(ctx context.Context, account, caller string) (*Deletion, error) {
	d := &deleter{
		Deletion: Deletion{Pseudonym: "deleted:" + strings.ToLower(rand.Text()[:16]), Deleted: map[string]int64{}, Kept: map[string]int64{}},
		ctx:      ctx, account: account, caller: caller,
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("store: delete caller: %w", s.engine.explain(err))
	}
	defer tx.Rollback() //nolint:errcheck // no effect after the commit
	d.tx = tx
	if !s.isLite() {
		d.exec(`SET LOCAL statement_timeout = 0`)
	}
	d.run(s.isLite())
	if d.err == nil && len(d.Deleted)+len(d.Kept) == 0 {
		return nil, toolyard.Errorf(toolyard.NotFound, "No data found for caller %.64q.", caller)
	}
	if d.err == nil {
		d.err = tx.Commit()
	}
	if d.err != nil {
		return nil, fmt.Errorf("store: delete caller: %w", s.engine.explain(d.err))
	}
	if d.Deleted["keys"] > 0 {
		s.announce(ctx, KeysDocument)
	}
	return &d.Deletion, nil
}

// deleter deletes within a transaction. After an error, it does nothing.
type deleter struct {
	Deletion
	ctx             context.Context //nolint:containedctx // lives as long as the transaction
	tx              *sql.Tx
	account, caller string
	err             error
}

func (d *deleter) exec(text string, args ...any) (rows int64) {
	if d.err != nil {
		return 0
	}
	result, err := d.tx.ExecContext(d.ctx, text, args...)
	if err == nil {
		rows, err = result.RowsAffected()
	}
	d.err = err
	return rows
}

func (d *deleter) remove(table, where string, args ...any) {
	if n := d.exec(`DELETE FROM `+table+` WHERE `+where, args...); n > 0 {
		d.Deleted[table] += n
	}
}

func (d *deleter) keep(table, set, where string, args ...any) {
	if n := d.exec(`UPDATE `+table+` SET `+set+` WHERE `+where, args...); n > 0 {
		d.Kept[table] += n
	}
}

// names returns the values in a result's first column.
func (d *deleter) names(text string, args ...any) (list []string) {
	if d.err != nil {
		return nil
	}
	d.err = query(d.ctx, d.tx, func(r scanner) error {
		var name string
		err := r.Scan(&name)
		list = append(list, name)
		return err
	}, text, args...)
	return list
}

// owner returns the condition for the caller's rows, and its arguments.
func (d *deleter) owner() (where string, args []any) {
	if d.account == "" {
		return `caller = $1`, []any{d.caller}
	}
	return `caller = $1 AND account = $2`, []any{d.caller, d.account}
}

func (d *deleter) run(lite bool) {
	owner, args := d.owner()
	accounts := d.names(`SELECT DISTINCT account FROM calls WHERE `+owner+` UNION SELECT account FROM keys WHERE `+owner, args...)
	for _, table := range deletions {
		d.remove(table.table, strings.ReplaceAll(table.where, "{owner}", owner), args...)
	}
	for _, account := range append(accounts, d.caller) {
		if d.account == "" || account == d.account { // running calls need their rows to finish; those rows expire later
			d.remove("runs", `scope = $1 AND state <> 'running'`, ledger.CallerKey(account, d.caller))
		}
	}
	d.keep("calls", fmt.Sprintf(`caller = $%d, args = NULL, message = NULL`, len(args)+1), owner, append(args, d.Pseudonym)...)
	if d.account != "" && d.account != d.caller {
		return
	}
	d.remove("people", `caller = $1 AND blocked = 0`, d.caller)
	d.keep("people", `name = '', email = '', groups = '[]'`, `caller = $1`, d.caller) // a block stays in effect
	if others := d.names(`SELECT id FROM calls WHERE account = $1 AND caller NOT IN ($1, $2) UNION SELECT prefix FROM keys WHERE account = $1 AND caller <> $1 LIMIT 1`, d.caller, d.Pseudonym); len(others) == 0 {
		d.renameAccount(lite)
	}
}

// leaseTime is approximately how long a replica holds leased money.
const leaseTime = time.Minute

// renameAccount renames the caller's own account to the pseudonym. No money may be on hold, because
// replicas would return it to the old name.
func (d *deleter) renameAccount(lite bool) {
	lock := ` FOR UPDATE`
	if lite {
		lock = ""
	}
	d.names(`SELECT id FROM balances WHERE account = $1 ORDER BY id`+lock, d.caller)
	if held := d.names(`SELECT id FROM holds WHERE balance IN (SELECT id FROM balances WHERE account = $1) LIMIT 1`, d.caller); d.err == nil && len(held) > 0 {
		d.err = &toolyard.Error{Code: toolyard.Unavailable, Message: "Funds are on hold for calls of this caller that are running or ended within the last minute. Revoke the caller's keys, then try again.", RetryAfter: leaseTime}
		return
	}
	d.keep("balances", `id = $2`, `id = $1`, d.caller, d.Pseudonym)
	d.keep("balances", `account = $2`, `account = $1`, d.caller, d.Pseudonym)
	d.keep("calls", `account = $2`, `account = $1`, d.caller, d.Pseudonym)
	d.keep("retired", `balance = $2`, `balance = $1`, d.caller, d.Pseudonym)
	d.keep("sums", `account = $2`, `account = $1`, d.caller, d.Pseudonym)
	d.keep("totals", `account = $2`, `account = $1`, d.caller, d.Pseudonym)
	d.keep("transfers", `balance = $2`, `balance = $1`, d.caller, d.Pseudonym)
	d.keep("transfers", `id = replace(id, $1, $2)`, `id LIKE 'fund/%' AND (source = $3 OR target = $3)`, "/"+d.caller+"/", "/"+d.Pseudonym+"/", "balance/"+d.caller)
	d.keep("transfers", `source = $2`, `source = $1`, "balance/"+d.caller, "balance/"+d.Pseudonym)
	d.keep("transfers", `target = $2`, `target = $1`, "balance/"+d.caller, "balance/"+d.Pseudonym)
}
