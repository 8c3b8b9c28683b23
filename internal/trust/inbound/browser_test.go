package inbound_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/toolyard/toolyard/internal/trust/inbound"
)

func TestBrowser(t *testing.T) {
	h := inbound.RefuseCrossOrigin(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}), []string{"http://localhost:6274"}, []string{"tools.example.com"})
	for _, tt := range []struct {
		method, host string
		header       http.Header
		want         int
	}{
		{"POST", "127.0.0.1:3001", nil, 418},
		{"POST", "localhost:3001", nil, 418},
		{"POST", "[::1]:3001", nil, 418},
		{"POST", "LOCALHOST", nil, 418},
		{"POST", "tools.example.com:3001", nil, 418},
		{"POST", "evil.example", nil, 403},
		{"GET", "evil.example:3001", nil, 403},
		{"POST", "127.0.0.1.evil.example:3001", nil, 403},
		{"POST", "localhost:3001", http.Header{"Origin": {"http://localhost:3001"}}, 418},
		{"POST", "localhost:3001", http.Header{"Origin": {"http://evil.example"}}, 403},
		{"GET", "localhost:3001", http.Header{"Origin": {"http://evil.example"}}, 403},
		{"POST", "localhost:3001", http.Header{"Origin": {"null"}}, 403},
		{"POST", "localhost:3001", http.Header{"Origin": {"http://localhost:3001", "http://evil.example"}}, 403},
		{"POST", "localhost:3001", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"GET", "localhost:3001", http.Header{"Sec-Fetch-Site": {"same-site"}}, 403},
		{"GET", "localhost:3001", http.Header{"Sec-Fetch-Site": {"none"}}, 418},
		{"POST", "localhost:3001", http.Header{"Origin": {"http://localhost:6274"}, "Sec-Fetch-Site": {"same-site"}}, 418},
		{"OPTIONS", "localhost:3001", http.Header{"Origin": {"http://localhost:6274"}, "Access-Control-Request-Method": {"POST"}}, 204},
		{"OPTIONS", "localhost:3001", http.Header{"Origin": {"http://evil.example"}, "Access-Control-Request-Method": {"POST"}}, 403},
	} {
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 3001}), tt.method, "/mcp", nil)
		r.Host = tt.host
		if tt.header != nil {
			r.Header = tt.header
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s %s %v: %d, want %d", tt.method, tt.host, tt.header, w.Code, tt.want)
		}
	}
}

func TestBrowserBeyondLoopback(t *testing.T) {
	h := inbound.RefuseCrossOrigin(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }), nil, []string{"tools.example.com"})
	for host, want := range map[string]int{"192.0.2.1:3001": 418, "[2001:db8::1]:3001": 418, "Tools.example.com": 418, "localhost:3001": 418, "evil.example:3001": 403} {
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 3001}), "POST", "/mcp", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d", host, w.Code)
		}
	}
}
