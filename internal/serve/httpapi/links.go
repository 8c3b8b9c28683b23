package httpapi

import (
	"context"
	"net/http"
	"regexp"

	"github.com/toolyard/toolyard"
)

// Links stores the external accounts that callers have linked.
type Links interface {
	// SetLink links an address under a kind. An empty address removes the link.
	SetLink(ctx context.Context, caller toolyard.Caller, kind, address string) error
	// Links returns a caller's linked addresses by kind.
	Links(ctx context.Context, caller toolyard.Caller) (map[string]string, error)
}

// linkHandler serves the caller's linked accounts.
type linkHandler struct {
	links Links // may be nil
	check func(kind, address string) error
}

const maxLinks = 32 // per caller

var kindPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// linkBody is the body of a request to link an account.
type linkBody struct {
	Address string `json:"address" doc:"Address of the account. Its format depends on the kind."`
}

// link is a linked account.
type link struct {
	Kind    string `json:"kind"`
	Address string `json:"address"`
}

type linksPage struct {
	Links map[string]string `json:"links" doc:"Addresses by kind."`
}

// linked returns an authenticated caller's links.
func (h *linkHandler) linked(ctx context.Context, c toolyard.Caller) (map[string]string, error) {
	switch {
	case h.links == nil:
		return nil, notFound("Linked accounts are not available because no store is configured.")
	case !c.Authenticated():
		return nil, errUnauthenticated
	}
	return h.links.Links(ctx, c)
}

func (h *linkHandler) list(r *request) (*reply, error) {
	links, err := h.linked(r.Context(), r.caller)
	if links == nil {
		links = map[string]string{}
	}
	return respond(linksPage{links}, err)
}

func (h *linkHandler) get(r *request) (*reply, error) {
	links, err := h.linked(r.Context(), r.caller)
	if err != nil {
		return nil, err
	}
	kind := r.PathValue("kind")
	address, ok := links[kind]
	if !ok {
		return nil, notFound("You have not linked an account of kind %q.", shown(kind))
	}
	return &reply{body: link{kind, address}}, nil
}

func (h *linkHandler) put(r *request) (*reply, error) {
	links, err := h.linked(r.Context(), r.caller)
	if err != nil {
		return nil, err
	}
	body, err := read[linkBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	kind := r.PathValue("kind")
	if err := h.checkLink(kind, body.Address); err != nil {
		return nil, err
	}
	if _, known := links[kind]; !known && len(links) >= maxLinks {
		return nil, invalid("You have reached the limit of %d linked accounts. Remove one first.", len(links))
	}
	if err := h.links.SetLink(r.Context(), r.caller, kind, body.Address); err != nil {
		return nil, err
	}
	return &reply{body: link{kind, body.Address}}, nil
}

func (h *linkHandler) remove(r *request) (*reply, error) {
	links, err := h.linked(r.Context(), r.caller)
	if err != nil {
		return nil, err
	}
	if kind := r.PathValue("kind"); links[kind] != "" {
		err = h.links.SetLink(r.Context(), r.caller, kind, "")
	}
	return &reply{}, err
}

func (h *linkHandler) checkLink(kind, address string) error {
	if !kindPattern.MatchString(kind) {
		return issue("kind", "must be a name such as crm")
	}
	if err := h.check(kind, address); err != nil {
		return issue("address", "is not valid: "+err.Error())
	}
	return nil
}

func (h *linkHandler) routes() []route {
	return []route{
		{method: "GET", path: "/links", id: "listLinks", summary: "List the caller's linked accounts.", access: caller, gives: answer[linksPage]("Links"), refusals: []int{404}, serve: h.list},
		{method: "GET", path: "/links/{kind}", id: "getLink", summary: "Get the caller's linked account of a kind.", access: caller, gives: answer[link]("Link"), refusals: []int{404}, serve: h.get},
		{
			method: "PUT", path: "/links/{kind}", id: "setLink", summary: "Link an external account.",
			access: caller, action: "link.set", takes: body[linkBody]("SetLink"), gives: answer[link]("Link"), refusals: []int{400, 404, 413, 429}, serve: h.put,
		},
		{
			method: "DELETE", path: "/links/{kind}", id: "removeLink", summary: "Remove a link, if it exists.",
			access: caller, action: "link.remove", status: http.StatusNoContent, refusals: []int{404, 429}, serve: h.remove,
		},
	}
}
