package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/toolyard/toolyard"
)

// Fund implements toolyard.Ledger.
func (s *Store) Fund(ctx context.Context, account string, amount toolyard.Money, reference string) error {
	id := fmt.Sprintf("fund/%d/%s/%s", len(account), account, reference) // no other account and reference have the same
	again := false
	err := s.engine.exchange(ctx, refs{purses: []string{account}, calls: []callRef{{id: id}}}, func(r *rows) error {
		if again = r.charged[id]; again {
			return nil
		}
		b := &books{rows: r}
		p := b.purses[account]
		switch {
		case p == nil:
			p = &purseRow{change: created, id: account, account: account, state: toolyard.PurseOpen}
			b.purses[account] = p
		case p.account != p.id:
			return toolyard.Errorf(toolyard.Invalid, "%s is a session, not an account.", account)
		}
		sum, ok := p.balance.Add(amount)
		if !ok || sum < 0 {
			return toolyard.Errorf(toolyard.Budget, "The account %s has %s USD that nobody holds; %s cannot be added to it.", account, p.balance, amount)
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
		return toolyard.Errorf(toolyard.Conflict, "The reference %s stands for %s USD already; give another payment another reference.", reference, paid)
	}
	return nil
}

// OpenSession implements toolyard.Ledger.
func (s *Store) OpenSession(ctx context.Context, open toolyard.Session) (*toolyard.Purse, error) {
	if open.Limit < 0 || open.Calls < 0 || open.TTL <= 0 || open.ID == "" || open.ID == open.Account {
		return nil, toolyard.Errorf(toolyard.Invalid, "A session needs an id, a limit that is not negative, and a time to live.")
	}
	try := func() error {
		return s.engine.exchange(ctx, refs{purses: []string{open.ID, open.Account}}, func(r *rows) error {
			return (&books{rows: r}).open(open)
		})
	}
	err := try()
	if err != nil && toolyard.AsError(err).Code == toolyard.Budget {
		err = try() // the session may be what took the money: one that is opened meanwhile need not be seen together with that
	}
	if err != nil {
		return nil, err
	}
	return s.Purse(ctx, open.ID)
}

// open moves money from an account into a new session.
func (b *books) open(open toolyard.Session) error {
	b.expire()
	account := b.purses[open.Account]
	if p := b.purses[open.ID]; p != nil {
		if p.account == open.Account && p.limit == open.Limit && p.maxCalls == open.Calls {
			return nil // the answer was lost
		}
		return toolyard.Errorf(toolyard.Conflict, "There is a session %s already.", open.ID)
	}
	if open.Limit > 0 && (account == nil || account.balance < open.Limit) {
		have := toolyard.Money(0)
		if account != nil {
			have = account.balance
		}
		return toolyard.Errorf(toolyard.Budget, "The account %s has %s USD, and the session wants %s.", open.Account, have, open.Limit)
	}
	p := &purseRow{
		change: created, id: open.ID, account: open.Account, state: toolyard.PurseOpen,
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

// CloseSession implements toolyard.Ledger.
func (s *Store) CloseSession(ctx context.Context, id string) (*toolyard.Purse, error) {
	p, err := s.Purse(ctx, id)
	if err != nil {
		return nil, err
	}
	if p.ID == p.Account {
		return nil, toolyard.Errorf(toolyard.Invalid, "%s is an account; only sessions are closed.", id)
	}
	err = s.engine.exchange(ctx, refs{purses: []string{p.ID, p.Account}}, func(r *rows) error {
		b := &books{rows: r}
		if p := b.purses[id]; p != nil && p.state == toolyard.PurseOpen {
			p.state = toolyard.PurseClosed
			p.mark()
		}
		b.expire()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.Purse(ctx, id)
}

// Purse implements toolyard.Ledger.
func (s *Store) Purse(ctx context.Context, id string) (*toolyard.Purse, error) {
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
func (s *Store) AccountPage(ctx context.Context, q AccountQuery) ([]*toolyard.Purse, error) {
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
func (s *Store) Accounts(ctx context.Context) ([]*toolyard.Purse, error) {
	return everything(func(before []*toolyard.Purse) ([]*toolyard.Purse, error) {
		var q AccountQuery
		if n := len(before); n > 0 {
			q.After = before[n-1].ID
		}
		return s.AccountPage(ctx, q)
	})
}

// queryPurses reads purses, with what their holds have, in one statement and so at one time.
func (s *Store) queryPurses(ctx context.Context, db *sql.DB, where, order string, args ...any) (list []*toolyard.Purse, err error) {
	err = query(ctx, db, func(from scanner) error {
		p, expires := &toolyard.Purse{}, (*time.Time)(nil)
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

// readPurses is the statement that reads purses, with what their holds have.
func readPurses(where, order string) string {
	return `SELECT p.id, p.account, p.state, p.cap, p.balance, COALESCE(SUM(h.unspent), 0), p.spent + COALESCE(SUM(h.spent), 0),
		p.calls + COALESCE(SUM(h.calls_spent), 0), p.max_calls, p.expires
		FROM purses p LEFT JOIN holds h ON h.purse = p.id WHERE ` + where + ` GROUP BY p.id ORDER BY ` + order
}

var _ toolyard.Ledger = (*Store)(nil)
