package httpapi

import (
	"context"
	"slices"

	"github.com/toolyard/toolyard/internal/store"
)

// changeHandler serves the audit log.
type changeHandler struct{ changes Changes }

// Limits of a page.
const (
	maxChangeBytes = 1 << 20 // of details
	changesBatch   = 100     // changes per query
)

type changesPage struct {
	Changes []*store.Change `json:"changes"`
	Next    string          `json:"next,omitempty"`
}

func (h *changeHandler) list(r *request) (*reply, error) {
	p := &r.params
	q := store.ChangeQuery{Caller: p.values["caller"], Action: p.values["action"], Subject: p.values["subject"], Before: p.cursor("before"), Limit: p.number("limit", defaultLimit, 1, store.MaxCalls)}
	if p.err != nil {
		return nil, p.err
	}
	list, next, err := h.page(r.Context(), q)
	return respond(changesPage{orEmpty(list), next}, err)
}

// page reads changes up to the requested number or the size limit, and returns the next cursor.
func (h *changeHandler) page(ctx context.Context, q store.ChangeQuery) (list []*store.Change, next string, err error) {
	for size := 0; len(list) < q.Limit; {
		part := q
		part.Limit = min(changesBatch, q.Limit-len(list))
		if n := len(list); n > 0 {
			part.Before = store.Cursor{At: list[n-1].At, ID: list[n-1].ID}
		}
		read, err := h.changes.Changes(ctx, part)
		if err != nil {
			return nil, "", err
		}
		for _, c := range read {
			if size += len(c.Detail); size > maxChangeBytes && len(list) > 0 {
				return list, changesNext(list), nil
			}
			list = append(list, c)
		}
		if len(read) < part.Limit {
			return list, "", nil
		}
	}
	return list, changesNext(list), nil
}

// changesNext returns the cursor after a list of changes.
func changesNext(list []*store.Change) string {
	last := list[len(list)-1]
	return cursorText(last.At, last.ID)
}

func (h *changeHandler) routes() []route {
	return []route{
		{
			method: "GET", path: "/changes", id: "listChanges", summary: "List changes made through the API, newest first.",
			access: viewer, query: slices.Concat([]string{"caller", "action", "subject"}, pages), gives: answer[changesPage]("Changes"), refusals: []int{400}, serve: h.list,
		},
	}
}
