package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

var _ ledger.Ledger = (*Store)(nil)

// Fund implements ledger.Ledger.
func (s *accountStore) Fund(ctx context.Context, account string, amount toolyard.Money, reference string) error {
	inSessions, err := s.inSessions(ctx, account)
	if err != nil {
		return err
	}
	f := &ledger.Funding{ID: ledger.FundingID(account, reference), Account: account, Amount: amount, InSessions: inSessions}
	repeated := false
	err = s.engine.exchange(ctx, f.Refs(), func(rows *ledger.Rows) (err error) {
		repeated, err = ledger.Fund(rows, f)
		return err
	})
	if err != nil || !repeated {
		return err
	}
	return s.sameFunding(ctx, f, reference)
}

// inSessions returns the money in an account's sessions, in whole dollars and at most
// ledger.MaxFunds.
func (s *accountStore) inSessions(ctx context.Context, account string) (toolyard.Money, error) {
	var dollars int64
	err := s.db.QueryRowContext(ctx, `SELECT coalesce(sum(available / 1000000000 + held / 1000000000), 0) FROM balances WHERE account = $1 AND id <> account`, account).Scan(&dollars)
	return toolyard.Money(min(dollars, int64(ledger.MaxFunds/toolyard.USD))) * toolyard.USD, s.engine.explain(err)
}

// sameFunding returns an error if the reference was already used for a different amount.
func (s *accountStore) sameFunding(ctx context.Context, f *ledger.Funding, reference string) error {
	var paid toolyard.Money
	var target string
	err := s.db.QueryRowContext(ctx, `SELECT amount, target FROM transfers WHERE id = $1`, f.ID).Scan(&paid, &target)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return s.engine.explain(err)
	}
	if target != "balance/"+f.Account {
		paid = -paid
	}
	if paid != f.Amount {
		return toolyard.Errorf(toolyard.IdempotencyConflict, "Reference %s was already used for %s USD. Use a new reference for a new payment.", reference, paid)
	}
	return nil
}

// OpenSession implements ledger.Ledger.
func (s *accountStore) OpenSession(ctx context.Context, session ledger.Session) (*ledger.Balance, error) {
	if err := session.Check(); err != nil {
		return nil, err
	}
	if err := s.checkSessionQuota(ctx, session); err != nil {
		return nil, err
	}
	open := func() error {
		return s.engine.exchange(ctx, ledger.Refs{Balances: []string{session.ID, session.Account}}, func(rows *ledger.Rows) error {
			return ledger.Open(rows, session)
		})
	}
	err := open()
	if err != nil && toolyard.AsError(err).Code == toolyard.BudgetExceeded {
		err = open() // a concurrent request may have opened this very session and taken the money
	}
	if err != nil {
		return nil, err
	}
	return s.Balance(ctx, session.ID)
}

// Limits on sessions per account. Sessions that spent nothing are deleted some time after they end.
// The others remain part of the books.
const (
	maxOpenSessions  = 5000
	maxEmptySessions = 20_000 // open or ended sessions that spent nothing
	keepSessions     = 24 * time.Hour
)

// emptySession is the SQL condition for an ended session that moved no money.
const emptySession = `id <> account AND state IN ('closed', 'expired') AND spent = 0 AND available = 0 AND held = 0 AND held_calls = 0
	AND NOT EXISTS (SELECT 1 FROM holds WHERE balance = balances.id)`

// checkSessionQuota returns an error if an account has too many sessions. Sessions that are opened
// concurrently may exceed the quota.
func (s *accountStore) checkSessionQuota(ctx context.Context, session ledger.Session) error {
	var exists, opened, empty int
	err := s.db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM balances WHERE id = $1),
		(SELECT count(*) FROM (SELECT 1 FROM balances WHERE account = $2 AND id <> account AND state = 'open' LIMIT $3) AS o),
		(SELECT count(*) FROM (SELECT 1 FROM balances WHERE account = $2 AND id <> account AND spent = 0 LIMIT $4) AS e)`,
		session.ID, session.Account, maxOpenSessions, maxEmptySessions).Scan(&exists, &opened, &empty)
	switch {
	case err != nil:
		return fmt.Errorf("store: sessions for %s: %w", session.Account, s.engine.explain(err))
	case exists > 0: // a repeated request
		return nil
	case opened >= maxOpenSessions:
		return &toolyard.Error{
			Code: toolyard.RateLimited, RetryAfter: time.Minute,
			Message: fmt.Sprintf("Account %s has %d open sessions, which is the maximum. Close some first.", session.Account, maxOpenSessions),
		}
	case empty >= maxEmptySessions:
		return &toolyard.Error{
			Code: toolyard.RateLimited, RetryAfter: time.Hour,
			Message: fmt.Sprintf("Account %s has opened %d sessions in which nothing was spent, which is the daily maximum. Make more calls per session.", session.Account, maxEmptySessions),
		}
	}
	return nil
}

// CloseSession implements ledger.Ledger.
func (s *accountStore) CloseSession(ctx context.Context, id string) (*ledger.Balance, error) {
	p, err := s.Balance(ctx, id)
	if err != nil {
		return nil, err
	}
	if p.ID == p.Account {
		return nil, toolyard.Errorf(toolyard.Invalid, "%s is an account; only sessions can be closed.", id)
	}
	err = s.engine.exchange(ctx, ledger.Refs{Balances: []string{p.ID, p.Account}}, func(rows *ledger.Rows) error {
		ledger.Close(rows, id)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.Balance(ctx, id)
}

// Balance implements ledger.Ledger.
func (s *accountStore) Balance(ctx context.Context, id string) (*ledger.Balance, error) {
	list, err := s.queryBalances(ctx, s.db, "p.id = $1", "p.id", id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, toolyard.Errorf(toolyard.NotFound, "No account or session %s was found.", id)
	}
	return list[0], nil
}

// AccountQuery selects accounts. Empty fields don't restrict the selection.
type AccountQuery struct {
	Prefix string // prefix of the ID
	After  string // selects only accounts after this one
	Limit  int    // MaxCalls if zero or greater
}

// AccountPage lists accounts, sorted by ID.
func (s *accountStore) AccountPage(ctx context.Context, q AccountQuery) ([]*ledger.Balance, error) {
	where, args := accountPage(q)
	return s.queryBalances(ctx, s.reports, where, "p.id", args...)
}

// accountPage returns the SQL condition for the balances on a page.
func accountPage(q AccountQuery) (where string, args []any) {
	if q.Limit <= 0 || q.Limit > MaxCalls {
		q.Limit = MaxCalls
	}
	f := &filter{where: []string{"id = account"}} // matches the condition of the index
	if q.Prefix != "" {
		// A prefix is a contiguous range in the index.
		f.where = append(f.where, "id >= "+f.arg(q.Prefix), "id < "+f.arg(q.Prefix+string(utf8.MaxRune)))
	}
	if q.After != "" {
		f.where = append(f.where, "id > "+f.arg(q.After))
	}
	page := "SELECT id FROM balances" + f.String() + " ORDER BY id LIMIT " + f.arg(q.Limit)
	return "p.id IN (" + page + ")", f.args
}

// Accounts lists all accounts, sorted by ID.
func (s *accountStore) Accounts(ctx context.Context) ([]*ledger.Balance, error) {
	return everything(func(before []*ledger.Balance) ([]*ledger.Balance, error) {
		var q AccountQuery
		if n := len(before); n > 0 {
			q.After = before[n-1].ID
		}
		return s.AccountPage(ctx, q)
	})
}

// queryBalances reads balances and their holds in one statement, so that they are consistent.
func (s *accountStore) queryBalances(ctx context.Context, db *sql.DB, where, order string, args ...any) (list []*ledger.Balance, err error) {
	err = query(ctx, db, func(from scanner) error {
		p, expires := &ledger.Balance{}, (*time.Time)(nil)
		err := from.Scan(&p.ID, &p.Account, &p.State, &p.Limit, &p.Remaining, &p.Held, &p.Spent, &p.Calls, &p.MaxCalls, &expires)
		if expires != nil {
			p.Expires = expires.UTC()
		}
		p.Remaining += p.Held
		if p.MaxCalls == 0 {
			p.Calls = 0 // the count would be incomplete
		}
		list = append(list, p)
		return err
	}, selectBalances(where, order), args...)
	return list, s.engine.explain(err)
}

// spentBySessions is the SQL expression for the spending of an account's sessions, where p is the
// account.
const spentBySessions = `CASE WHEN p.id <> p.account THEN 0 ELSE
	COALESCE((SELECT SUM(s.spent) FROM balances s WHERE s.account = p.id AND s.id <> p.id), 0) +
	COALESCE((SELECT SUM(sh.spent) FROM balances s JOIN holds sh ON sh.balance = s.id WHERE s.account = p.id AND s.id <> p.id), 0) END`

// selectBalances returns the statement that reads balances and their holds.
func selectBalances(where, order string) string {
	return `SELECT p.id, p.account, p.state, p.cap, p.available, COALESCE(SUM(h.unspent), 0), p.spent + COALESCE(SUM(h.spent), 0) + ` + spentBySessions + `,
		p.calls + COALESCE(SUM(h.calls_spent), 0), p.max_calls, p.expires
		FROM balances p LEFT JOIN holds h ON h.balance = p.id WHERE ` + where + ` GROUP BY p.id ORDER BY ` + order
}
