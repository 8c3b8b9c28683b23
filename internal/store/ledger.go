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

// maxFunds is how much money an account can have, with what its sessions have. It is far below
// what Money can hold, so that no sum overflows.
const maxFunds = 10_000_000 * toolyard.USD

// Fund implements ledger.Ledger.
func (s *Store) Fund(ctx context.Context, account string, amount toolyard.Money, reference string) error {
	others, err := s.inSessions(ctx, account)
	if err != nil {
		return err
	}
	id := fmt.Sprintf("fund/%d/%s/%s", len(account), account, reference) // no other account and reference have the same
	again := false
	err = s.engine.exchange(ctx, refs{purses: []string{account}, calls: []callRef{{id: id}}}, func(r *rows) error {
		if again = r.charged[id]; again {
			return nil
		}
		b := &books{rows: r}
		p := b.purses[account]
		switch {
		case p == nil:
			p = &purseRow{change: created, id: account, account: account, state: ledger.StateOpen}
			b.purses[account] = p
		case p.account != p.id:
			return toolyard.Errorf(toolyard.Invalid, "%s is a session, not an account.", account)
		}
		sum, ok := p.balance.Add(amount)
		if amount < 0 && sum < 0 {
			return toolyard.Errorf(toolyard.BudgetExceeded, "The account %s has %s USD that nobody holds; %s cannot be taken out of it.", account, p.balance, -amount)
		}
		if amount > 0 && (!ok || amount > maxFunds || sum > maxFunds-min(maxFunds, p.held)-others) {
			return toolyard.Errorf(toolyard.Invalid, "An account can have at most %s USD, with its sessions; %s cannot be added to %s.", maxFunds, amount, account)
		}
		t := transfer{id: id, from: "world", to: "purse/" + account, amount: amount, kind: "fund"}
		if amount < 0 {
			t.from, t.to, t.amount = t.to, t.from, -amount
		}
		b.move(t)
		p.balance = sum
		p.mark()
		return nil
	})
	if err != nil || !again {
		return err
	}
	return s.sameFunds(ctx, id, account, amount, reference)
}

// inSessions is the money that the sessions of an account have, in whole dollars, and no more
// than maxFunds.
func (s *Store) inSessions(ctx context.Context, account string) (toolyard.Money, error) {
	var dollars int64
	err := s.db.QueryRowContext(ctx, `SELECT coalesce(sum(balance / 1000000000 + held / 1000000000), 0) FROM purses WHERE account = $1 AND id <> account`, account).Scan(&dollars)
	return toolyard.Money(min(dollars, int64(maxFunds/toolyard.USD))) * toolyard.USD, s.engine.explain(err)
}

// sameFunds refuses a payment whose reference stands for another amount.
func (s *Store) sameFunds(ctx context.Context, id, account string, amount toolyard.Money, reference string) error {
	var paid toolyard.Money
	var target string
	err := s.db.QueryRowContext(ctx, `SELECT amount, target FROM transfers WHERE id = $1`, id).Scan(&paid, &target)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return s.engine.explain(err)
	}
	if target != "purse/"+account {
		paid = -paid
	}
	if paid != amount {
		return toolyard.Errorf(toolyard.IdempotencyConflict, "The reference %s stands for %s USD already; give another payment another reference.", reference, paid)
	}
	return nil
}

// OpenSession implements ledger.Ledger.
func (s *Store) OpenSession(ctx context.Context, open ledger.Session) (*ledger.Balance, error) {
	if open.Limit < 0 || open.Calls < 0 || open.TTL <= 0 || open.ID == "" || open.ID == open.Account {
		return nil, toolyard.Errorf(toolyard.Invalid, "A session needs an id, a limit that is not negative, and a time to live.")
	}
	if err := s.mayOpen(ctx, open); err != nil {
		return nil, err
	}
	try := func() error {
		return s.engine.exchange(ctx, refs{purses: []string{open.ID, open.Account}}, func(r *rows) error {
			return (&books{rows: r}).open(open)
		})
	}
	err := try()
	if err != nil && toolyard.AsError(err).Code == toolyard.BudgetExceeded {
		err = try() // the session may be what took the money: one that is opened meanwhile need not be seen together with that
	}
	if err != nil {
		return nil, err
	}
	return s.Balance(ctx, open.ID)
}

// Bounds on the sessions of one account. Those that have spent nothing are deleted some time
// after they ended; the others are part of the books.
const (
	maxOpenSessions  = 5000
	maxEmptySessions = 20_000 // that have spent nothing, open or not
	keepSessions     = 24 * time.Hour
)

// emptySession is the condition that a session has ended and moved no money, in SQL.
const emptySession = `id <> account AND state IN ('closed', 'expired') AND spent = 0 AND balance = 0 AND held = 0 AND held_calls = 0
	AND NOT EXISTS (SELECT 1 FROM holds WHERE purse = purses.id)`

// mayOpen refuses a session of an account that has too many. Sessions that are opened at the
// same time may pass the bound.
func (s *Store) mayOpen(ctx context.Context, open ledger.Session) error {
	var there, opened, empty int
	err := s.db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM purses WHERE id = $1),
		(SELECT count(*) FROM (SELECT 1 FROM purses WHERE account = $2 AND id <> account AND state = 'open' LIMIT $3) AS o),
		(SELECT count(*) FROM (SELECT 1 FROM purses WHERE account = $2 AND id <> account AND spent = 0 LIMIT $4) AS e)`,
		open.ID, open.Account, maxOpenSessions, maxEmptySessions).Scan(&there, &opened, &empty)
	switch {
	case err != nil:
		return fmt.Errorf("store: sessions of %s: %w", open.Account, s.engine.explain(err))
	case there > 0: // it was opened before
		return nil
	case opened >= maxOpenSessions:
		return &toolyard.Error{
			Code: toolyard.RateLimited, RetryAfter: time.Minute,
			Message: fmt.Sprintf("The account %s has %d open sessions, the maximum. Close some first.", open.Account, maxOpenSessions),
		}
	case empty >= maxEmptySessions:
		return &toolyard.Error{
			Code: toolyard.RateLimited, RetryAfter: time.Hour,
			Message: fmt.Sprintf("The account %s has opened %d sessions that spent nothing, the maximum for a day. Use a session for more calls.", open.Account, maxEmptySessions),
		}
	}
	return nil
}

// open moves money from an account into a new session.
func (b *books) open(open ledger.Session) error {
	b.expire()
	account := b.purses[open.Account]
	if p := b.purses[open.ID]; p != nil {
		if p.account == open.Account && p.limit == open.Limit && p.maxCalls == open.Calls {
			return nil // the answer was lost
		}
		return toolyard.Errorf(toolyard.IdempotencyConflict, "There is a session %s already.", open.ID)
	}
	if open.Limit > 0 && (account == nil || account.balance < open.Limit) {
		have := toolyard.Money(0)
		if account != nil {
			have = account.balance
		}
		return toolyard.Errorf(toolyard.BudgetExceeded, "The account %s has %s USD, and the session wants %s.", open.Account, have, open.Limit)
	}
	p := &purseRow{
		change: created, id: open.ID, account: open.Account, state: ledger.StateOpen,
		limit: open.Limit, balance: open.Limit, maxCalls: open.Calls, expires: b.now.Add(open.TTL),
	}
	b.purses[p.id] = p
	if open.Limit > 0 {
		account.balance -= open.Limit
		account.mark()
		b.move(transfer{id: "open/" + p.id, from: "purse/" + account.id, to: "purse/" + p.id, amount: open.Limit, kind: "open"})
	}
	return nil
}

// CloseSession implements ledger.Ledger.
func (s *Store) CloseSession(ctx context.Context, id string) (*ledger.Balance, error) {
	p, err := s.Balance(ctx, id)
	if err != nil {
		return nil, err
	}
	if p.ID == p.Account {
		return nil, toolyard.Errorf(toolyard.Invalid, "%s is an account; only sessions are closed.", id)
	}
	err = s.engine.exchange(ctx, refs{purses: []string{p.ID, p.Account}}, func(r *rows) error {
		b := &books{rows: r}
		if p := b.purses[id]; p != nil && p.state == ledger.StateOpen {
			p.state = ledger.StateClosed
			p.mark()
		}
		b.expire()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.Balance(ctx, id)
}

// Purse implements ledger.Ledger.
func (s *Store) Balance(ctx context.Context, id string) (*ledger.Balance, error) {
	list, err := s.queryPurses(ctx, s.db, "p.id = $1", "p.id", id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, toolyard.Errorf(toolyard.NotFound, "There is no account or session %s.", id)
	}
	return list[0], nil
}

// AccountQuery selects accounts. Empty fields select everything.
type AccountQuery struct {
	Begins string // only accounts whose name begins so
	After  string // only accounts behind this one
	Limit  int    // at most MaxCalls, which zero means too
}

// AccountPage are accounts, by name.
func (s *Store) AccountPage(ctx context.Context, q AccountQuery) ([]*ledger.Balance, error) {
	where, args := accountPage(q)
	return s.queryPurses(ctx, s.asked, where, "p.id", args...)
}

// accountPage is the condition that a purse is on a page, in SQL.
func accountPage(q AccountQuery) (where string, args []any) {
	if q.Limit <= 0 || q.Limit > MaxCalls {
		q.Limit = MaxCalls
	}
	f := &filter{where: []string{"id = account"}} // says what the index says
	if q.Begins != "" {
		// As a span, which an index has in one place.
		f.where = append(f.where, "id >= "+f.arg(q.Begins), "id < "+f.arg(q.Begins+string(utf8.MaxRune)))
	}
	if q.After != "" {
		f.where = append(f.where, "id > "+f.arg(q.After))
	}
	page := "SELECT id FROM purses" + f.String() + " ORDER BY id LIMIT " + f.arg(q.Limit)
	return "p.id IN (" + page + ")", f.args
}

// Accounts are all accounts, by name.
func (s *Store) Accounts(ctx context.Context) ([]*ledger.Balance, error) {
	return everything(func(before []*ledger.Balance) ([]*ledger.Balance, error) {
		var q AccountQuery
		if n := len(before); n > 0 {
			q.After = before[n-1].ID
		}
		return s.AccountPage(ctx, q)
	})
}

// queryPurses reads purses, with what their holds have, in one statement and so at one time.
func (s *Store) queryPurses(ctx context.Context, db *sql.DB, where, order string, args ...any) (list []*ledger.Balance, err error) {
	err = query(ctx, db, func(from scanner) error {
		p, expires := &ledger.Balance{}, (*time.Time)(nil)
		err := from.Scan(&p.ID, &p.Account, &p.State, &p.Limit, &p.Remaining, &p.Held, &p.Spent, &p.Calls, &p.MaxCalls, &expires)
		if expires != nil {
			p.Expires = expires.UTC()
		}
		p.Remaining += p.Held
		if p.MaxCalls == 0 {
			p.Calls = 0 // only some of them are counted
		}
		list = append(list, p)
		return err
	}, readPurses(where, order), args...)
	return list, s.engine.explain(err)
}

// spentBySessions is what the sessions of p have spent, if it is an account.
const spentBySessions = `CASE WHEN p.id <> p.account THEN 0 ELSE
	COALESCE((SELECT SUM(s.spent) FROM purses s WHERE s.account = p.id AND s.id <> p.id), 0) +
	COALESCE((SELECT SUM(sh.spent) FROM purses s JOIN holds sh ON sh.purse = s.id WHERE s.account = p.id AND s.id <> p.id), 0) END`

// readPurses is the statement that reads purses, with what their holds have.
func readPurses(where, order string) string {
	return `SELECT p.id, p.account, p.state, p.cap, p.balance, COALESCE(SUM(h.unspent), 0), p.spent + COALESCE(SUM(h.spent), 0) + ` + spentBySessions + `,
		p.calls + COALESCE(SUM(h.calls_spent), 0), p.max_calls, p.expires
		FROM purses p LEFT JOIN holds h ON h.purse = p.id WHERE ` + where + ` GROUP BY p.id ORDER BY ` + order
}

var _ ledger.Ledger = (*Store)(nil)
