package httpapi

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/control/auditlog"
	"github.com/toolyard/toolyard/internal/store"
)

// changeHandler serves the audit log.
type changeHandler struct {
	changes Changes
	exports chan struct{} // holds a token for each running export
	now     func() time.Time
}

// maxExports is the maximum number of concurrent audit log exports.
const maxExports = 4

// Limits on a page.
const (
	maxChangeBytes = 1 << 20 // total size of the details
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

// export streams the audit log. If it fails halfway, it closes the connection before the response
// is complete, so that the client notices.
func (h *changeHandler) export(r *request) (*reply, error) {
	p := &r.params
	format := cmp.Or(p.word("format", auditlog.Formats...), auditlog.JSONL)
	o := auditlog.Options{Since: p.time("since", time.Time{}), Until: p.time("until", h.now())}
	if p.err != nil {
		return nil, p.err
	}
	select {
	case h.exports <- struct{}{}:
		defer func() { <-h.exports }()
	default:
		return nil, &toolyard.Error{Code: toolyard.Unavailable, Message: "Too many exports are running. Try again later.", RetryAfter: keepalive}
	}
	header := r.w.Header()
	header.Set("Content-Type", map[string]string{auditlog.JSONL: "application/jsonl", auditlog.CSV: "text/csv; charset=utf-8"}[format])
	header.Set("Content-Disposition", `attachment; filename="audit.`+format+`"`)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	r.w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil, nil
	}
	sink, err := auditlog.NewWriter(&patientWriter{r.w, http.NewResponseController(r.w)}, format)
	if err == nil {
		_, err = auditlog.Export(r.Context(), h.changes, o, sink)
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil, nil
}

// patientWriter sets a new deadline for each write, instead of one for the whole response.
type patientWriter struct {
	w       io.Writer
	control *http.ResponseController
}

func (w *patientWriter) Write(data []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTime)) // not supported by test recorders
	return w.w.Write(data)
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

// exportParams are the parameters of exports.
var exportParams = map[string]object{
	"format": {"type": "string", "enum": auditlog.Formats, "default": auditlog.JSONL, "description": "Format. In CSV, cells that a spreadsheet would evaluate start with an apostrophe."},
	"since":  {"type": "string", "format": "date-time", "description": "Only changes at or after this time."},
	"until":  {"type": "string", "format": "date-time", "description": "Only changes before this time. Default: now."},
}

var exportShape = &shape{"AuditLog", "application/jsonl", func() object {
	return object{"type": "string", "description": "One change per line, in the same format as the list of changes. text/csv with format=csv."}
}}

func (h *changeHandler) routes() []route {
	return []route{
		{
			method: "GET", path: "/changes", id: "listChanges", summary: "List changes made through the API, newest first.",
			access: viewer, query: slices.Concat([]string{"caller", "action", "subject"}, pages), gives: answer[changesPage]("Changes"), refusals: []int{400}, serve: h.list,
		},
		{
			method: "GET", path: "/changes/export", id: "exportChanges", summary: "Export the audit log, oldest first, as JSON lines or CSV.",
			access: viewer, query: []string{"format", "since", "until"}, params: exportParams, gives: exportShape, refusals: []int{400}, long: true, serve: h.export,
		},
	}
}
