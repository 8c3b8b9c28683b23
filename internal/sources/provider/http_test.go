package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
)

var ann = toolyard.Caller{ID: "ann", Account: "acme"}

// crm is a service on loopback that records the requests it receives.
type crm struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
}

func newCRM(t *testing.T, handler http.HandlerFunc) *crm {
	t.Helper()
	c := &crm{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.requests = append(c.requests, r)
		c.mu.Unlock()
		handler(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *crm) seen() []*http.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

func answer(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// open returns a provider for the service. change adjusts its options.
func open(t *testing.T, base string, change func(*HTTPOptions)) *HTTP {
	t.Helper()
	o := HTTPOptions{Kind: "crm", URL: base + "/customers/{caller.id}", Timeout: time.Minute, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	p, err := NewHTTP(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestHTTPProvider(t *testing.T) {
	links := func(_ context.Context, caller toolyard.Caller, kind string) (string, error) {
		return map[string]string{"crm": "C-17/b", "erp": "ü & x"}[kind], nil
	}
	asOf := time.Now().Truncate(time.Second)
	for name, tt := range map[string]struct {
		change func(*HTTPOptions)
		caller toolyard.Caller
		path   string // path as sent
		body   string
		want   string
	}{
		"caller":     {nil, ann, "/customers/ann", `{"tier":"gold"}`, `{"tier":"gold"}`},
		"pointer":    {func(o *HTTPOptions) { o.Pointer = "/data/0/a~1b" }, ann, "/customers/ann", ` {"data": [ {"a/b": {"n": 1.50} } ] }`, `{"n": 1.50}`},
		"account":    {func(o *HTTPOptions) { o.URL = strings.Replace(o.URL, "caller.id", "caller.account", 1) }, ann, "/customers/acme", `{}`, `{}`},
		"no account": {func(o *HTTPOptions) { o.URL = strings.Replace(o.URL, "caller.id", "caller.account", 1) }, toolyard.Caller{ID: "bob"}, "/customers/bob", `{}`, `{}`},
		"escaped":    {nil, toolyard.Caller{ID: "a/../b?x=1#y %2e\r\nX: y"}, "/customers/a%2F..%2Fb%3Fx=1%23y%20%252e%0D%0AX:%20y", `{}`, `{}`},
		"query":      {func(o *HTTPOptions) { o.URL += "/x?who={caller.id}&l={link.erp}&own={link}" }, toolyard.Caller{ID: "a&b=c"}, "/customers/a&b=c/x?who=a%26b%3Dc&l=%C3%BC+%26+x&own=C-17%2Fb", `{}`, `{}`},
		"as-of time": {func(o *HTTPOptions) { o.URL += "?at={asOf}" }, ann, "/customers/ann?at=" + strings.ReplaceAll(asOf.UTC().Format(time.RFC3339), ":", "%3A"), `{}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCRM(t, answer(tt.body))
			p := open(t, c.URL, func(o *HTTPOptions) {
				o.Links = links
				if tt.change != nil {
					tt.change(o)
				}
			})
			got, err := p.Provide(t.Context(), tt.caller, asOf)
			if err != nil || string(got) != tt.want {
				t.Fatalf("%s %v", got, err)
			}
			if sent := c.seen()[0]; sent.RequestURI != tt.path || sent.Method != http.MethodGet || sent.Header.Get("Accept") != "application/json" {
				t.Errorf("%s %s, want %s", sent.Method, sent.RequestURI, tt.path)
			}
		})
	}
}

func TestHTTPProviderSendsHeaders(t *testing.T) {
	c := newCRM(t, answer(`{}`))
	p := open(t, c.URL, func(o *HTTPOptions) {
		o.Headers = map[string]string{"Authorization": "Bearer ${secret:crm}", "X-Customer": "{caller.account}/{caller.id}", "X-Odd": "${secret:crm}{caller.id}"}
		o.Expand = func(_, text string) (string, error) {
			return strings.ReplaceAll(text, "${secret:crm}", "s3cr{et}"), nil
		}
	})
	// A caller's ID cannot make the provider expand a secret.
	if _, err := p.Provide(t.Context(), toolyard.Caller{ID: "${secret:crm}", Account: "acme"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	h := c.seen()[0].Header
	if h.Get("Authorization") != "Bearer s3cr{et}" || h.Get("X-Customer") != "acme/${secret:crm}" || h.Get("X-Odd") != "s3cr{et}${secret:crm}" {
		t.Error(h)
	}
	p.opts.Expand = func(string, string) (string, error) { return "", errors.New("vault.age is missing") }
	_, err := p.Provide(t.Context(), ann, time.Now())
	mustFail(t, err, toolyard.Unavailable, "the secret for header")
	if strings.Contains(err.Error(), "vault.age") {
		t.Error(err)
	}
}

func mustFail(t *testing.T, err error, code toolyard.Code, message string) {
	t.Helper()
	var e *toolyard.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, message) || !strings.Contains(e.Message, "crm") {
		t.Errorf("%v, want %s %s", err, code, message)
	}
}

// A caller's ID, account or link cannot add headers or lead to another path.
func TestHTTPProviderRefusesInjection(t *testing.T) {
	c := newCRM(t, answer(`{}`))
	inHeader := open(t, c.URL, func(o *HTTPOptions) { o.Headers = map[string]string{"X-Customer": "{caller.id}"} })
	for _, id := range []string{"a\r\nX-Admin: 1", "a\nb", "a\x00b", "a\x7fb", "ü", "a\u2028b"} {
		_, err := inHeader.Provide(t.Context(), toolyard.Caller{ID: id}, time.Now())
		mustFail(t, err, toolyard.NoData, "cannot be sent")
	}
	inPath := open(t, c.URL, func(o *HTTPOptions) { o.URL = c.URL + "/customers/{caller.id}/record" })
	for _, id := range []string{".", ".."} {
		_, err := inPath.Provide(t.Context(), toolyard.Caller{ID: id}, time.Now())
		mustFail(t, err, toolyard.NoData, "cannot be sent")
	}
	if n := len(c.seen()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	for _, id := range []string{"", ident.Anonymous} {
		_, err := inPath.Provide(t.Context(), toolyard.Caller{ID: id}, time.Now())
		mustFail(t, err, toolyard.Unauthenticated, "requires an authenticated caller")
	}
}

func TestHTTPProviderFaultsOfTheService(t *testing.T) {
	elsewhere := newCRM(t, answer(`{"stolen":true}`))
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(bytes.Repeat([]byte(" "), 64<<10)); err != nil {
				return
			}
		}
	}
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7200")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, `{"tier":"gold"}`)
		}
	}
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		pointer string
		code    toolyard.Code
		message string
	}{
		"unknown caller":         {status(404), "", toolyard.NoData, "has no data for you"},
		"null":                   {answer(`{"data":null}`), "/data", toolyard.NoData, "has no data for you"},
		"refused":                {status(403), "", toolyard.Unavailable, "status 403"},
		"broken":                 {status(500), "", toolyard.Unavailable, "status 500"},
		"no content":             {status(204), "", toolyard.Unavailable, "status 204"},
		"HTML":                   {answer(`<html>`), "", toolyard.Unavailable, "not valid JSON"},
		"empty":                  {answer(``), "", toolyard.Unavailable, "not valid JSON"},
		"two values":             {answer(`{} {}`), "", toolyard.Unavailable, "not valid JSON"},
		"duplicate member":       {answer(`{"tier":"gold","tier":"silver"}`), "", toolyard.Unavailable, "not valid JSON"},
		"deep":                   {answer(strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)), "", toolyard.Unavailable, "not valid JSON"},
		"array":                  {answer(`[{}]`), "", toolyard.Unavailable, "not an object"},
		"text":                   {answer(`{"data":"x"}`), "/data", toolyard.Unavailable, "not an object"},
		"nothing at the pointer": {answer(`{"date":{}}`), "/data", toolyard.Unavailable, "has no /data"},
		"no such item":           {answer(`{"data":[]}`), "/data/0", toolyard.Unavailable, "has no /data/0"},
		"huge":                   {endless, "", toolyard.Unavailable, "exceeds 1048576 bytes"},
		"another server":         {redirect(elsewhere.URL + "/customers/ann"), "", toolyard.Unavailable, "is unreachable"},
		"private address":        {redirect("http://10.0.0.7/"), "", toolyard.Unavailable, "is unreachable"},
		"metadata service":       {redirect("http://169.254.169.254/latest/meta-data/"), "", toolyard.Unavailable, "is unreachable"},
		"endless redirects":      {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) }, "", toolyard.Unavailable, "is unreachable"},
		"compressed without being asked": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte("{}"))
		}, "", toolyard.Unavailable, "is unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCRM(t, tt.handler)
			var log bytes.Buffer
			p := open(t, c.URL, func(o *HTTPOptions) { o.Pointer, o.Log = tt.pointer, slog.New(slog.NewTextHandler(&log, nil)) })
			_, err := p.Provide(t.Context(), ann, time.Now())
			mustFail(t, err, tt.code, tt.message)
			if e := toolyard.AsError(err); e.RetryAfter > time.Minute || strings.Contains(e.Message, c.URL) {
				t.Errorf("%v %s", e.RetryAfter, e.Message)
			}
			want := tt.code == toolyard.Unavailable
			if logged := strings.Contains(log.String(), "context provider is failing"); logged != want {
				t.Errorf("failure logged = %t, want %t; log: %s", logged, want, log.String())
			}
		})
	}
	if n := len(elsewhere.seen()); n != 0 {
		t.Errorf("another server got %d requests", n)
	}
}

func TestHTTPProviderFollowsRedirectsWithinTheServer(t *testing.T) {
	c := newCRM(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2" {
			http.Redirect(w, r, "/v2", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, `{"tier":"gold"}`)
	})
	if got, err := open(t, c.URL, nil).Provide(t.Context(), ann, time.Now()); err != nil || string(got) != `{"tier":"gold"}` {
		t.Error(string(got), err)
	}
}

func TestHTTPProviderIsBoundedInTime(t *testing.T) {
	slowly := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "{")
		w.(http.Flusher).Flush()
		for i := 0; r.Context().Err() == nil; i++ { // sends one byte at a time
			time.Sleep(20 * time.Millisecond)
			_, _ = io.WriteString(w, " ")
			w.(http.Flusher).Flush()
		}
	}
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, handler := range map[string]http.HandlerFunc{"slow": slowly, "silent": silent} {
		t.Run(name, func(t *testing.T) {
			p := open(t, newCRM(t, handler).URL, func(o *HTTPOptions) { o.Timeout = 100 * time.Millisecond })
			start := time.Now()
			_, err := p.Provide(t.Context(), ann, start)
			mustFail(t, err, toolyard.Unavailable, "did not respond within 100ms")
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
	// A server that accepts connections but never reads.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	p := open(t, "http://"+l.Addr().String(), func(o *HTTPOptions) { o.Timeout = 100 * time.Millisecond })
	_, err = p.Provide(t.Context(), ann, time.Now())
	mustFail(t, err, toolyard.Unavailable, "did not respond within 100ms")
}

func TestHTTPProviderCachesByCaller(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	c := newCRM(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, `{"path":%q}`, r.URL.Path) })
	linked := "L1"
	p := open(t, c.URL, func(o *HTTPOptions) {
		o.Cache, o.URL = 30*time.Second, c.URL+"/{link}"
		o.Now = func() time.Time { return time.Unix(0, now.Load()) }
		o.Links = func(context.Context, toolyard.Caller, string) (string, error) { return linked, nil }
	})
	get := func(caller toolyard.Caller, requests int) {
		t.Helper()
		if _, err := p.Provide(t.Context(), caller, p.opts.Now()); err != nil {
			t.Error(err)
		}
		if n := len(c.seen()); n != requests {
			t.Errorf("%d requests, want %d", n, requests)
		}
	}
	get(ann, 1)
	get(ann, 1)
	get(toolyard.Caller{ID: "ann", Account: "umbrella"}, 2) // the same name in another account
	get(toolyard.Caller{ID: "bob", Account: "acme"}, 3)
	linked = "L2"
	get(ann, 4) // a different link refers to a different record
	now.Add(int64(30 * time.Second))
	get(ann, 5)
}

func TestHTTPProviderSendsOneRequestForConcurrentCalls(t *testing.T) {
	release := make(chan struct{})
	c := newCRM(t, func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = io.WriteString(w, `{}`)
	})
	p := open(t, c.URL, nil)
	var wg sync.WaitGroup
	var failed atomic.Int32
	for range 50 {
		wg.Go(func() {
			if _, err := p.Provide(t.Context(), ann, time.Now()); err != nil {
				failed.Add(1)
			}
		})
	}
	for waiting(p.cache) < 50 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	wg.Wait()
	if n := len(c.seen()); n != 1 || failed.Load() > 0 {
		t.Errorf("%d requests, %d failures", n, failed.Load())
	}
}

// waiting returns the number of requests that are waiting for an answer.
func waiting(c *Cache) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.flights {
		n += f.waiting
	}
	return n
}

func TestHTTPProviderAndThePast(t *testing.T) {
	c := newCRM(t, answer(`{}`))
	past := time.Now().Add(-time.Hour)
	_, err := open(t, c.URL, nil).Provide(t.Context(), ann, past)
	mustFail(t, err, toolyard.NoData, "not available for a time in the past")
	p := open(t, c.URL, func(o *HTTPOptions) { o.Headers = map[string]string{"X-As-Of": "{asOf}"} })
	if _, err := p.Provide(t.Context(), ann, past); err != nil {
		t.Error(err)
	}
}

func TestHTTPProviderLinks(t *testing.T) {
	c := newCRM(t, answer(`{}`))
	for name, tt := range map[string]struct {
		links   Links
		code    toolyard.Code
		message string
	}{
		"no store":   {nil, toolyard.Unavailable, "requires a store"},
		"no link":    {func(context.Context, toolyard.Caller, string) (string, error) { return "", nil }, toolyard.NoData, "toolyard accounts link CALLER crm VALUE"},
		"store down": {func(context.Context, toolyard.Caller, string) (string, error) { return "", errors.New("down") }, toolyard.Unavailable, "cannot be read"},
	} {
		p := open(t, c.URL, func(o *HTTPOptions) { o.URL, o.Links = c.URL+"/{link}", tt.links })
		_, err := p.Provide(t.Context(), ann, time.Now())
		t.Log(name)
		mustFail(t, err, tt.code, tt.message)
	}
}

func TestHTTPOptionsThatCannotBeUsed(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*HTTPOptions)
		want   string
	}{
		"no URL":                {func(o *HTTPOptions) { o.URL = "" }, "url: must begin with http"},
		"other scheme":          {func(o *HTTPOptions) { o.URL = "file:///etc/passwd" }, "url: must begin with http"},
		"placeholder as host":   {func(o *HTTPOptions) { o.URL = "https://{link}/x" }, "url: must begin with http"},
		"placeholder in host":   {func(o *HTTPOptions) { o.URL = "https://crm.{caller.id}.example/x" }, "url: must begin with http"},
		"placeholder in port":   {func(o *HTTPOptions) { o.URL = "https://crm.example:{caller.id}/x" }, "url: must begin with http"},
		"placeholder as scheme": {func(o *HTTPOptions) { o.URL = "{link}://crm.example/" }, "url: must begin with http"},
		"fragment":              {func(o *HTTPOptions) { o.URL = "https://crm.example/x#{caller.id}" }, "url: "},
		"user name":             {func(o *HTTPOptions) { o.URL = "https://me:pw@crm.example/x" }, "url: "},
		"metadata service":      {func(o *HTTPOptions) { o.URL = "http://169.254.169.254/" }, "url: "},
		"misspelt placeholder":  {func(o *HTTPOptions) { o.URL = "https://crm.example/{caler.id}" }, "url: unknown placeholder {caler.id} (did you mean \"{caller.id}\"?)"},
		"unknown placeholder":   {func(o *HTTPOptions) { o.URL = "https://crm.example/{everything}" }, "url: unknown placeholder {everything}; valid placeholders are {caller.id}"},
		"open placeholder":      {func(o *HTTPOptions) { o.URL = "https://crm.example/{caller.id" }, "url: unmatched {"},
		"closed placeholder":    {func(o *HTTPOptions) { o.URL = "https://crm.example/caller.id}" }, "url: unmatched }"},
		"link without a name":   {func(o *HTTPOptions) { o.URL = "https://crm.example/{link.}" }, "url: {link.} is not a valid link name"},
		"parent folder":         {func(o *HTTPOptions) { o.URL = "https://crm.example/a/../{caller.id}" }, "url: is not a valid URL"},
		"pointer":               {func(o *HTTPOptions) { o.Pointer = "data" }, "pointer: must be a JSON Pointer"},
		"pointer escape":        {func(o *HTTPOptions) { o.Pointer = "/a~2" }, "pointer: must be a JSON Pointer"},
		"long pointer":          {func(o *HTTPOptions) { o.Pointer = strings.Repeat("/a", 33) }, "pointer: must have at most 32 segments"},
		"header name":           {func(o *HTTPOptions) { o.Headers = map[string]string{"X Y": "z"} }, "headers.X Y: is not a valid header name"},
		"header of the client":  {func(o *HTTPOptions) { o.Headers = map[string]string{"host": "z"} }, "headers.host: cannot be set"},
		"header value":          {func(o *HTTPOptions) { o.Headers = map[string]string{"X": "a\r\nb"} }, "headers.X: must be printable ASCII"},
		"header placeholder":    {func(o *HTTPOptions) { o.Headers = map[string]string{"X": "{link"} }, "headers.X: unmatched {"},
		"many headers": {func(o *HTTPOptions) {
			o.Headers = make(map[string]string)
			for i := range 33 {
				o.Headers[fmt.Sprint("X", i)] = "x"
			}
		}, "headers: must have at most 32 members"},
	} {
		o := HTTPOptions{Kind: "crm", URL: "https://crm.example/{caller.id}", Timeout: time.Second, Now: time.Now}
		tt.change(&o)
		var fault *Fault
		if _, err := NewHTTP(o); !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHTTPProviderReportsRecovery(t *testing.T) {
	var good atomic.Bool
	c := newCRM(t, func(w http.ResponseWriter, _ *http.Request) {
		if !good.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, `{}`)
	})
	var log bytes.Buffer
	p := open(t, c.URL, func(o *HTTPOptions) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 3 {
		_, _ = p.Provide(t.Context(), ann, time.Now())
	}
	good.Store(true)
	for range 2 {
		if _, err := p.Provide(t.Context(), ann, time.Now()); err != nil {
			t.Error(err)
		}
	}
	if strings.Count(log.String(), "is failing") != 1 || strings.Count(log.String(), "recovered") != 1 {
		t.Error(log.String())
	}
}
