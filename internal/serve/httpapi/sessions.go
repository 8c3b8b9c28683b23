package httpapi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// sessionHandler serves sessions.
type sessionHandler struct {
	ledger   ledger.Ledger // may be nil
	balances Balances      // may be nil
	owners   *sessionOwners
}

// Limits on sessions.
const (
	defaultTTL = 30 * time.Minute
	maxTTL     = 24 * time.Hour
	maxCalls   = 1_000_000_000
	maxSession = 128 // bytes
)

// sessionBody describes a session to open.
type sessionBody struct {
	Limit string `json:"limitUsd,omitempty" doc:"Budget in US dollars, such as \"0.0025\". Default: nothing, if calls is set."`
	Calls int    `json:"calls,omitempty" minimum:"1" maximum:"1000000000" doc:"Maximum number of calls. Default: unlimited."`
	TTL   string `json:"ttl,omitempty" doc:"How long the session stays open. Default: \"30m\", maximum: \"24h\"."`
}

// session validates the body. A session that only limits the number of calls has no budget, so its
// calls must be free.
func (b sessionBody) session() (s ledger.Session, err error) {
	s = ledger.Session{ID: "ses_" + rand.Text(), Calls: b.Calls, TTL: defaultTTL}
	if b.Limit != "" || b.Calls == 0 {
		if s.Limit, err = toolyard.ParseMoney(b.Limit); err != nil || s.Limit <= 0 {
			return s, issue("limitUsd", `must be an amount greater than zero, in quotes, such as "0.0025"`)
		}
	}
	if s.Calls < 0 || s.Calls > maxCalls {
		return s, issue("calls", "must be between 1 and 1000000000")
	}
	if b.TTL != "" {
		if s.TTL, err = time.ParseDuration(b.TTL); err != nil || s.TTL < time.Second || s.TTL > maxTTL {
			return s, issue("ttl", `must be a duration between "1s" and "24h", such as "30m"`)
		}
	}
	return s, nil
}

// sessionID derives a session's ID from the idempotency key, so that a retry after a lost response
// does not open a second session.
func sessionID(c toolyard.Caller, key string) string {
	sum := sha256.Sum256([]byte(c.Account + "\n" + c.ID + "\n" + key))
	return "ses_" + base32.StdEncoding.EncodeToString(sum[:])[:26]
}

var errNoLedger = notFound("Accounts are not available because no store is configured.")

func (h *sessionHandler) open(r *request) (*reply, error) {
	if h.ledger == nil {
		return nil, errNoLedger
	}
	account, err := accountOf(r.caller)
	if err != nil {
		return nil, err
	}
	body, err := read[sessionBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	s, err := body.session()
	if err != nil {
		return nil, err
	}
	s.Account = account
	key, err := idempotencyKey(r.Header["Idempotency-Key"], "")
	if err != nil {
		return nil, err
	}
	opened := true
	if key != "" {
		s.ID = sessionID(r.caller, key)
		_, err := h.ledger.Balance(r.Context(), s.ID)
		opened = err != nil // otherwise an earlier request opened it
	}
	balance, err := h.ledger.OpenSession(r.Context(), s)
	if err != nil {
		return nil, err
	}
	return &reply{status: http.StatusCreated, location: prefix + "/sessions/" + balance.ID, body: balance, subject: balance.ID, settled: opened}, nil
}

func (h *sessionHandler) get(r *request) (*reply, error) {
	return respond(h.session(r.Context(), r.caller, r.PathValue("id"), identity.Views(r.caller)))
}

func (h *sessionHandler) close(r *request) (*reply, error) {
	balance, err := h.session(r.Context(), r.caller, r.PathValue("id"), identity.Operates(r.caller))
	if err != nil {
		return nil, err
	}
	closed, err := h.ledger.CloseSession(r.Context(), balance.ID)
	if err != nil {
		return nil, err
	}
	return &reply{body: closed, settled: balance.State == ledger.StateOpen}, nil
}

// session returns a session that belongs to the caller's account, or to any account if all is set.
// Sessions of other accounts are reported as unknown, and so are IDs of accounts.
func (h *sessionHandler) session(ctx context.Context, c toolyard.Caller, id string, all bool) (*ledger.Balance, error) {
	if h.ledger == nil {
		return nil, errNoLedger
	}
	account, err := accountOf(c)
	if err != nil && !all {
		return nil, err
	}
	none := notFound("Unknown session.")
	if len(id) > maxSession || !isVisibleASCII(id) {
		return nil, none
	}
	balance, err := h.ledger.Balance(ctx, id)
	if err != nil {
		if problemOf(err).Code == toolyard.NotFound {
			return nil, none
		}
		return nil, err
	}
	if balance.Account != account && !all || balance.ID == balance.Account {
		return nil, none
	}
	h.owners.add(balance)
	return balance, nil
}

// sessionOwners caches which account owns each session. This never changes, so the cache saves
// ledger queries.
type sessionOwners struct {
	mu       sync.Mutex
	accounts map[string]string // by session
}

const maxOwners = 10_000

func (o *sessionOwners) add(p *ledger.Balance) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.accounts == nil || len(o.accounts) >= maxOwners {
		o.accounts = make(map[string]string)
	}
	o.accounts[p.ID] = p.Account
}

// owns reports whether the session is cached and belongs to the account.
func (o *sessionOwners) owns(session, account string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	owner, ok := o.accounts[session]
	return ok && owner == account && account != ""
}

// isVisibleASCII reports whether a string contains only visible ASCII characters.
func isVisibleASCII(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(c byte) bool { return c <= ' ' || c > '~' })
}

type sessionsPage struct {
	Sessions []*ledger.Balance `json:"sessions" doc:"Ordered by expiry, latest first."`
	Next     string            `json:"next,omitempty" doc:"Cursor for the next page: send it as the before parameter."`
}

func (h *sessionHandler) list(r *request) (*reply, error) {
	p := &r.params
	before := p.cursor("before")
	q := store.SessionQuery{
		Account: p.account(r.caller), State: p.word("state", "open", "closed", "expired"),
		Before: store.SessionCursor{Expires: before.At, ID: before.ID}, Limit: p.number("limit", defaultLimit, 1, store.MaxCalls),
	}
	switch {
	case p.err != nil:
		return nil, p.err
	case h.balances == nil:
		return nil, errNoLedger
	}
	list, err := h.balances.Sessions(r.Context(), q)
	next := nextPage(list, q.Limit, func(p *ledger.Balance) (time.Time, string) { return p.Expires, p.ID })
	return respond(sessionsPage{orEmpty(list), next}, err)
}

func (h *sessionHandler) routes() []route {
	balance := answer[ledger.Balance]("Balance")
	return []route{
		{
			method: "POST", path: "/sessions", id: "openSession", summary: "Open a session: a budget for calls, reserved from the caller's account.",
			access: caller, action: "session.open", takes: body[sessionBody]("OpenSession"), gives: balance, keyed: true, status: http.StatusCreated, refusals: []int{400, 402, 404, 409, 413, 429}, serve: h.open,
		},
		{
			method: "GET", path: "/sessions", id: "listSessions", summary: "List sessions by expiry, latest first. Sessions from other accounts require the viewer scope.",
			access: caller, query: slices.Concat([]string{"account", "state"}, pages), gives: answer[sessionsPage]("Sessions"), refusals: []int{400, 404}, serve: h.list,
		},
		{
			method: "GET", path: "/sessions/{id}", id: "getSession", summary: "Get a session. Sessions from other accounts require the viewer scope.",
			access: caller, gives: balance, refusals: []int{404}, serve: h.get,
		},
		{
			method: "POST", path: "/sessions/{id}/close", id: "closeSession", summary: "Close a session. The remaining budget returns to the account.",
			access: caller, action: "session.close", gives: balance, refusals: []int{404, 429}, serve: h.close,
		},
	}
}
