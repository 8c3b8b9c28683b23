// Package console serves the web console: pages built from the console folder by "make build" and
// embedded in the binary. The pages use the public HTTP API, and this package does not depend on
// the yard. If the binary was built without the pages, it serves a page that explains how to build
// them.
package console

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed built
var built embed.FS

// Prefix is the console's path. The build bakes it into the pages.
const Prefix = "/console"

// policy restricts the pages to scripts, styles, images and requests from this server, so that text
// from a tool can neither run as code nor reach another host.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src data:; " +
	"connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const (
	index  = "index.html"
	assets = "assets/" // file names contain a hash of the content
)

type file struct {
	kind   string // media type
	plain  []byte
	packed []byte // compressed with gzip; nil if compression does not help
}

// Handler serves the console under [Prefix]. Paths with no file belong to the client-side router
// and get index.html.
func Handler() http.Handler {
	pages, err := fs.Sub(built, "built")
	if err != nil {
		panic(err) // cannot happen: the folder is embedded above
	}
	return newHandler(pages)
}

// newHandler returns a handler that loads the files on the first request, because most processes
// never serve the console.
func newHandler(pages fs.FS) http.Handler {
	files := sync.OnceValue(func() map[string]file {
		files, err := load(pages)
		if err != nil {
			panic(fmt.Sprintf("cannot read the embedded console: %v", err)) // cannot happen
		}
		return files
	})
	return withHeaders(func(w http.ResponseWriter, r *http.Request) { serve(files(), w, r) })
}

// load reads all files into memory and compresses them once.
func load(pages fs.FS) (map[string]file, error) {
	files := map[string]file{}
	err := fs.WalkDir(pages, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isPage(name) {
			return err
		}
		data, err := fs.ReadFile(pages, name)
		if err != nil {
			return err
		}
		files[name] = file{kind: mediaType(name), plain: data, packed: pack(data)}
		return nil
	})
	return files, err
}

// isPage reports whether a file is served to browsers.
func isPage(name string) bool {
	return name != "README.md" && name != "manifest.json"
}

// mediaType returns a file's media type. Types for the build's files are hard-coded, because the
// system's tables may differ or be missing.
func mediaType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	case ".woff2":
		return "font/woff2"
	case ".txt":
		return "text/plain; charset=utf-8"
	}
	if kind := mime.TypeByExtension(path.Ext(name)); kind != "" {
		return kind
	}
	return "application/octet-stream"
}

func pack(data []byte) []byte {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil
	}
	if _, err := w.Write(data); err != nil || w.Close() != nil || packed.Len() >= len(data) {
		return nil
	}
	return packed.Bytes()
}

// withHeaders adds the security headers to every response, including errors.
func withHeaders(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		next(w, r)
	})
}

func serve(files map[string]file, w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "The console supports only GET and HEAD. The API is at /api/v1.", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Path == Prefix {
		http.Redirect(w, r, Prefix+"/", http.StatusMovedPermanently)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, Prefix+"/")
	if !ok {
		http.NotFound(w, r)
		return
	}
	if f, ok := files[name]; ok && name != index {
		send(w, r, f, cacheFor(name))
		return
	}
	if strings.HasPrefix(name, assets) {
		http.Error(w, "File not found. The console may have been updated: reload the page.", http.StatusNotFound)
		return
	}
	document, ok := files[index]
	if !ok {
		explainBuild(w)
		return
	}
	send(w, r, document, "no-cache")
}

// cacheFor returns the Cache-Control header. Files whose names change with their content never
// expire.
func cacheFor(name string) string {
	if strings.HasPrefix(name, assets) {
		return "public, max-age=31536000, immutable"
	}
	return "no-cache"
}

func send(w http.ResponseWriter, r *http.Request, f file, cache string) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", cache)
	data := f.plain
	if f.packed != nil {
		h.Set("Vary", "Accept-Encoding")
		if acceptsGzip(r.Header.Values("Accept-Encoding")) {
			h.Set("Content-Encoding", "gzip")
			data = f.packed
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(data)))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(data) // the browser may have disconnected
}

// acceptsGzip reports whether Accept-Encoding allows gzip.
func acceptsGzip(values []string) bool {
	accepted, known := false, false
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			name, params, _ := strings.Cut(part, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			if name != "gzip" && (name != "*" || known) {
				continue
			}
			known = known || name == "gzip"
			accepted = weight(params) > 0
		}
	}
	return accepted
}

// weight parses an entry's quality value. The default is 1.
func weight(params string) float64 {
	q, ok := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(params, " ", "")), "q=")
	if !ok {
		return 1
	}
	w, err := strconv.ParseFloat(q, 64)
	if err != nil {
		return 1
	}
	return w
}

const howToBuild = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Toolyard</title>
<h1>This binary was built without the console</h1>
<p>Run <code>make build</code> in the source tree (needs npm).
<p>The <a href="/api/v1/openapi.json">HTTP API</a> offers everything that the console shows.
</html>
`

func explainBuild(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNotImplemented)
	_, _ = w.Write([]byte(howToBuild))
}
