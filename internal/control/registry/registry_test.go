package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	v0 "github.com/modelcontextprotocol/registry/pkg/api/v0"
	"github.com/modelcontextprotocol/registry/pkg/model"

	"github.com/toolyard/toolyard"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// servers contains untrusted titles, descriptions and versions.
var servers = []Server{
	{ID: "notion", Description: "Pages", Version: "2.0.0", Updated: noon.Add(time.Hour)},
	{
		ID: "git-hub.v2", Title: "GitHub", Description: "Issues and\n\tpull requests", Version: "1.4.0", Updated: noon,
		URLs: []string{"https://tools.example.com/mcp", "unix:///run/yard.sock", "https://a b"},
		Meta: map[string]any{"priceUsd": "0.0025", "modes": []string{"read"}},
	},
	{ID: "wordy", Title: strings.Repeat("ä", 101), Description: strings.Repeat("Wörter ", 40), Version: "latest", Updated: noon},
	{ID: "ranged", Description: " \n", Version: ">=1.2", Updated: noon},
	{ID: strings.Repeat("x", 200), Description: "its name is too long", Version: "1", Updated: noon},
	{ID: "not/one", Description: "its name is none", Version: "1", Updated: noon},
}

func handler(list ...Server) http.Handler {
	return Handler(Options{List: func(*http.Request) ([]Server, error) { return list, nil }})
}

func get(t testing.TB, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

// read decodes a response and rejects unknown members.
func read[T any](t testing.TB, w *httptest.ResponseRecorder) (v T) {
	t.Helper()
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "private, no-cache" {
		t.Fatalf("%d %v: %s", w.Code, w.Header(), w.Body)
	}
	dec := json.NewDecoder(w.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func names(list v0.ServerListResponse) (names []string) {
	for _, s := range list.Servers {
		names = append(names, s.Server.Name)
	}
	return names
}

func TestOneServer(t *testing.T) {
	at := &v0.RegistryExtensions{Status: model.StatusActive, StatusChangedAt: noon, PublishedAt: noon, UpdatedAt: noon, IsLatest: true}
	want := v0.ServerResponse{
		Server: v0.ServerJSON{
			Schema: model.CurrentSchemaURL, Name: "dev.toolyard/git-hub.v2", Title: "GitHub",
			Description: "Issues and pull requests", Version: "1.4.0",
			Remotes: []model.Transport{{Type: "streamable-http", URL: "https://tools.example.com/mcp"}},
			Meta:    &v0.ServerMeta{PublisherProvided: map[string]any{"priceUsd": "0.0025", "modes": []any{"read"}}},
		},
		Meta: v0.ResponseMeta{Official: at},
	}
	for _, version := range []string{"latest", "1.4.0"} {
		got := read[v0.ServerResponse](t, get(t, handler(servers...), "/v0.1/servers/dev.toolyard%2Fgit-hub.v2/versions/"+version))
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b model.Transport) bool { return a.Type == b.Type && a.URL == b.URL })); diff != "" {
			t.Error(diff)
		}
	}
	list := read[v0.ServerListResponse](t, get(t, handler(servers...), "/v0.1/servers/dev.toolyard%2Fgit-hub.v2/versions?include_deleted=true"))
	if len(list.Servers) != 1 || list.Metadata != (v0.Metadata{Count: 1}) {
		t.Errorf("versions: %+v", list)
	}
}

func TestList(t *testing.T) {
	all := []string{"dev.toolyard/git-hub.v2", "dev.toolyard/notion", "dev.toolyard/ranged", "dev.toolyard/wordy"}
	for query, want := range map[string][]string{
		"":                     all,
		"?version=latest":      all,
		"?cursor=&search=":     all,
		"?version=2.0.0":       all[1:2],
		"?version=9":           nil,
		"?search=GIT-HUB":      all[:1],
		"?search=zebra":        nil,
		"?search=dev.toolyard": all,
		"?updated_since=2026-11-01T12:30:00%2B00:00":                      all[1:2],
		"?updated_since=2026-11-01T12:00:00Z&include_deleted=true":        all,
		"?limit=100&include_deleted=false&cursor=" + encodeCursor(all[1]): all[2:],
	} {
		list := read[v0.ServerListResponse](t, get(t, handler(servers...), "/v0.1/servers"+query))
		if diff := cmp.Diff(want, names(list)); diff != "" || list.Metadata.Count != len(want) || list.Metadata.NextCursor != "" {
			t.Errorf("%s: %+v: %s", query, list.Metadata, diff)
		}
	}
	if body := get(t, handler(), "/v0.1/servers").Body.String(); body != `{"servers":[],"metadata":{"count":0}}` {
		t.Errorf("nothing is %s", body)
	}
}

func TestPages(t *testing.T) {
	var list []Server
	for i := range 75 {
		list = append(list, Server{ID: fmt.Sprint("s", i), Description: "d", Version: "1"})
	}
	h := handler(list...)
	seen := make(map[string]bool)
	var sizes []int
	for cursor := ""; ; {
		page := read[v0.ServerListResponse](t, get(t, h, "/v0.1/servers?cursor="+url.QueryEscape(cursor)))
		sizes = append(sizes, page.Metadata.Count)
		for _, name := range names(page) {
			seen[name] = true
		}
		if cursor = page.Metadata.NextCursor; cursor == "" {
			break
		}
	}
	if diff := cmp.Diff([]int{30, 30, 15}, sizes); diff != "" || len(seen) != 75 {
		t.Errorf("%d servers: %s", len(seen), diff)
	}
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	for target, want := range map[string]int{
		"/v0.1/servers?limit=0":             422,
		"/v0.1/servers?limit=101":           422,
		"/v0.1/servers?limit=ten":           422,
		"/v0.1/servers?search=ab":           422,
		"/v0.1/servers?search=%20a%20b":     200,
		"/v0.1/servers?search=%20%20ab":     422,
		"/v0.1/servers?include_deleted=1":   422,
		"/v0.1/servers?updated_since=today": 400,
		"/v0.1/servers?updated_since=2026-11-01T12:00:00Z&include_deleted=false": 400,
		"/v0.1/servers?cursor=!":                                         400,
		"/v0.1/servers?cursor=YWJj":                                      400, // does not encode a name
		"/v0.1/servers?sort=name":                                        400,
		"/v0.1/servers?limit=1&limit=2":                                  400,
		"/v0.1/servers?limit=1;limit=2":                                  400,
		"/v0.1/servers?search=" + strings.Repeat("a", maxValue+1):        400,
		"/v0.1/servers/dev.toolyard%2Fnobody/versions":                   404,
		"/v0.1/servers/dev.toolyard%2Fnobody/versions/latest":            404,
		"/v0.1/servers/org.else%2Fnotion/versions":                       404,
		"/v0.1/servers/dev.toolyard%2Fnotion/versions/1.0.0":             404,
		"/v0.1/servers/dev.toolyard%2Fnotion/versions/2.0.0?limit=1":     400,
		"/v0.1/servers/dev.toolyard%2Fnotion/versions?include_deleted=x": 422,
	} {
		w := get(t, handler(servers...), target)
		if w.Code != want {
			t.Errorf("%.80s: %d, want %d: %s", target, w.Code, want, w.Body)
		}
		var p problem
		if w.Code != http.StatusOK && (json.Unmarshal(w.Body.Bytes(), &p) != nil || p.Status != want || p.Detail == "" || p.Text != p.Detail) {
			t.Errorf("%.80s: %s is not a problem document", target, w.Body)
		}
	}
	w := httptest.NewRecorder()
	handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v0.1/servers", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

func TestErrorsOfTheList(t *testing.T) {
	for _, c := range []struct {
		err          error
		status       int
		header, says string
	}{
		{toolyard.Errorf(toolyard.Unauthenticated, "Send a key."), 401, "Www-Authenticate", "Send a key."},
		{toolyard.Errorf(toolyard.PermissionDenied, "Ask for a scope."), 403, "", "Ask for a scope."},
		{&toolyard.Error{Code: toolyard.Unavailable, Message: "store is down", RetryAfter: time.Minute}, 503, "Retry-After", "is unavailable"},
		{errors.New("password wrong"), 503, "Retry-After", "is unavailable"},
	} {
		h := Handler(Options{List: func(*http.Request) ([]Server, error) { return nil, c.err }})
		for _, path := range []string{"", "/a%2Fb/versions", "/a%2Fb/versions/latest"} {
			w := get(t, h, "/v0.1/servers"+path)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || strings.Contains(w.Body.String(), "password") {
				t.Errorf("%v: %d %s", c.err, w.Code, w.Body)
			}
			if c.header != "" && w.Header().Get(c.header) == "" {
				t.Errorf("%v: no %s", c.err, c.header)
			}
		}
	}
}

// officialSchema returns the schema that the registry module uses for validation. It is in the
// module's internal directory.
func officialSchema(t testing.TB) *toolyard.Schema {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/modelcontextprotocol/registry").Output()
	if err != nil || len(dir) == 0 {
		t.Skipf("the module's files are not here: %v", err)
	}
	raw, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "internal", "validators", "schemas", model.CurrentSchemaVersion+".json"))
	if err != nil {
		t.Fatal(err)
	}
	schema := &toolyard.Schema{}
	if err := json.Unmarshal(raw, schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestEntriesMatchTheOfficialSchema(t *testing.T) {
	schema := officialSchema(t)
	for _, bad := range []string{`{"name":"abc","description":"d","version":"1"}`, `{"name":"a/b","description":"","version":"1"}`} {
		if issues, _ := schema.Check(t.Context(), json.RawMessage(bad)); len(issues) == 0 {
			t.Fatalf("the schema takes %s", bad)
		}
	}
	var body struct {
		Servers []struct{ Server json.RawMessage }
	}
	if err := json.Unmarshal(get(t, handler(servers...), "/v0.1/servers").Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	if len(body.Servers) != 4 {
		t.Fatalf("%d servers", len(body.Servers))
	}
	for _, s := range body.Servers {
		if issues, _ := schema.Check(t.Context(), s.Server); len(issues) > 0 {
			t.Errorf("%s: %v", s.Server, issues)
		}
	}
}

func TestLabel(t *testing.T) {
	for s, want := range map[string]string{
		"":                               "",
		" a \n b\x00\tc ":                "a b c",
		strings.Repeat("ä", 100):         strings.Repeat("ä", 100),
		strings.Repeat("ä", 101):         strings.Repeat("ä", 99) + "…",
		strings.Repeat("a", 98) + " bcd": strings.Repeat("a", 98) + "…",
		"a\xffb":                         "a�b",
	} {
		if got := label(s); got != want {
			t.Errorf("label(%q) = %q, want %q", s, got, want)
		}
	}
}

func TestExactVersion(t *testing.T) {
	for _, v := range []string{"1", "1.2.3", "v2.0.0-rc.1+build", "2026-11-01", "nightly", "x86", "1.0.0-xen"} {
		if got := exactVersion(v); got != v {
			t.Errorf("exactVersion(%q) = %q", v, got)
		}
	}
	for _, v := range []string{"", "latest", "^1.2.3", "~1", ">=1", "<2", "=1", "1.x", "1.2.X", "x.1", "1.*", "*", "1 - 2", "1 || 2", "1\x00", "\xff", strings.Repeat("1", 256)} {
		if got := exactVersion(v); got != unversioned {
			t.Errorf("exactVersion(%q) = %q", v, got)
		}
	}
}

func FuzzQuery(f *testing.F) {
	f.Add("cursor=" + encodeCursor("dev.toolyard/notion") + "&limit=2&search=tool")
	f.Add("updated_since=2026-11-01T12:00:00Z&version=latest&include_deleted=true")
	f.Add("limit=%zz&a=b;c")
	h := handler(servers...)
	f.Fuzz(func(t *testing.T, raw string) {
		r := httptest.NewRequest(http.MethodGet, "/v0.1/servers", nil)
		r.URL.RawQuery = raw
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusOK:
			if list := read[v0.ServerListResponse](t, w); len(list.Servers) > maxLimit || list.Metadata.Count != len(list.Servers) {
				t.Fatalf("%+v", list.Metadata)
			}
		case http.StatusBadRequest, http.StatusUnprocessableEntity:
		default:
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}

func FuzzEntry(f *testing.F) {
	schema := officialSchema(f)
	f.Add("notion", "Notion", "Pages of a workspace", "1.0.0", "https://tools.example.com/mcp")
	f.Add("x", "X", "A vertical tab", "1", "http://\v")
	f.Add("x", "\x00", strings.Repeat("ä", 300), "^1", "https://a b")
	f.Fuzz(func(t *testing.T, id, title, description, version, url string) {
		e, ok := Server{ID: id, Title: title, Description: description, Version: version, URLs: []string{url}}.entry("dev.toolyard")
		if !ok {
			return
		}
		raw, err := json.Marshal(e.Server)
		if err != nil {
			t.Fatal(err)
		}
		if issues, _ := schema.Check(t.Context(), raw); len(issues) > 0 || !utf8.ValidString(e.Server.Description) {
			t.Fatalf("%s: %v", raw, issues)
		}
	})
}
