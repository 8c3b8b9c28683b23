package httpapi

import (
	"encoding/json"
	"time"

	"github.com/toolyard/toolyard"
)

// issuerHandler serves the issuers of access tokens.
type issuerHandler struct{ issuers Issuers } // may be nil

// IssuerItem is an issuer and the state of its keys on this replica.
type IssuerItem struct {
	Name        string    `json:"name"`
	URL         string    `json:"url" doc:"The issuer identifier."`
	Rules       int       `json:"rules" doc:"Number of access rules."`
	SignIn      bool      `json:"signIn" doc:"Whether people can sign in to the console with it."`
	RedirectURI string    `json:"redirectUri,omitempty" doc:"The redirect URI to register with the issuer."`
	Keys        []string  `json:"keys" doc:"IDs of the keys that verify tokens."`
	FetchedAt   time.Time `json:"fetchedAt,omitzero" doc:"When the keys were last fetched. Absent before the first use."`
	AttemptedAt time.Time `json:"attemptedAt,omitzero"`
	Error       string    `json:"error,omitempty" doc:"Why the last fetch failed."`
}

type issuersList struct {
	Issuers []IssuerItem `json:"issuers" doc:"Ordered by name."`
}

func (h *issuerHandler) list(*request) (*reply, error) {
	list := issuersList{Issuers: []IssuerItem{}}
	if h.issuers != nil {
		list.Issuers = orEmpty(h.issuers.States())
	}
	return &reply{body: list}, nil
}

// claimsBody is the body of a request to check claims.
type claimsBody struct {
	Claims json.RawMessage `json:"claims" doc:"The claims of an access token: the decoded payload as an object. Never send the token itself."`
}

// ClaimsCheck shows what a token with the given claims would be allowed to do.
type ClaimsCheck struct {
	Refused string           `json:"refused,omitempty" doc:"The check that fails and why, such as RULE: no access rule matches. Absent if the claims identify a caller."`
	Issuer  string           `json:"issuer,omitempty"`
	Caller  string           `json:"caller,omitempty"`
	Account string           `json:"account,omitempty"`
	Rules   []int            `json:"rules" doc:"The access rules of the issuer that match, counted from 1."`
	Role    string           `json:"role,omitempty" enum:"operator,viewer" doc:"Role in the console and the API, given the scopes. Absent if there is none."`
	Write   bool             `json:"write" doc:"Whether the caller can use gates with mode write, given the scopes."`
	Targets []ClaimsAtTarget `json:"targets" doc:"The gates that accept access tokens, and the HTTP API."`
}

// ClaimsAtTarget shows whether a token is accepted at a gate or by the HTTP API.
type ClaimsAtTarget struct {
	Gate     string `json:"gate,omitempty" doc:"Absent for the HTTP API."`
	Resource string `json:"resource"`
	Refused  string `json:"refused,omitempty" doc:"Why the token is refused. Absent if it is accepted."`
}

var errNoIssuerToCheck = notFound("No issuer is configured. Add one under issuers.")

func (h *issuerHandler) check(r *request) (*reply, error) {
	body, err := read[claimsBody](r, smallBody)
	switch {
	case err != nil:
		return nil, err
	case h.issuers == nil || len(h.issuers.States()) == 0:
		return nil, errNoIssuerToCheck
	case len(body.Claims) == 0 || body.Claims[0] != '{':
		return nil, toolyard.Errorf(toolyard.Invalid, "claims must be the decoded payload of a token, as a JSON object. Never send the token itself.")
	}
	result := h.issuers.CheckClaims(r.Context(), body.Claims)
	result.Rules, result.Targets = orEmpty(result.Rules), orEmpty(result.Targets)
	return &reply{body: result}, nil
}

func (h *issuerHandler) routes() []route {
	return []route{{
		method: "POST", path: "/issuers/check", id: "checkClaims", summary: "Explain what an access token with the given claims would allow. Nothing is stored.",
		access: viewer, takes: body[claimsBody]("Claims"), gives: answer[ClaimsCheck]("ClaimsCheck"), refusals: []int{400, 404, 413}, serve: h.check,
	}, {
		method: "GET", path: "/issuers", id: "listIssuers", summary: "List access token issuers, with the state of their keys on this replica.",
		access: viewer, gives: answer[issuersList]("Issuers"), serve: h.list,
	}}
}
