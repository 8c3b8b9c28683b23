package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

var script = strings.Repeat("export const yard = 1;\n", 100)

func pages() fstest.MapFS {
	return fstest.MapFS{
		"README.md":              {Data: []byte("not for browsers")},
		"manifest.json":          {Data: []byte("{}")},
		"index.html":             {Data: []byte("<!doctype html><title>Toolyard</title>" + strings.Repeat(" ", 400))},
		"icon.svg":               {Data: []byte("<svg/>")},
		"assets/index-4f2a9c.js": {Data: []byte(script)},
	}
}

func get(t *testing.T, h http.Handler, method, target string, header http.Header) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	r.Header = header
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestHandlerServesFiles(t *testing.T) {
	const html, never, forever = "text/html; charset=utf-8", "no-cache", "public, max-age=31536000, immutable"
	type answer struct {
		Status               int
		Kind, Cache, Allowed string
	}
	refusal := func(status int) answer { return answer{Status: status, Kind: "text/plain; charset=utf-8"} }
	h := newHandler(pages())
	for name, test := range map[string]struct {
		method, target string
		want           answer
	}{
		"the document":         {"GET", "/console/", answer{200, html, never, ""}},
		"the document by name": {"GET", "/console/index.html", answer{200, html, never, ""}},
		"a page of the client": {"GET", "/console/tools/github/search.issues", answer{200, html, never, ""}},
		"a name with a slash":  {"GET", "/console/tools/-/a%2Fb", answer{200, html, never, ""}},
		"a climb":              {"GET", "/console/../../etc/passwd", answer{200, html, never, ""}},
		"a note beside":        {"GET", "/console/README.md", answer{200, html, never, ""}},
		"a hashed file":        {"GET", "/console/assets/index-4f2a9c.js", answer{200, "text/javascript; charset=utf-8", forever, ""}},
		"only its head":        {"HEAD", "/console/assets/index-4f2a9c.js", answer{200, "text/javascript; charset=utf-8", forever, ""}},
		"another file":         {"GET", "/console/icon.svg", answer{200, "image/svg+xml", never, ""}},
		"a file that is gone":  {"GET", "/console/assets/index-000000.js", refusal(404)},
		"without the slash":    {"GET", "/console", answer{301, html, "", ""}},
		"somewhere else":       {"GET", "/consoles", refusal(404)},
		"a change":             {"POST", "/console/", answer{405, "text/plain; charset=utf-8", "", "GET, HEAD"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := get(t, h, test.method, test.target, nil)
			now := answer{got.StatusCode, got.Header.Get("Content-Type"), got.Header.Get("Cache-Control"), got.Header.Get("Allow")}
			if diff := cmp.Diff(test.want, now); diff != "" {
				t.Errorf("The answer is not as it should be (-want +got):\n%s", diff)
			}
			for header, want := range map[string]string{
				"Content-Security-Policy":    policy,
				"X-Content-Type-Options":     "nosniff",
				"X-Frame-Options":            "DENY",
				"Referrer-Policy":            "no-referrer",
				"Cross-Origin-Opener-Policy": "same-origin",
			} {
				if now := got.Header.Get(header); now != want {
					t.Errorf("%s is %q, want %q", header, now, want)
				}
			}
		})
	}
}

func TestAcceptEncoding(t *testing.T) {
	h := newHandler(pages())
	for accept, want := range map[string]string{
		"":                       "",
		"gzip":                   "gzip",
		"gzip, deflate, br":      "gzip",
		"br;q=1.0, GZIP;q=0.5":   "gzip",
		"*":                      "gzip",
		"gzip;q=0":               "",
		"*;q=1, gzip; q=0":       "",
		"gzip; q=0, *":           "",
		"deflate, br":            "",
		"gzip;q=nonsense":        "gzip",
		"identity, xgzip, gzipx": "",
	} {
		t.Run(accept, func(t *testing.T) {
			got := get(t, h, "GET", "/console/assets/index-4f2a9c.js", http.Header{"Accept-Encoding": {accept}})
			if now := got.Header.Get("Content-Encoding"); now != want {
				t.Errorf("Content-Encoding is %q, want %q", now, want)
			}
			if vary := got.Header.Get("Vary"); vary != "Accept-Encoding" {
				t.Errorf("Vary is %q", vary)
			}
			if diff := cmp.Diff(script, text(t, got)); diff != "" {
				t.Errorf("The file differs (-want +got):\n%s", diff)
			}
		})
	}
}

func text(t *testing.T, answer *http.Response) string {
	t.Helper()
	body := io.Reader(answer.Body)
	if answer.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			t.Fatal(err)
		}
		body = unpacked
	}
	data, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestSmallFilesAreNotCompressed(t *testing.T) {
	got := get(t, newHandler(pages()), "GET", "/console/icon.svg", http.Header{"Accept-Encoding": {"gzip"}})
	if got.Header.Get("Content-Encoding") != "" || got.Header.Get("Content-Length") != "6" {
		t.Errorf("A file that does not get smaller was compressed: %v", got.Header)
	}
}

func TestMissingBuildExplainsHowToBuild(t *testing.T) {
	h := newHandler(fstest.MapFS{"README.md": {Data: []byte("nothing built")}})
	got := get(t, h, "GET", "/console/", nil)
	if got.StatusCode != http.StatusNotImplemented || got.Header.Get("Content-Security-Policy") != policy {
		t.Errorf("Status %d, headers %v", got.StatusCode, got.Header)
	}
	if body := text(t, got); !strings.Contains(body, "make build") {
		t.Errorf("The page does not explain how to build the console:\n%s", body)
	}
}

// TestBuiltDocumentFollowsThePolicy checks the real document if it has been built. The policy
// forbids inline scripts and styles.
func TestBuiltDocumentFollowsThePolicy(t *testing.T) {
	document, err := built.ReadFile("built/index.html")
	if err != nil {
		t.Skip("the console is not built; run make console")
	}
	for what, pattern := range map[string]string{
		"an inline script":     `<script(?:\s[^>]*)?>[^<]`,
		"a script without src": `<script(?:\s+(?:type|crossorigin|async|defer)(?:="[^"]*")?)*\s*>`,
		"an inline style":      `<style|\sstyle=`,
		"an event handler":     `\son[a-z]+=`,
		"another host":         `(?:src|href)="(?:https?:)?//`,
	} {
		if found := regexp.MustCompile(pattern).Find(document); found != nil {
			t.Errorf("The document has %s: %s", what, found)
		}
	}
	for _, name := range regexp.MustCompile(`(?:src|href)="/console/([^"]+)"`).FindAllSubmatch(document, -1) {
		got := get(t, Handler(), "GET", "/console/"+string(name[1]), nil)
		if got.StatusCode != http.StatusOK || bytes.HasPrefix([]byte(got.Header.Get("Content-Type")), []byte("text/html")) {
			t.Errorf("The document names %s, which is not there", name[1])
		}
	}
}

func FuzzAcceptsGzip(f *testing.F) {
	for _, seed := range []string{"gzip", "*;q=0.5, br", "gzip;q=0", ";;,,q=", "gzip;q=1e9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if acceptsGzip([]string{value}) && !strings.Contains(strings.ToLower(value), "gzip") && !strings.Contains(value, "*") {
			t.Errorf("%q does not take gzip", value)
		}
	})
}
