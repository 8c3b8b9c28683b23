package httpapi

import "time"

// issuerHandler serves the issuers of access tokens.
type issuerHandler struct{ issuers Issuers } // nil for none

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

func (h *issuerHandler) routes() []route {
	return []route{{
		method: "GET", path: "/issuers", id: "listIssuers", summary: "List the issuers of access tokens, with the state of their keys on this replica.",
		access: viewer, gives: answer[issuersList]("Issuers"), serve: h.list,
	}}
}
