package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// Keys stores API keys.
type Keys interface {
	KeyPage(context.Context, store.KeyQuery) ([]identity.Key, error)
	PutKey(context.Context, identity.Key) error
	RevokeKey(ctx context.Context, prefix string, at time.Time) error
}

// keyHandler serves API keys.
type keyHandler struct {
	keys Keys // may be nil
	now  func() time.Time
}

// keyParams are the filters for keys.
var keyParams = map[string]object{
	"q":       text("Text to find in a key's prefix, name, caller or account. ASCII case is ignored."),
	"account": text("Account of the keys."),
	"caller":  text("Caller of the keys."),
	"state":   {"type": "string", "enum": keyStates, "description": "State of the keys."},
}

var keyStates = []string{string(identity.Active), string(identity.Expired), string(identity.Revoked)}

type keysPage struct {
	Keys []identity.Entry `json:"keys" doc:"Newest first."`
	Next string           `json:"next,omitempty" doc:"Cursor for the next page: send it as the before parameter."`
}

// keyBody describes a key to create.
type keyBody struct {
	Name    string   `json:"name" minLength:"1" maxLength:"128" doc:"Purpose of the key."`
	Caller  string   `json:"caller" minLength:"1" maxLength:"128" doc:"Caller that the key identifies."`
	Account string   `json:"account,omitempty" maxLength:"128" doc:"Account to charge. Default: the caller."`
	Scopes  []string `json:"scopes,omitempty" maxItems:"64" doc:"gate:NAME, gate:*, write, all, viewer, approver, operator. A key that has no scopes can call read-only tools at every gate."`
	TTL     string   `json:"ttl,omitempty" doc:"Lifetime, such as 720h. Default: unlimited."`
}

// createdKey is a new key and its token. The token is shown only once.
type createdKey struct {
	Key   identity.Entry `json:"key"`
	Token string         `json:"token"`
}

var errNoKeys = notFound("API keys are not available because no store is configured. Add store: sqlite:toolyard.db or store: postgres://user@host/database to the configuration and restart the yard.")

func (h *keyHandler) list(r *request) (*reply, error) {
	p := &r.params
	q := store.KeyQuery{
		Account: p.values["account"], Caller: p.values["caller"], Part: p.values["q"],
		State: identity.State(p.word("state", keyStates...)), Now: h.now(),
		Before: p.cursor("before"), Limit: p.number("limit", defaultLimit, 1, store.MaxCalls),
	}
	if q.Before.ID != "" && !identity.CheckPrefix(q.Before.ID) {
		p.fail(errForeignCursor)
	}
	switch {
	case p.err != nil:
		return nil, p.err
	case h.keys == nil:
		return nil, errNoKeys
	}
	keys, err := h.keys.KeyPage(r.Context(), q)
	page := keysPage{Keys: []identity.Entry{}, Next: nextPage(keys, q.Limit, func(k identity.Key) (time.Time, string) { return k.Created, k.Prefix })}
	for _, k := range keys {
		page.Keys = append(page.Keys, k.Entry(h.now()))
	}
	return respond(page, err)
}

// errForeignCursor is the error for a cursor from another list.
var errForeignCursor = issue("before", "must be the next cursor from a previous page")

func (h *keyHandler) create(r *request) (*reply, error) {
	if h.keys == nil {
		return nil, errNoKeys
	}
	body, err := read[keyBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	var ttl time.Duration
	if body.TTL != "" {
		if ttl, err = time.ParseDuration(body.TTL); err != nil || ttl <= 0 {
			return nil, issue("ttl", "must be a duration such as 720h")
		}
	}
	key, token, err := identity.New(body.Name, body.Caller, body.Account, body.Scopes, ttl, h.now())
	if err != nil {
		return nil, invalid("%s.", strings.TrimSuffix(err.Error(), "."))
	}
	if err := h.keys.PutKey(r.Context(), key); err != nil {
		return nil, err
	}
	return &reply{status: http.StatusCreated, body: createdKey{key.Entry(h.now()), token}, subject: key.Prefix}, nil
}

func (h *keyHandler) revoke(r *request) (*reply, error) {
	if h.keys == nil {
		return nil, errNoKeys
	}
	prefix := r.PathValue("prefix")
	if !isVisibleASCII(prefix) || len(prefix) > maxValue {
		return nil, notFound("Unknown key %q.", shown(prefix))
	}
	return &reply{}, h.keys.RevokeKey(r.Context(), prefix, h.now())
}

func (h *keyHandler) routes() []route {
	return []route{
		{
			method: "GET", path: "/keys", id: "listKeys", summary: "List API keys without their secrets, newest first.",
			access: viewer, query: slices.Concat([]string{"q", "account", "caller", "state"}, pages), params: keyParams, gives: answer[keysPage]("Keys"), refusals: []int{400, 404}, serve: h.list,
		},
		{
			method: "POST", path: "/keys", id: "createKey", summary: "Create an API key. Its token is returned only once.",
			access: operator, action: "key.create", takes: body[keyBody]("CreateKey"), gives: answer[createdKey]("CreatedKey"), status: http.StatusCreated, refusals: []int{400, 404, 409, 413}, serve: h.create,
		},
		{
			method: "DELETE", path: "/keys/{prefix}", id: "revokeKey", summary: "Revoke an API key.",
			access: operator, action: "key.revoke", status: http.StatusNoContent, refusals: []int{404}, serve: h.revoke,
		},
	}
}
