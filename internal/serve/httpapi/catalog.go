package httpapi

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/sources/toolterms"
)

// Entry is a tool in the catalog.
type Entry struct {
	Name         string                     `json:"name"`
	Title        string                     `json:"title,omitempty"`
	Category     string                     `json:"category"`
	Description  string                     `json:"description"`
	UIHint       string                     `json:"uiHint,omitempty"`
	Modes        []toolyard.Mode            `json:"modes"`
	Server       string                     `json:"server,omitempty"`
	Origin       string                     `json:"origin,omitempty"`
	Down         bool                       `json:"down,omitempty"` // its server is unavailable
	InputSchema  json.RawMessage            `json:"inputSchema"`
	OutputSchema json.RawMessage            `json:"outputSchema,omitempty"`
	Meta         map[string]json.RawMessage `json:"_meta,omitempty"` // declared by the tool

	toolterms.Effective // terms after applying the operator's
}

// Catalog serves a gate's tools as a JSON array. The query parameter gate selects the gate; without
// it, the default gate is used. down returns the unavailable servers.
func Catalog(view func(gate string) (*gates.View, bool), down func() []string) http.Handler {
	var encoded sync.Map // *page by gate
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, ok := view(r.URL.Query().Get("gate"))
		if !ok {
			http.Error(w, "unknown gate", http.StatusNotFound)
			return
		}
		unavailable := down()
		body, ok := encoded.Load(v.Gate.Name)
		if !ok || body.(*page).view != v || !slices.Equal(body.(*page).down, unavailable) {
			body = &page{v, unavailable, encode(v, unavailable)}
			encoded.Store(v.Gate.Name, body)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "private, no-cache")
		_, _ = w.Write(body.(*page).json)
	})
}

// page is an encoded view.
type page struct {
	view *gates.View
	down []string
	json []byte
}

func encode(v *gates.View, down []string) []byte {
	entries := make([]Entry, 0, len(v.Tools))
	for _, t := range v.Tools {
		e := Entry{
			Name: t.Name, Title: t.Title, Category: t.Category, UIHint: t.Hint, Server: t.Server, Origin: t.Origin,
			Description: cmp.Or(t.Summary, t.Description), Modes: t.Modes(),
			InputSchema: t.CallerInput(), OutputSchema: t.Output, Meta: t.Declared().AllMeta(), Effective: toolterms.EffectiveOf(&t.Spec),
		}
		if t.Server != "" {
			e.Category, e.Down = ident.ExternalCategory, slices.Contains(down, t.Server)
		}
		if len(e.Modes) == 0 {
			e.Modes = []toolyard.Mode{toolyard.Write}
		}
		entries = append(entries, e)
	}
	raw, err := json.Marshal(entries)
	if err != nil {
		return []byte("[]") // cannot happen: tool schemas are valid JSON
	}
	return raw
}
