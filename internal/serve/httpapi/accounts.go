package httpapi

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// Balances lists accounts and sessions.
type Balances interface {
	AccountPage(context.Context, store.AccountQuery) ([]*ledger.Balance, error)
	Sessions(context.Context, store.SessionQuery) ([]*ledger.Balance, error)
}

// accountHandler serves accounts.
type accountHandler struct {
	ledger   ledger.Ledger // may be nil
	balances Balances      // may be nil
}

// accountParams are the filters for accounts.
var accountParams = map[string]object{"q": text("Prefix of the account ID.")}

type accountsPage struct {
	Accounts []*ledger.Balance `json:"accounts" doc:"Ordered by ID."`
	Next     string            `json:"next,omitempty" doc:"Cursor for the next page: send it as the before parameter."`
}

// timeless replaces the time in cursors for lists that are not ordered by time.
var timeless = time.UnixMicro(0)

func (h *accountHandler) list(r *request) (*reply, error) {
	p := &r.params
	before := p.cursor("before")
	if before.ID != "" && !before.At.Equal(timeless) {
		p.fail(errForeignCursor)
	}
	q := store.AccountQuery{Prefix: p.values["q"], After: before.ID, Limit: p.number("limit", defaultLimit, 1, store.MaxCalls)}
	switch {
	case p.err != nil:
		return nil, p.err
	case h.balances == nil:
		return nil, errNoLedger
	}
	list, err := h.balances.AccountPage(r.Context(), q)
	next := nextPage(list, q.Limit, func(p *ledger.Balance) (time.Time, string) { return timeless, p.ID })
	return respond(accountsPage{orEmpty(list), next}, err)
}

// fundBody describes a deposit or withdrawal.
type fundBody struct {
	Amount    string `json:"amountUsd" doc:"Amount in US dollars; negative for a withdrawal."`
	Reference string `json:"reference" minLength:"1" maxLength:"128" doc:"Unique reference: a second request with the same reference has no effect."`
}

func (h *accountHandler) fund(r *request) (*reply, error) {
	if h.ledger == nil {
		return nil, errNoLedger
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
	if !isVisibleASCII(body.Reference) {
		return nil, issue("reference", "must consist of visible ASCII characters")
	}
	if err := h.ledger.Fund(r.Context(), account, amount, body.Reference); err != nil {
		return nil, err
	}
	return respond(h.account(r.Context(), account))
}

func (h *accountHandler) own(r *request) (*reply, error) {
	if h.ledger == nil {
		return nil, errNoLedger
	}
	account, err := accountOf(r.caller)
	if err != nil {
		return nil, err
	}
	balance, err := h.account(r.Context(), account)
	if err != nil && toolyard.AsError(err).Code == toolyard.NotFound { // not funded yet
		return respond(&ledger.Balance{ID: account, Account: account, State: ledger.StateOpen}, nil)
	}
	return respond(balance, err)
}

// account returns an account's balance.
func (h *accountHandler) account(ctx context.Context, account string) (*ledger.Balance, error) {
	balance, err := h.ledger.Balance(ctx, account)
	if err == nil && balance.ID != balance.Account { // the ID belongs to a session
		err = notFound("Unknown account %q.", account)
	}
	return balance, err
}

func (h *accountHandler) routes() []route {
	balance := answer[ledger.Balance]("Balance")
	return []route{
		{method: "GET", path: "/account", id: "getAccount", summary: "Get the caller's account.", access: caller, gives: balance, refusals: []int{404}, serve: h.own},
		{
			method: "GET", path: "/accounts", id: "listAccounts", summary: "List accounts by ID.",
			access: viewer, query: slices.Concat([]string{"q"}, pages), params: accountParams, gives: answer[accountsPage]("Accounts"), refusals: []int{400, 404}, serve: h.list,
		},
		{
			method: "POST", path: "/accounts/{id}/fund", id: "fundAccount", summary: "Deposit to or withdraw from an account.",
			access: operator, action: "account.fund", takes: body[fundBody]("Fund"), gives: balance, refusals: []int{400, 402, 404, 413}, serve: h.fund,
		},
	}
}
