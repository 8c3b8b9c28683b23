package httpapi

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// PeopleOptions configures the people and their sign-in.
type PeopleOptions struct {
	Store   People  // may be nil
	Issuers Issuers // may be nil
}

// People stores the people who have called tools or signed in.
type People interface {
	People(context.Context, store.PersonQuery) ([]*store.Person, error)
	// BlockPerson blocks a person, even one not seen before.
	BlockPerson(ctx context.Context, caller string, b store.Block) (*store.Person, error)
	UnblockPerson(ctx context.Context, caller string) (*store.Person, error)
	// DeleteCaller deletes a caller's data, in one account or in all accounts.
	DeleteCaller(ctx context.Context, account, caller string) (*store.Deletion, error)
}

// personHandler serves people.
type personHandler struct {
	PeopleOptions
	now func() time.Time
}

// personItem is a person.
type personItem struct {
	Caller  string    `json:"caller" doc:"ID of the caller: the issuer's name, a colon and the subject."`
	Issuer  string    `json:"issuer"`
	Name    string    `json:"name,omitempty"`
	Email   string    `json:"email,omitempty"`
	Groups  []string  `json:"groups" doc:"Groups in the last token."`
	FirstAt time.Time `json:"firstAt,omitzero" doc:"When the person was first seen."`
	SeenAt  time.Time `json:"seenAt,omitzero" doc:"When the person was last seen, accurate to about 10 minutes."`
	personRights
	Blocked *personBlock `json:"blocked,omitempty"`
}

// personRights are the rights that the rules currently grant.
type personRights struct {
	Role    string   `json:"role" enum:"operator,viewer,caller,none" doc:"none: no access rule matches the person's groups."`
	Gates   []string `json:"gates" doc:"Gates that access rules grant; * for all. A token with fewer scopes grants less."`
	Write   bool     `json:"write"`
	Account string   `json:"account,omitempty" doc:"Account that pays for calls."`
}

type personBlock struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
}

type peoplePage struct {
	People []personItem `json:"people" doc:"Most recently seen first."`
	Next   string       `json:"next,omitempty" doc:"Cursor for the next page: send it as the before parameter."`
}

// blockBody is the body of a request to block a person.
type blockBody struct {
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"Reason to show to other operators."`
}

var personStates = []string{"active", "blocked"}

// personParams are the filters for people.
var personParams = map[string]object{
	"q":      text("Text to find in a person's ID, name or email address. ASCII case is ignored."),
	"issuer": text("Name of the issuer."),
	"state":  {"type": "string", "enum": personStates, "description": "Whether the people are blocked."},
}

var errNoPeople = notFound("People are not recorded because no store is configured. Add store: sqlite:toolyard.db or store: postgres://user@host/database to the configuration and restart the yard.")

func (h *personHandler) item(p *store.Person) personItem {
	item := personItem{
		Caller: p.Caller, Issuer: p.Issuer, Name: p.Name, Email: p.Email, Groups: orEmpty(p.Groups), FirstAt: p.First, SeenAt: p.Seen,
		personRights: personRights{Role: "none", Gates: []string{}},
	}
	if !p.Block.At.IsZero() {
		item.Blocked = &personBlock{p.Block.At, p.Block.By, p.Block.Reason}
	}
	if h.Issuers == nil {
		return item
	}
	rights := h.Issuers.RightsOf(p.Issuer, p.Groups)
	if len(rights.Rules) == 0 {
		return item
	}
	item.Role, item.Gates, item.Write, item.Account = "caller", orEmpty(rights.Gates), rights.Write, rights.Account
	if rights.Role != "" {
		item.Role = rights.Role
	}
	return item
}

func (h *personHandler) list(r *request) (*reply, error) {
	p := &r.params
	q := store.PersonQuery{
		Part: p.values["q"], Issuer: p.values["issuer"], State: p.word("state", personStates...),
		Before: p.cursor("before"), Limit: p.number("limit", defaultLimit, 1, store.MaxCalls),
	}
	switch {
	case p.err != nil:
		return nil, p.err
	case h.Store == nil:
		return nil, errNoPeople
	}
	people, err := h.Store.People(r.Context(), q)
	page := peoplePage{People: []personItem{}, Next: nextPage(people, q.Limit, func(p *store.Person) (time.Time, string) { return p.Position() })}
	for _, p := range people {
		page.People = append(page.People, h.item(p))
	}
	return respond(page, err)
}

// caller returns the caller in the path. It must be a person known from an issuer; API keys are
// revoked instead.
func (h *personHandler) caller(r *request) (string, error) {
	id := r.PathValue("caller")
	if h.Store == nil {
		return "", errNoPeople
	}
	if issuer, subject, ok := strings.Cut(id, ":"); identity.CheckID(id) != nil || !ok || issuer == "" || subject == "" {
		return "", notFound("Unknown person %q. A person's ID is the issuer name, a colon and the subject.", shown(id))
	}
	return id, nil
}

func (h *personHandler) block(r *request) (*reply, error) {
	id, err := h.caller(r)
	if err != nil {
		return nil, err
	}
	body, err := read[blockBody](r, smallBody)
	switch {
	case err != nil:
		return nil, err
	case id == r.caller.ID:
		return nil, toolyard.Errorf(toolyard.Invalid, "You cannot block yourself.")
	}
	p, err := h.Store.BlockPerson(r.Context(), id, store.Block{At: h.now(), By: r.caller.ID, Reason: body.Reason})
	if err != nil {
		return nil, err
	}
	return &reply{body: h.item(p)}, nil
}

func (h *personHandler) unblock(r *request) (*reply, error) {
	id, err := h.caller(r)
	if err != nil {
		return nil, err
	}
	p, err := h.Store.UnblockPerson(r.Context(), id)
	if err != nil {
		return nil, err
	}
	return &reply{body: h.item(p)}, nil
}

// deletionItem is the report of a deletion.
type deletionItem struct {
	Caller    string           `json:"caller"`
	Pseudonym string           `json:"pseudonym" doc:"Replaces the ID of the caller in recorded calls and in the ledger."`
	Deleted   map[string]int64 `json:"deleted" doc:"Number of deleted rows, by table."`
	Kept      map[string]int64 `json:"kept" doc:"Number of rows that are kept under the pseudonym, by table. Their arguments and messages are deleted."`
}

// deleteCaller deletes the data of a person, or of a caller that uses API keys.
func (h *personHandler) deleteCaller(r *request) (*reply, error) {
	id := r.PathValue("caller")
	switch {
	case h.Store == nil:
		return nil, errNoPeople
	case identity.CheckID(id) != nil:
		return nil, notFound("Unknown caller %q.", shown(id))
	case id == r.caller.ID:
		return nil, toolyard.Errorf(toolyard.Invalid, "You cannot delete your own data. Ask another operator to do it.")
	}
	d, err := h.Store.DeleteCaller(r.Context(), r.params.values["account"], id)
	if err != nil {
		return nil, err
	}
	return &reply{body: deletionItem{id, d.Pseudonym, d.Deleted, d.Kept}}, nil
}

// deletionParams are the parameters of a deletion.
var deletionParams = map[string]object{"account": text("The caller's account, if several accounts have a caller with this ID.")}

func (h *personHandler) routes() []route {
	return []route{
		{
			method: "DELETE", path: "/callers/{caller}", id: "deleteCaller", summary: "Delete a caller's data: keys, connections, links, results, queries, approvals, the person's record, and the arguments of recorded calls. Recorded calls and the ledger are kept under a pseudonym.",
			access: operator, action: "caller.delete", query: []string{"account"}, params: deletionParams, gives: answer[deletionItem]("Deletion"), refusals: []int{400, 404}, long: true, serve: h.deleteCaller,
		},
		{
			method: "GET", path: "/people", id: "listPeople", summary: "List the people who called tools with an access token or signed in to the console, most recently seen first.",
			access: viewer, query: slices.Concat([]string{"q", "issuer", "state"}, pages), params: personParams, gives: answer[peoplePage]("People"), refusals: []int{400, 404}, serve: h.list,
		},
		{
			method: "POST", path: "/people/{caller}/block", id: "blockPerson", summary: "Block a person. The person's access tokens and sign-ins are refused within 30 seconds on every replica; API keys are not affected.",
			access: operator, action: "person.block", takes: body[blockBody]("BlockPerson"), gives: answer[personItem]("Person"), refusals: []int{400, 404, 413}, serve: h.block,
		},
		{
			method: "POST", path: "/people/{caller}/unblock", id: "unblockPerson", summary: "Unblock a person.",
			access: operator, action: "person.unblock", gives: answer[personItem]("Person"), refusals: []int{404}, serve: h.unblock,
		},
	}
}
