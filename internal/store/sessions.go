package store

import (
	"context"
	"time"

	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// SessionCursor is a position in the list of sessions, just after the session with this end and ID.
type SessionCursor struct {
	Expires time.Time
	ID      string
}

// SessionQuery selects sessions. Empty fields don't restrict the selection.
type SessionQuery struct {
	Account string
	State   string        // open, closed or expired
	Before  SessionCursor // only sessions after this position; zero for the first page
	Limit   int           // MaxCalls if zero or greater
}

// Sessions lists sessions, excluding accounts, latest end first.
func (s *accountStore) Sessions(ctx context.Context, q SessionQuery) ([]*ledger.Balance, error) {
	if q.Limit <= 0 || q.Limit > MaxCalls {
		q.Limit = MaxCalls
	}
	f := &filter{where: []string{"id <> account"}}
	f.equal("account", q.Account)
	f.equal("state", q.State)
	f.behind("expires", q.Before.Expires, q.Before.ID)
	page := "SELECT id FROM balances" + f.String() + " ORDER BY expires DESC, id DESC LIMIT " + f.arg(q.Limit)
	return s.queryBalances(ctx, s.reports, "p.id IN ("+page+")", "p.expires DESC, p.id DESC", f.args...)
}
