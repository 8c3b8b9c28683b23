package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/identity"
)

// Keys keeps API keys.
type Keys interface {
	Keys(context.Context) ([]identity.Key, error)
	PutKey(context.Context, identity.Key) error
	RevokeKey(ctx context.Context, prefix string, at time.Time) error
}

type keysPage struct {
	Keys []identity.Entry `json:"keys"`
}

// keyBody is a key to be made.
type keyBody struct {
	Name    string   `json:"name" minLength:"1" maxLength:"128" doc:"What it is for."`
	Caller  string   `json:"caller" minLength:"1" maxLength:"128" doc:"Who calls with it."`
	Account string   `json:"account,omitempty" maxLength:"128" doc:"Who pays; the caller when it is not said."`
	Scopes  []string `json:"scopes,omitempty" maxItems:"64" doc:"gate:NAME, gate:*, write, viewer, operator."`
	TTL     string   `json:"ttl,omitempty" doc:"How long it is good for, such as 720h; for ever when it is not said."`
}

// madeKey is a new key and its token, which is shown this once.
type madeKey struct {
	Key   identity.Entry `json:"key"`
	Token string         `json:"token"`
}

var errNoKeys = notFound("There are no API keys here; the configuration would have to name a store, or a gate with callers: keys.")

func (a *v1) getKeys(r *request) (*reply, error) {
	if a.Keys == nil {
		return nil, errNoKeys
	}
	keys, err := a.Keys.Keys(r.Context())
	page := keysPage{Keys: []identity.Entry{}}
	for _, k := range keys {
		page.Keys = append(page.Keys, k.Entry(a.Now()))
	}
	return done(page, err)
}

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
