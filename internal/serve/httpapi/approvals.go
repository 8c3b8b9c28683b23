package httpapi

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// Approvals decides on calls that need an operator's approval.
type Approvals interface {
	Approval(ctx context.Context, id string) (*store.Approval, error)
	Approvals(context.Context, store.ApprovalQuery) ([]*store.Approval, error)
	// Decide does not allow callers to decide on their own calls.
	Decide(ctx context.Context, id string, by toolyard.Caller, d Decision) (*store.Approval, error)
	Grants(context.Context) ([]*store.Grant, error)
	DeleteGrant(ctx context.Context, id string) error
}

// Decision is an operator's decision on a call.
type Decision struct {
	Approve      bool
	Reason       string
	Remember     time.Duration // exempts further calls for this long; zero exempts none
	AnyArguments bool          // exempts calls with other arguments too
}

type approvalHandler struct{ yard Yard }

// approvalItem is a call that needs or needed approval.
type approvalItem struct {
	ID        string               `json:"id"`
	State     ledger.ApprovalState `json:"state" enum:"pending,approved,declined,used,expired" doc:"approved means that the call can run once."`
	CreatedAt time.Time            `json:"createdAt"`
	ExpiresAt time.Time            `json:"expiresAt" doc:"Until this time, the approval can be decided on and used."`
	approvalCall
	Rule     string            `json:"rule" doc:"The rules that require approval."`
	Message  string            `json:"message,omitempty" doc:"The rules' messages."`
	Decision *approvalDecision `json:"decision,omitempty"`
	UsedBy   string            `json:"usedBy,omitempty" doc:"The call that used the approval."`
	UsedAt   time.Time         `json:"usedAt,omitzero"`
}

// approvalCall is the call that will run.
type approvalCall struct {
	Call      string          `json:"call" doc:"The call that requested the approval."`
	Account   string          `json:"account"`
	Caller    string          `json:"caller"`
	Gate      string          `json:"gate"`
	Server    string          `json:"server,omitempty"`
	Tool      string          `json:"tool"`
	PriceUSD  toolyard.Money  `json:"priceUsd"`
	Arguments json.RawMessage `json:"arguments" doc:"The arguments. Values that may be secrets are omitted."`
	Hidden    int             `json:"hidden" doc:"Number of values that are hidden because they may be secrets."`
	Cut       int             `json:"cut" doc:"Number of values that are shortened because of their size."`
	Digest    string          `json:"digest" doc:"SHA-256 of the call with its exact arguments, to which the approval is bound."`
}

type approvalDecision struct {
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
}

type approvalsPage struct {
	Approvals []approvalItem `json:"approvals" doc:"Newest first."`
	Next      string         `json:"next,omitempty" doc:"Cursor for the next page: send it as the before parameter."`
}

// approveBody is the body of an approval.
type approveBody struct {
	Reason   string        `json:"reason,omitempty" maxLength:"500" doc:"Reason to show to the caller and record in the audit log."`
	Remember *rememberBody `json:"remember,omitempty" doc:"Also exempts the caller's later calls to this tool from ask rules. Deny rules still apply."`
}

type rememberBody struct {
	Minutes   int    `json:"minutes" minimum:"1" maximum:"1440" doc:"How long the exemption lasts, in minutes."`
	Arguments string `json:"arguments" default:"same" enum:"same,any" doc:"Whether the exemption covers only calls with the same arguments (same) or calls with any arguments (any)."`
}

// declineBody is the body of a refusal.
type declineBody struct {
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"Reason to show to the caller and record in the audit log."`
}

type grantsPage struct {
	Grants []grantItem `json:"grants" doc:"Newest first."`
}

// grantItem is a remembered approval.
type grantItem struct {
	ID        string    `json:"id"`
	Account   string    `json:"account"`
	Caller    string    `json:"caller"`
	Gate      string    `json:"gate"`
	Server    string    `json:"server,omitempty"`
	Tool      string    `json:"tool"`
	Arguments string    `json:"arguments" enum:"same,any"`
	Rule      string    `json:"rule"`
	By        string    `json:"by"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt"`
}

var approvalStates = []string{
	string(ledger.ApprovalPending), string(ledger.ApprovalApproved), string(ledger.ApprovalDeclined), string(ledger.ApprovalUsed), string(ledger.ApprovalExpired),
}

// approvalParams are the filters for approvals.
var approvalParams = map[string]object{"state": {"type": "string", "enum": approvalStates, "description": "State of the approvals."}}

var errNoApprovals = notFound("Approvals are not available because no store is configured.")

func newApprovalItem(a *store.Approval) approvalItem {
	u := &a.Subject
	item := approvalItem{
		ID: a.ID, State: a.State, CreatedAt: a.Created, ExpiresAt: a.Expires, Rule: a.Rule.Name, Message: a.Rule.Message, UsedBy: a.UsedBy, UsedAt: a.UsedAt,
		approvalCall: approvalCall{
			Call: a.Call, Account: u.Account, Caller: u.Caller, Gate: u.Gate, Server: u.Server, Tool: u.Tool, PriceUSD: u.Price,
			Arguments: a.Preview, Hidden: a.Hidden, Cut: a.Cut, Digest: u.Arguments,
		},
	}
	if d := a.Decision; !d.At.IsZero() {
		item.Decision = &approvalDecision{d.By, d.At, d.Reason}
	}
	return item
}

// ownAccount returns the account whose approvals a caller may see, or "" for all.
func ownAccount(c toolyard.Caller) (string, error) {
	if identity.Operates(c) {
		return "", nil
	}
	return accountOf(c)
}

func (h *approvalHandler) list(r *request) (*reply, error) {
	p := &r.params
	account, err := ownAccount(r.caller)
	q := store.ApprovalQuery{
		State: ledger.ApprovalState(p.word("state", approvalStates...)), Account: account, Before: p.cursor("before"), Limit: p.number("limit", defaultLimit, 1, store.MaxCalls),
	}
	approvals := h.yard.Approvals()
	switch {
	case err != nil:
		return nil, err
	case p.err != nil:
		return nil, p.err
	case approvals == nil:
		return nil, errNoApprovals
	}
	list, err := approvals.Approvals(r.Context(), q)
	page := approvalsPage{Approvals: []approvalItem{}, Next: nextPage(list, q.Limit, func(a *store.Approval) (time.Time, string) { return a.Created, a.ID })}
	for _, a := range list {
		page.Approvals = append(page.Approvals, newApprovalItem(a))
	}
	return respond(page, err)
}

// find returns the approval in the path if the caller may see it.
func (h *approvalHandler) find(r *request) (*store.Approval, error) {
	id := r.PathValue("id")
	if !isVisibleASCII(id) || len(id) > maxValue {
		return nil, notFound("Unknown approval %q.", shown(id))
	}
	account, err := ownAccount(r.caller)
	if err != nil {
		return nil, err
	}
	approvals := h.yard.Approvals()
	if approvals == nil {
		return nil, errNoApprovals
	}
	a, err := approvals.Approval(r.Context(), id)
	if err == nil && account != "" && a.Subject.Account != account {
		return nil, notFound("Unknown approval %q.", shown(id))
	}
	return a, err
}

func (h *approvalHandler) get(r *request) (*reply, error) {
	a, err := h.find(r)
	if err != nil {
		return nil, err
	}
	return &reply{body: newApprovalItem(a)}, nil
}

func (h *approvalHandler) approve(r *request) (*reply, error) {
	body, err := read[approveBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	d := Decision{Approve: true, Reason: body.Reason}
	if m := body.Remember; m != nil {
		d.Remember, d.AnyArguments = time.Duration(m.Minutes)*time.Minute, m.Arguments == "any"
	}
	return h.decide(r, d)
}

func (h *approvalHandler) decline(r *request) (*reply, error) {
	body, err := read[declineBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	return h.decide(r, Decision{Reason: body.Reason})
}

func (h *approvalHandler) decide(r *request, d Decision) (*reply, error) {
	a, err := h.find(r)
	if err != nil {
		return nil, err
	}
	if a, err = h.yard.Approvals().Decide(r.Context(), a.ID, r.caller, d); err != nil {
		return nil, err
	}
	return &reply{body: newApprovalItem(a)}, nil
}

func (h *approvalHandler) grants(r *request) (*reply, error) {
	approvals := h.yard.Approvals()
	if approvals == nil {
		return nil, errNoApprovals
	}
	list, err := approvals.Grants(r.Context())
	page := grantsPage{Grants: []grantItem{}}
	for _, g := range list {
		u := &g.Subject
		item := grantItem{g.ID, u.Account, u.Caller, u.Gate, u.Server, u.Tool, "same", g.Rule.Name, g.By, g.Created, g.Expires}
		if g.AnyArguments {
			item.Arguments = "any"
		}
		page.Grants = append(page.Grants, item)
	}
	return respond(page, err)
}

func (h *approvalHandler) deleteGrant(r *request) (*reply, error) {
	id, approvals := r.PathValue("id"), h.yard.Approvals()
	switch {
	case approvals == nil:
		return nil, errNoApprovals
	case !isVisibleASCII(id) || len(id) > maxValue:
		return nil, notFound("Unknown grant %q.", shown(id))
	}
	return &reply{}, approvals.DeleteGrant(r.Context(), id)
}

func (h *approvalHandler) routes() []route {
	return []route{
		{
			method: "GET", path: "/approvals", id: "listApprovals", summary: "List calls that require approval, newest first. Approvers see calls for their own account; operators see all calls.",
			access: approver, query: slices.Concat([]string{"state"}, pages), params: approvalParams, gives: answer[approvalsPage]("Approvals"), refusals: []int{400, 404}, serve: h.list,
		},
		{
			method: "GET", path: "/approvals/{id}", id: "getApproval", summary: "Get a call that requires approval.",
			access: approver, gives: answer[approvalItem]("Approval"), refusals: []int{404}, serve: h.get,
		},
		{
			method: "POST", path: "/approvals/{id}/approve", id: "approveCall", summary: "Approve a call, which can then run once with exactly these arguments. A caller cannot approve its own call.",
			access: approver, action: "approval.approve", takes: body[approveBody]("ApproveCall"), gives: answer[approvalItem]("Approval"), refusals: []int{400, 404, 409, 413}, serve: h.approve,
		},
		{
			method: "POST", path: "/approvals/{id}/decline", id: "declineCall", summary: "Decline a call. A caller cannot decline its own call.",
			access: approver, action: "approval.decline", takes: body[declineBody]("DeclineCall"), gives: answer[approvalItem]("Approval"), refusals: []int{400, 404, 409, 413}, serve: h.decline,
		},
		{
			method: "GET", path: "/grants", id: "listGrants", summary: "List remembered approvals that have not expired.",
			access: operator, gives: answer[grantsPage]("Grants"), refusals: []int{404}, serve: h.grants,
		},
		{
			method: "DELETE", path: "/grants/{id}", id: "deleteGrant", summary: "End a remembered approval.",
			access: operator, action: "grant.delete", refusals: []int{404}, status: 204, serve: h.deleteGrant,
		},
	}
}
