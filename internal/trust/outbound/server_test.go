package outbound

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/toolyard/toolyard/internal/base/leaktest"
)

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// connect starts a server and returns a client for it.
func connect(t *testing.T, handler http.HandlerFunc) (*ServerClient, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	h, err := NewServerClient(mustParse(t, server.URL), Network{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h, server
}

// ask sends a request and reads the whole response.
func ask(h *ServerClient, method, at, body string, l Limits) (*http.Response, string, error) {
	req, err := http.NewRequest(method, at, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	res, err := h.Do(req, l)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	return res, string(got), err
}

func TestNewHTTP(t *testing.T) {
	for base, want := range map[string]string{
		"http://mcp.example.com/mcp":                          "",
		"https://mcp.example.com:8443/mcp?key=1":              "",
		"https://MCP.example.com.":                            "",
		"http://under_score.example":                          "",
		"http://localhost:3000":                               "",
		"http://127.0.0.1:3000":                               "",
		"http://[::1]:3000":                                   "",
		"http://10.0.0.7":                                     "",
		"http://[fd12::1]":                                    "",
		"https://8.8.8.8":                                     "",
		"ftp://mcp.example.com":                               "unsupported scheme",
		"unix:///run/mcp.sock":                                "unsupported scheme",
		"mcp.example.com":                                     "unsupported scheme",
		"http:mcp.example.com":                                "has no host",
		"http:///mcp":                                         "has no host",
		"http://:80":                                          "has no host",
		"https://user@mcp.example.com":                        "username",
		"https://user:pass@mcp.example.com":                   "username",
		"https://mcp.example.com/#top":                        "fragment",
		"https://mcp.example.com:0":                           "not a valid port",
		"https://mcp.example.com:0443":                        "not a valid port",
		"https://mcp.example.com:65536":                       "not a valid port",
		"http://127.1":                                        "four decimal numbers",
		"http://2130706433":                                   "four decimal numbers",
		"http://0x7f000001":                                   "four decimal numbers",
		"http://foo.0X":                                       "four decimal numbers",
		"http://127.0.0.1.":                                   "four decimal numbers",
		"http://[::ffff:127.0.0.1]":                           "use 127.0.0.1",
		"http://[0:0::1]":                                     "use ::1",
		"http://[FD12::1]":                                    "use fd12::1",
		"http://[fe80::1%25lo]":                               "use fe80::1",
		"http://bücher.example":                               "not a valid host name",
		"http://" + strings.Repeat("a", 254):                  "not a valid host name",
		"http://169.254.169.254":                              "169.254.169.254 is not a public address; to allow it, add its network to privateNetworks",
		"http://0.0.0.0":                                      "is not a public address",
		"http://[::]":                                         "is not a public address",
		"http://[fd00:ec2::254]":                              "is not a public address",
		"http://100.100.100.200":                              "is not a public address",
		"http://224.0.0.1":                                    "is not a public address",
		"http://255.255.255.255":                              "is not a public address",
		"http://[64:ff9b::a9fe:a9fe]":                         "is not a public address",
		"http://[ff02::1]":                                    "is not a public address",
		"http://" + strings.Repeat("1", 300) + ".example.com": "not a valid host name",
	} {
		_, err := NewServerClient(mustParse(t, base), Network{}, 1)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", base, err)
		}
	}
	if _, err := NewServerClient(nil, Network{}, 1); err == nil {
		t.Error("no URL")
	}
}

func TestAdmit(t *testing.T) {
	private := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("169.254.7.0/24")}
	for _, tt := range []struct {
		host, address string
		want          bool
	}{
		{"mcp.example.com", "8.8.8.8", true},
		{"mcp.example.com", "::ffff:8.8.8.8", true},
		{"mcp.example.com", "2606:4700::1", true},
		{"mcp.example.com", "10.1.2.3", true},
		{"mcp.example.com", "::ffff:10.1.2.3", true},
		{"mcp.example.com", "fe80::1%eth0", true},
		{"mcp.example.com", "169.254.7.7", true},
		{"mcp.example.com", "169.254.169.254", false},
		{"mcp.example.com", "10.2.0.1", false},
		{"mcp.example.com", "127.0.0.1", false},
		{"mcp.example.com", "::1", false},
		{"localhost", "127.0.0.1", true},
		{"localhost", "127.8.8.8", true},
		{"localhost", "::1", true},
		{"localhost", "10.1.2.3", true},
		{"localhost", "8.8.8.8", false},
		{"localhost", "10.2.0.1", false},
		{"LOCALHOST", "127.0.0.1", false},
		{"localhost.", "127.0.0.1", false},
		{"192.168.0.5", "192.168.0.5", true},
		{"192.168.0.5", "192.168.0.6", false},
		{"127.0.0.1", "127.0.0.1", true},
		{"169.254.7.7", "169.254.7.7", true},
		{"[::1]", "::1", true},
	} {
		h, err := NewServerClient(mustParse(t, "http://"+tt.host), Network{Private: private}, 1)
		if err != nil {
			t.Errorf("%s: %v", tt.host, err)
			continue
		}
		if err := h.admit(netip.MustParseAddr(tt.address)); (err == nil) != tt.want {
			t.Errorf("%s at %s: %v", tt.host, tt.address, err)
		}
	}
}

func TestNotPublic(t *testing.T) {
	for want, e := range map[string]NotPublicError{
		"mcp.example.com resolves to 10.0.0.7, which is not a public address; to allow it, add its network to privateNetworks": {"mcp.example.com", netip.MustParseAddr("10.0.0.7")},
		"169.254.1.1 is not a public address; to allow it, add its network to privateNetworks":                                 {"169.254.1.1", netip.MustParseAddr("169.254.1.1")},
		"localhost resolves to 8.8.8.8, which is not a local address; to allow it, add its network to privateNetworks": {
			"localhost", netip.MustParseAddr("8.8.8.8"),
		},
	} {
		if e.Error() != want {
			t.Error(e.Error())
		}
	}
}

func TestHTTP(t *testing.T) {
	defer leaktest.VerifyNone(t, goleak.IgnoreCurrent())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, strings.Join([]string{r.Method, r.Host, r.URL.String(), r.Header.Get("Accept-Encoding"), r.Header.Get("Authorization"), string(body)}, " "))
	}))
	defer server.Close()
	h, err := NewServerClient(mustParse(t, server.URL), Network{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	req, _ := http.NewRequest("POST", server.URL+"/mcp?a=b", strings.NewReader("hello"))
	req.Host = "evil.example"
	req.Header.Set("Authorization", "Bearer x")
	req.Header.Set("Accept-Encoding", "gzip")
	res, err := h.Do(req, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(res.Body)
	if want := "POST " + server.Listener.Addr().String() + " /mcp?a=b identity Bearer x hello"; err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	_ = res.Body.Close()
	if req.Header.Get("Accept-Encoding") != "gzip" {
		t.Error("the caller's request was changed")
	}
}

func TestHTTPLocalhost(t *testing.T) {
	_, server := connect(t, func(http.ResponseWriter, *http.Request) {})
	base := "http://localhost:" + mustParse(t, server.URL).Port()
	h, err := NewServerClient(mustParse(t, base), Network{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if _, _, err := ask(h, "GET", base, "", Limits{}); err != nil {
		t.Error(err)
	}
}

func TestHTTPOtherServers(t *testing.T) {
	h, server := connect(t, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	port := mustParse(t, server.URL).Port()
	for _, to := range []string{
		"https://127.0.0.1:" + port, "http://127.0.0.1", "http://127.0.0.1:1", "http://localhost:" + port, "http://127.0.0.2:" + port,
		"http://mcp.example.com", "http://u@127.0.0.1:" + port, "http://127.0.0.1:" + port + "/#f", "ftp://127.0.0.1:" + port,
		"http://[::ffff:127.0.0.1]:" + port, "http://127.0.0.1.:" + port, "http:127.0.0.1:" + port, "/mcp", "http://127.0.0.1:0" + port,
	} {
		body := &closed{Reader: strings.NewReader("x")}
		if _, err := h.Do(&http.Request{Method: "POST", URL: mustParse(t, to), Body: body}, Limits{}); err == nil || !body.closed {
			t.Errorf("%s: %v, body closed: %v", to, err, body.closed)
		}
	}
}

type closed struct {
	io.Reader
	closed bool
}

func (c *closed) Close() error {
	c.closed = true
	return nil
}

func TestHTTPRedirects(t *testing.T) {
	var base string
	h, server := connect(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch name := r.URL.Path[1:]; name {
		case "end":
			_, _ = io.WriteString(w, r.Method+" "+string(body)+" "+r.Header.Get("Authorization"))
		case "hops3", "hops4":
			http.Redirect(w, r, "/hops"+string(name[4]-1), http.StatusTemporaryRedirect)
		case "hops2":
			http.Redirect(w, r, "/hops1", http.StatusPermanentRedirect)
		case "hops1":
			http.Redirect(w, r, "end", http.StatusTemporaryRedirect)
		case "none":
			w.WriteHeader(http.StatusTemporaryRedirect)
		default:
			status := map[byte]int{'1': 301, '2': 302, '3': 303, '7': 307, '8': 308}[name[0]]
			w.Header().Set("Location", strings.ReplaceAll(r.URL.Query().Get("to"), "BASE", base))
			w.WriteHeader(status)
		}
	})
	base = server.URL
	for _, tt := range []struct{ method, at, want string }{
		{"POST", "/end", "POST hello Bearer x"},
		{"POST", "/7?to=/end", "POST hello Bearer x"},
		{"POST", "/8?to=BASE/end", "POST hello Bearer x"},
		{"POST", "/hops1", "POST hello Bearer x"},
		{"POST", "/hops3", "POST hello Bearer x"},
		{"POST", "/hops4", "more than 3 redirects"},
		{"GET", "/1?to=/end", "GET  Bearer x"},
		{"GET", "/2?to=end", "GET  Bearer x"},
		{"GET", "/3?to=/end", "GET  Bearer x"},
		{"POST", "/1?to=/end", `redirects a POST request to "BASE/end" with status 301`},
		{"POST", "/2?to=/end", "status 302"},
		{"POST", "/3?to=/end", "status 303"},
		{"DELETE", "/3?to=/end", "status 303"},
		{"POST", "/none", `redirects to "", which is not a valid URL`},
		{"POST", "/7?to=http://%25zz/", "which is not a valid URL"},
		{"POST", "/7?to=https://evil.example/x%3Fkey=1", `redirects to "https://evil.example/x": "https://evil.example:443" is not the same server`},
		{"GET", "/7?to=//evil.example/x", `redirects to "http://evil.example/x"`},
		{"GET", "/7?to=http://127.0.0.1:1/", "is not the same server"},
		{"GET", "/7?to=file:///etc/passwd", "unsupported scheme"},
		{"GET", "/7?to=BASE/end%23f", "fragment"},
		{"GET", "/7?to=" + strings.Repeat("a", 9000) + ":x", "unsupported scheme"},
		{"GET", "/7?to=" + strings.Repeat("%25", 9000), "is not a valid URL"},
		{"GET", "/7?to=http://evil.example/" + strings.Repeat("a", 9000), `\u2026`},
	} {
		body := ""
		if tt.method == "POST" {
			body = "hello"
		}
		req, _ := http.NewRequest(tt.method, base+tt.at, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer x")
		var got string
		res, err := h.Do(req, Limits{})
		if err != nil {
			got = err.Error()
		} else {
			all, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			got = string(all)
		}
		if want := strings.ReplaceAll(tt.want, "BASE", base); !strings.Contains(got, want) || len(got) > 500 {
			t.Errorf("%s %.80s: %.600s", tt.method, tt.at, got)
		}
	}
	req, _ := http.NewRequest("POST", base+"/7?to=/end", io.MultiReader(strings.NewReader("once")))
	if _, err := h.Do(req, Limits{}); err == nil || !strings.Contains(err.Error(), "cannot be sent again") {
		t.Error(err)
	}
}

func TestHTTPEncoding(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 1<<20))
	_ = z.Close()
	h, server := connect(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Encoding"] = r.URL.Query()["e"]
		_, _ = w.Write(bomb.Bytes())
	})
	for query, want := range map[string]bool{"": true, "?e=identity": true, "?e=Identity": true, "?e=": true, "?e=gzip": false, "?e=br": false, "?e=identity&e=gzip": false, "?e=identity,%20gzip": false, "?e=zstd": false, "?e=deflate": false} {
		_, got, err := ask(h, "GET", server.URL+query, "", Limits{})
		if (err == nil) != want || want && got != bomb.String() {
			t.Errorf("%s: %v, %d bytes", query, err, len(got))
		}
		if !want && err.Error() != "the server sent compressed data that was not requested" {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestHTTPBodyLimit(t *testing.T) {
	h, server := connect(t, func(w http.ResponseWriter, r *http.Request) {
		buf := make([]byte, 1000)
		for r.Context().Err() == nil { // sends endlessly
			if _, err := w.Write(buf); err != nil || r.URL.Path == "/once" {
				return
			}
		}
	})
	for _, tt := range []struct {
		path string
		max  int64
		want int
		ok   bool
	}{
		{"/once", 1000, 1000, true},
		{"/once", 0, 1000, true},
		{"/once", 1<<63 - 1, 1000, true},
		{"/once", 999, 999, false},
		{"/once", 1, 1, false},
		{"/endless", 123456, 123456, false},
		{"/endless", 0, 16 << 20, false},
	} {
		_, got, err := ask(h, "GET", server.URL+tt.path, "", Limits{Body: tt.max})
		_, large := errors.AsType[*TooLargeError](err)
		if len(got) != tt.want || (err == nil) != tt.ok || !tt.ok && !large {
			t.Errorf("%s of %d: %d bytes, %v", tt.path, tt.max, len(got), err)
		}
	}
}

// TestBodyIdle tests the idle timeout of a body.
func TestBodyIdle(t *testing.T) {
	for _, tt := range []struct {
		pause time.Duration
		want  error
	}{{9 * time.Second, io.EOF}, {11 * time.Second, ErrIdle}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			b := newBody(ctx, cancel, &slow{ctx, tt.pause, 5}, Limits{Idle: 10 * time.Second})
			defer func() { _ = b.Close() }()
			var err error
			for p := make([]byte, 10); err == nil; {
				_, err = b.Read(p)
				time.Sleep(time.Minute) // pauses on the reading side do not count
			}
			if !errors.Is(err, tt.want) {
				t.Errorf("%s: %v", tt.pause, err)
			}
		})
	}
}

// slow returns a byte after each pause.
type slow struct {
	ctx   context.Context
	pause time.Duration
	left  int
}

func (s *slow) Read(p []byte) (int, error) {
	if s.left--; s.left < 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(s.pause):
		return copy(p, "x"), nil
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

func (*slow) Close() error { return nil }

// TestHTTPIdle makes servers stall during a response, in both versions of HTTP.
func TestHTTPIdle(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: x\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	h1, server1 := connect(t, handler)
	h2, server2 := connectTLS(t, handler, &tls.Config{MinVersion: tls.VersionTLS12})
	for at, h := range map[string]*ServerClient{server1.URL: h1, server2.URL: h2} {
		var got string
		var err error
		for idle := 50 * time.Millisecond; got == "" && idle < time.Minute; idle *= 4 { // the data may take longer than the header
			_, got, err = ask(h, "GET", at, "", Limits{Idle: idle})
		}
		if got != "data: x\n\n" || !errors.Is(err, ErrIdle) {
			t.Errorf("%s: %q, %v", at, got, err)
		}
	}
}

// connectTLS is like connect, but for an HTTP/2 server that the client trusts.
func connectTLS(t *testing.T, handler http.HandlerFunc, config *tls.Config) (*ServerClient, *httptest.Server) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2, server.TLS = true, config
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	h, err := NewServerClient(mustParse(t, server.URL), Network{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	h.transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	h.transport.TLSClientConfig.RootCAs.AddCert(server.Certificate())
	return h, server
}

func TestHTTPOverTLS(t *testing.T) {
	hello := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }
	h, server := connectTLS(t, hello, &tls.Config{MinVersion: tls.VersionTLS12})
	if _, got, err := ask(h, "POST", server.URL, "x", Limits{}); got != "HTTP/2.0" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	old, oldServer := connectTLS(t, hello, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	if _, _, err := ask(old, "POST", oldServer.URL, "x", Limits{}); err == nil {
		t.Error("TLS 1.1 was spoken")
	}
	stranger, err := NewServerClient(mustParse(t, server.URL), Network{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ask(stranger, "GET", server.URL, "", Limits{}); err == nil {
		t.Error("an unknown certificate was trusted")
	}
}

func TestHTTPHeader(t *testing.T) {
	h, server := connect(t, func(w http.ResponseWriter, r *http.Request) {
		for range len(r.URL.Query().Get("n")) {
			w.Header().Add("X-Fill", strings.Repeat("x", 1000))
		}
	})
	for n, want := range map[int]bool{1: true, 50: true, 75: false, 900: false} {
		if _, _, err := ask(h, "GET", server.URL+"?n="+strings.Repeat("i", n), "", Limits{}); (err == nil) != want {
			t.Errorf("%d kB: %v", n, err)
		}
	}
}

// TestHTTPHostileBytes responds with invalid HTTP.
func TestHTTPHostileBytes(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":        "",
		"not HTTP":       "SSH-2.0-x\r\n",
		"switch":         "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
		"two lengths":    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
		"cut off":        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nxx",
		"gzip transfer":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"bad chunk":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nx",
		"endless early":  strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+strings.Repeat("x", 1000)+"\r\n\r\n", 200) + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"endless status": "HTTP/1.1 200 " + strings.Repeat("x", 100<<10),
	} {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
			}
		}()
		h, err := NewServerClient(mustParse(t, "http://"+l.Addr().String()), Network{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ask(h, "POST", "http://"+l.Addr().String(), "x", Limits{}); err == nil {
			t.Errorf("%s was taken", name)
		}
		h.Close()
		_ = l.Close()
	}
}

func TestHTTPKeepsConnections(t *testing.T) {
	var made atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			made.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // the environment is ignored
	h, err := NewServerClient(mustParse(t, server.URL), Network{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	const requests = 20
	for range requests {
		if _, _, err := ask(h, "POST", server.URL, "x", Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	// On a busy machine, the transport may close a connection whose request was not completely
	// written 50 ms after its response.
	if made.Load() > requests/2 || h.transport.Proxy != nil {
		t.Errorf("%d connections for %d requests", made.Load(), requests)
	}
}

func TestHTTPContext(t *testing.T) {
	h, server := connect(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", server.URL+"/?key=secret", http.NoBody)
	_, err := h.Do(req, Limits{})
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}
