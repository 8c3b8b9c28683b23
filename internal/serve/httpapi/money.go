package httpapi

import (
	"context"
	"strconv"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// Purses lists accounts and sessions.
type Purses interface {
	AccountPage(context.Context, store.AccountQuery) ([]*ledger.Balance, error)
	Sessions(context.Context, store.SessionQuery) ([]*ledger.Balance, error)
}

// accountParams are parameters that select accounts.
var accountParams = map[string]object{"q": text("Only accounts whose id begins so.")}

type accountsPage struct {
	Accounts []*ledger.Balance `json:"accounts" doc:"By id."`
	Next     string            `json:"next,omitempty" doc:"To be sent as before, to go on."`
}

type sessionsPage struct {
	Sessions []*ledger.Balance `json:"sessions" doc:"Those that end last first."`
	Next     string            `json:"next,omitempty" doc:"To be sent as before, to go on."`
}

// timeless is the time in cursors of what is not in the order of time.
var timeless = time.UnixMicro(0)

func (a *v1) getAccounts(r *request) (*reply, error) {
	p := &r.params
	before := p.cursor("before")
	if before.ID != "" && !before.At.Equal(timeless) {
		p.fail(errNoPlace)
	}
	q := store.AccountQuery{Prefix: p.values["q"], After: before.ID, Limit: p.number("limit", defaultLimit, 1, store.MaxCalls)}
	switch {
	case p.err != nil:
		return nil, p.err
	case a.Purses == nil:
		return nil, errNothingForSale
	}
	list, err := a.Purses.AccountPage(r.Context(), q)
	next := nextPage(list, q.Limit, func(p *ledger.Balance) (time.Time, string) { return timeless, p.ID })
	return done(accountsPage{orEmpty(list), next}, err)
}

func (a *v1) getSessions(r *request) (*reply, error) {
	p := &r.params
	before := p.cursor("before")
	q := store.SessionQuery{
		Account: p.account(r.caller), State: p.word("state", "open", "closed", "expired"),
		Before: store.SessionCursor{Expires: before.At, ID: before.ID}, Limit: p.number("limit", defaultLimit, 1, store.MaxCalls),
	}
	switch {
	case p.err != nil:
		return nil, p.err
	case a.Purses == nil:
		return nil, errNothingForSale
	}
	list, err := a.Purses.Sessions(r.Context(), q)
	next := nextPage(list, q.Limit, func(p *ledger.Balance) (time.Time, string) { return p.Expires, p.ID })
	return done(sessionsPage{orEmpty(list), next}, err)
}

// fundBody is money to be put into an account, or taken out of it.
type fundBody struct {
	Amount    string `json:"amountUsd" doc:"In US dollars; negative to take it out."`
	Reference string `json:"reference" minLength:"1" maxLength:"128" doc:"Unique: funding twice with one reference funds once."`
}

func (a *v1) fund(r *request) (*reply, error) {
	if a.Ledger == nil {
		return nil, errNothingForSale
	}
	body, err := read[fundBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	amount, err := toolyard.ParseMoney(body.Amount)
	if err != nil || amount == 0 {
		return nil, issue("amountUsd", "must be an amount such as "+strconv.Quote("5.00"))
	}
	account := r.PathValue("id")
	if err := identity.CheckID(account); err != nil {
		return nil, invalid("%s.", err)
	}
	if !isPlain(body.Reference) {
		return nil, issue("reference", "must be visible characters of ASCII")
	}
	if err := a.Ledger.Fund(r.Context(), account, amount, body.Reference); err != nil {
		return nil, err
	}
	return done(a.account(r.Context(), account))
}
