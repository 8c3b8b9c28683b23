package httpapi

import (
	"context"
	"regexp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Links keeps which accounts elsewhere callers have linked.
type Links interface {
	// SetLink links an address as a kind; an empty one removes the link.
	SetLink(ctx context.Context, caller toolyard.Caller, kind, address string) error
	// Links are the addresses that a caller has linked, by kind.
	Links(ctx context.Context, caller toolyard.Caller) (map[string]string, error)
}

// Bounds on links.
const (
	maxLinks   = 32  // of a caller
	maxAddress = 256 // bytes
)

var kindPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// linkBody is what is sent to link an account.
type linkBody struct {
	Address string `json:"address" doc:"The address to link. Its form depends on the kind."`
}

// link is an account elsewhere.
type link struct {
	Kind    string `json:"kind"`
	Address string `json:"address"`
}

type linksPage struct {
	Links map[string]string `json:"links" doc:"Addresses by kind."`
}

// linked is what the caller has linked. Only who is known has links.
func (a *v1) linked(ctx context.Context, c toolyard.Caller) (map[string]string, error) {
	switch {
	case a.Links == nil:
		return nil, notFound("Nothing can be linked here.")
	case !c.Authenticated():
		return nil, errUnknown
	}
	return a.Links.Links(ctx, c)
}

func (a *v1) getLinks(r *request) (*reply, error) {
	links, err := a.linked(r.Context(), r.caller)
	if links == nil {
		links = map[string]string{}
	}
	return done(linksPage{links}, err)
}

func (a *v1) getLink(r *request) (*reply, error) {
	links, err := a.linked(r.Context(), r.caller)
	if err != nil {
		return nil, err
	}
	kind := r.PathValue("kind")
	address, ok := links[kind]
	if !ok {
		return nil, notFound("You have linked no %s.", shown(kind))
	}
	return &reply{body: link{kind, address}}, nil
}

func (a *v1) putLink(r *request) (*reply, error) {
	links, err := a.linked(r.Context(), r.caller)
	if err != nil {
		return nil, err
	}
	body, err := read[linkBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	kind := r.PathValue("kind")
	if err := a.checkLink(kind, body.Address); err != nil {
		return nil, err
	}
	if _, known := links[kind]; !known && len(links) >= maxLinks {
		return nil, invalid("You have linked %d accounts, and more are not kept; remove one first.", len(links))
	}
	if err := a.Links.SetLink(r.Context(), r.caller, kind, body.Address); err != nil {
		return nil, err
	}
	return &reply{body: link{kind, body.Address}}, nil
}

func (a *v1) deleteLink(r *request) (*reply, error) {
	links, err := a.linked(r.Context(), r.caller)
	if err != nil {
		return nil, err
	}
	if kind := r.PathValue("kind"); links[kind] != "" {
		err = a.Links.SetLink(r.Context(), r.caller, kind, "")
	}
	return &reply{}, err
}

func (a *v1) checkLink(kind, address string) error {
	switch {
	case !kindPattern.MatchString(kind):
		return issue("kind", "must be a name such as crm")
	case address == "" || len(address) > maxAddress || untrusted.CheckText(address) != nil:
		return issue("address", "must be a text of at most 256 bytes")
	case a.CheckLink == nil:
		return nil
	}
	if err := a.CheckLink(kind, address); err != nil {
		return issue("address", "is not an address: "+err.Error())
	}
	return nil
}
