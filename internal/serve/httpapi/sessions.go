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
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// Bounds on sessions.
const (
	defaultTTL = 30 * time.Minute
	maxTTL     = 24 * time.Hour
	maxCalls   = 1_000_000_000
	maxSession = 128 // bytes of an id
)

// sessionBody is a session to open.
type sessionBody struct {
	Limit string `json:"limitUsd,omitempty" doc:"What may be spent, in US dollars: \"0.0025\"; nothing when only calls are said."`
	Calls int    `json:"calls,omitempty" minimum:"1" maximum:"1000000000" doc:"How many calls may be made; any number when it is not said."`
	TTL   string `json:"ttl,omitempty" doc:"How long it stays open: \"30m\", which is the default, at most \"24h\"."`
}

// session is the session that the body describes. One that bounds only calls is a turn of
// questions, which costs nothing by the call.
func (b sessionBody) session() (s ledger.Session, err error) {
	s = ledger.Session{ID: "ses_" + rand.Text(), Calls: b.Calls, TTL: defaultTTL}
	if b.Limit != "" || b.Calls == 0 {
		if s.Limit, err = toolyard.ParseMoney(b.Limit); err != nil || s.Limit <= 0 {
			return s, issue("limitUsd", `must be an amount above zero, in quotes, such as "0.0025"`)
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

// sessionID is the same for the same key of a caller, so that a session that is asked for
// again after a lost answer is opened once.
func sessionID(c toolyard.Caller, key string) string {
	sum := sha256.Sum256([]byte(c.Account + "\n" + c.ID + "\n" + key))
	return "ses_" + base32.StdEncoding.EncodeToString(sum[:])[:26]
}

var errNothingForSale = notFound("Nothing is for sale here.")

func (a *v1) openSession(r *request) (*reply, error) {
	if a.Ledger == nil {
		return nil, errNothingForSale
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
		_, err := a.Ledger.Balance(r.Context(), s.ID)
		opened = err != nil // or it was opened before
	}
	purse, err := a.Ledger.OpenSession(r.Context(), s)
	if err != nil {
		return nil, err
	}
	return &reply{status: http.StatusCreated, location: prefix + "/sessions/" + purse.ID, body: purse, subject: purse.ID, paid: opened}, nil
}

func (a *v1) getSession(r *request) (*reply, error) {
	return done(a.session(r.Context(), r.caller, r.PathValue("id"), identity.Views(r.caller)))
}

func (a *v1) closeSession(r *request) (*reply, error) {
	purse, err := a.session(r.Context(), r.caller, r.PathValue("id"), identity.Operates(r.caller))
	if err != nil {
		return nil, err
	}
	closed, err := a.Ledger.CloseSession(r.Context(), purse.ID)
	if err != nil {
		return nil, err
	}
	return &reply{body: closed, paid: purse.State == ledger.StateOpen}, nil
}

func (a *v1) getAccount(r *request) (*reply, error) {
	if a.Ledger == nil {
		return nil, errNothingForSale
	}
	account, err := accountOf(r.caller)
	if err != nil {
		return nil, err
	}
	purse, err := a.account(r.Context(), account)
	if err != nil && toolyard.AsError(err).Code == toolyard.NotFound { // nobody has put money into it yet
		return done(&ledger.Balance{ID: account, Account: account, State: ledger.StateOpen}, nil)
	}
	return done(purse, err)
}

// account is an account as it is now.
func (a *v1) account(ctx context.Context, account string) (*ledger.Balance, error) {
	purse, err := a.Ledger.Balance(ctx, account)
	if err == nil && purse.ID != purse.Account { // the account is named as somebody's session is
		err = notFound("There is no account %q.", account)
	}
	return purse, err
}

// session is a session of the caller's account, or any for who may deal with all. That of
// another account is not there, and neither is an account.
func (a *v1) session(ctx context.Context, c toolyard.Caller, id string, all bool) (*ledger.Balance, error) {
	if a.Ledger == nil {
		return nil, errNothingForSale
	}
	account, err := accountOf(c)
	if err != nil && !all {
		return nil, err
	}
	none := notFound("You have no such session.")
	if len(id) > maxSession || !isPlain(id) {
		return nil, none
	}
	purse, err := a.Ledger.Balance(ctx, id)
	if err != nil {
		if problemOf(err).Code == toolyard.NotFound {
			return nil, none
		}
		return nil, err
	}
	if purse.Account != account && !all || purse.ID == purse.Account {
		return nil, none
	}
	a.owners.learn(purse)
	return purse, nil
}

// executing is the gate for execution with a name, or the first one for no name.
func (a *v1) executing(name string) (*gates.Gate, error) {
	var all []*gates.Gate
	if a.Gates != nil {
		all = a.Gates()
	}
	i := slices.IndexFunc(all, func(g *gates.Gate) bool {
		if name == "" {
			return g.Surface == toolyard.Execute
		}
		return g.Name == name && g.Surface != toolyard.Answer
	})
	switch {
	case i >= 0:
		return all[i], nil
	case name == "":
		return nil, notFound("No gate here is for execution.")
	}
	return nil, notFound("There is no gate %q for execution.", shown(name))
}

// owners remembers which account a session belongs to, which never changes, so that not
// every call asks the ledger.
type owners struct {
	mu sync.Mutex
	of map[string]string
}

const maxOwners = 10_000

func (o *owners) learn(p *ledger.Balance) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil || len(o.of) >= maxOwners {
		o.of = make(map[string]string)
	}
	o.of[p.ID] = p.Account
}

// owns reports whether the session is known to belong to the account.
func (o *owners) owns(session, account string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	owner, ok := o.of[session]
	return ok && owner == account && account != ""
}

// isPlain reports whether a text has only visible characters of ASCII.
func isPlain(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(c byte) bool { return c <= ' ' || c > '~' })
}
