package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// Keys keeps API keys.
type Keys interface {
	KeyPage(context.Context, store.KeyQuery) ([]identity.Key, error)
	PutKey(context.Context, identity.Key) error
	RevokeKey(ctx context.Context, prefix string, at time.Time) error
}

// keyParams are parameters that select keys.
var keyParams = map[string]object{
	"q":       text("Only keys with this in their prefix, name, caller or account, whatever the case of ASCII letters."),
	"account": text("Only keys of this account."),
	"caller":  text("Only keys of this caller."),
	"state":   {"type": "string", "enum": keyStates, "description": "Only keys in this state."},
}

var keyStates = []string{string(identity.Active), string(identity.Expired), string(identity.Revoked)}

type keysPage struct {
	Keys []identity.Entry `json:"keys" doc:"The newest first."`
	Next string           `json:"next,omitempty" doc:"To be sent as before, to go on."`
}

// keyBody is a key to be made.
type keyBody struct {
	Name    string   `json:"name" minLength:"1" maxLength:"128" doc:"What it is for."`
	Caller  string   `json:"caller" minLength:"1" maxLength:"128" doc:"Who calls with it."`
	Account string   `json:"account,omitempty" maxLength:"128" doc:"Who pays; the caller when it is not said."`
	Scopes  []string `json:"scopes,omitempty" maxItems:"64" doc:"gate:NAME, gate:*, write, all, viewer, operator. Without any, the key may read at every gate."`
	TTL     string   `json:"ttl,omitempty" doc:"How long it is good for, such as 720h; for ever when it is not said."`
}

// madeKey is a new key and its token, which is shown this once.
type madeKey struct {
	Key   identity.Entry `json:"key"`
	Token string         `json:"token"`
}

var errNoKeys = notFound("This yard keeps no API keys, because its configuration names no store. Add store: sqlite:toolyard.db or store: postgres://user@host/database to it and restart it.")

func (a *v1) getKeys(r *request) (*reply, error) {
	p := &r.params
	q := store.KeyQuery{
		Account: p.values["account"], Caller: p.values["caller"], Part: p.values["q"],
		State: identity.State(p.word("state", keyStates...)), Now: a.Now(),
		Before: p.cursor("before"), Limit: p.number("limit", defaultLimit, 1, store.MaxCalls),
	}
	if q.Before.ID != "" && !identity.CheckPrefix(q.Before.ID) {
		p.fail(errNoPlace)
	}
	switch {
	case p.err != nil:
		return nil, p.err
	case a.Keys == nil:
		return nil, errNoKeys
	}
	keys, err := a.Keys.KeyPage(r.Context(), q)
	page := keysPage{Keys: []identity.Entry{}, Next: nextPage(keys, q.Limit, func(k identity.Key) (time.Time, string) { return k.Created, k.Prefix })}
	for _, k := range keys {
		page.Keys = append(page.Keys, k.Entry(a.Now()))
	}
	return done(page, err)
}

// errNoPlace refuses what is a cursor, but of another list.
var errNoPlace = issue("before", "must be what next was on another page")

func (a *v1) makeKey(r *request) (*reply, error) {
	if a.Keys == nil {
		return nil, errNoKeys
	}
	body, err := read[keyBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	var ttl time.Duration
	if body.TTL != "" {
		if ttl, err = time.ParseDuration(body.TTL); err != nil || ttl <= 0 {
			return nil, issue("ttl", "must be a time such as 720h")
		}
	}
	key, token, err := identity.New(body.Name, body.Caller, body.Account, body.Scopes, ttl, a.Now())
	if err != nil {
		return nil, invalid("%s.", strings.TrimSuffix(err.Error(), "."))
	}
	if err := a.Keys.PutKey(r.Context(), key); err != nil {
		return nil, err
	}
	return &reply{status: http.StatusCreated, body: madeKey{key.Entry(a.Now()), token}, subject: key.Prefix}, nil
}

func (a *v1) revokeKey(r *request) (*reply, error) {
	if a.Keys == nil {
		return nil, errNoKeys
	}
	prefix := r.PathValue("prefix")
	if !isPlain(prefix) || len(prefix) > maxValue {
		return nil, notFound("There is no key %s.", shown(prefix))
	}
	return &reply{}, a.Keys.RevokeKey(r.Context(), prefix, a.Now())
}
