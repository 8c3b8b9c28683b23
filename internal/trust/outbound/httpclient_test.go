package outbound

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// echoServer echoes WebSocket messages at /ws, upgrades without being asked at /upgrade, redirects
// at /redirect and sends 2 KiB at /big.
func echoServer(t *testing.T, tls bool) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.CloseNow() }()
		for {
			kind, data, err := conn.Read(r.Context())
			if err != nil || conn.Write(r.Context(), kind, data) != nil {
				return
			}
		}
	})
	mux.HandleFunc("/upgrade", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "other")
		w.WriteHeader(http.StatusSwitchingProtocols)
	})
	mux.Handle("/redirect", http.RedirectHandler("/ws", http.StatusTemporaryRedirect))
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 2<<10)) })
	mux.HandleFunc("/header", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) })
	server := httptest.NewUnstartedServer(mux)
	if tls {
		server.EnableHTTP2 = true
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

// dialWebSocket dials with a context that ends when the handshake is complete.
func dialWebSocket(t *testing.T, client *http.Client, url string) (*websocket.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: client})
	if err == nil {
		t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, err
}

func TestWebSocketPassesThrough(t *testing.T) {
	for name, tls := range map[string]bool{"plain": false, "TLS with HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			server := echoServer(t, tls)
			client := NewHTTPClient([]string{"127.0.0.1"}, Network{}, Limits{Body: 1 << 10, Idle: 10 * time.Millisecond})
			if tls {
				transport := client.Transport.(*boundedTransport).client.http.Transport.(*http.Transport)
				transport.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
				transport.TLSClientConfig.NextProtos = nil
			}
			defer client.CloseIdleConnections()
			conn, err := dialWebSocket(t, client, "ws"+strings.TrimPrefix(server.URL, "http")+"/ws")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Millisecond) // the limits on bodies do not apply
			for range 3 {
				if err := conn.Write(t.Context(), websocket.MessageText, []byte(strings.Repeat("ping", 1000))); err != nil {
					t.Fatal(err)
				}
				if _, got, err := conn.Read(t.Context()); err != nil || len(got) != 4000 {
					t.Fatalf("%d bytes, %v", len(got), err)
				}
			}
			if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHTTPClientRefusesAddressesThatWereNotNamed(t *testing.T) {
	server := echoServer(t, false)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	loopback := Network{Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	for _, tt := range []struct {
		named   []string
		network Network
		host    string
		ok      bool
	}{
		{nil, Network{}, "127.0.0.1", false},
		{[]string{"127.0.0.1"}, Network{}, "127.0.0.1", true},
		{[]string{"127.0.0.1:" + port}, Network{}, "127.0.0.1", true},
		{[]string{"127.0.0.1:1"}, Network{}, "127.0.0.1", false},
		{[]string{"127.0.0.2"}, Network{}, "127.0.0.1", false},
		{nil, Network{}, "localhost", false},
		{[]string{"localhost"}, Network{}, "localhost", true},
		{nil, loopback, "localhost", false},
		{[]string{"home.example"}, Network{}, "home.example", false},
		{[]string{"home.example"}, loopback, "home.example", true},
		{nil, loopback, "home.example", false},
	} {
		client := NewHTTPClient(tt.named, tt.network, Limits{})
		client.Transport.(*boundedTransport).client.resolver = leadingTo(always("127.0.0.1"))
		_, err := dialWebSocket(t, client, "ws://"+net.JoinHostPort(tt.host, port)+"/ws")
		if (err == nil) != tt.ok {
			t.Errorf("%v %v %s: %v", tt.named, tt.network, tt.host, err)
		}
		var notAllowed *NotAllowedError
		var notPublic *NotPublicError
		if err != nil && !errors.As(err, &notAllowed) && !errors.As(err, &notPublic) {
			t.Errorf("%v %v %s: %v", tt.named, tt.network, tt.host, err)
		}
		client.CloseIdleConnections()
	}
}

func TestHTTPClientBoundsResponses(t *testing.T) {
	server := echoServer(t, false)
	client := NewHTTPClient([]string{"127.0.0.1"}, Network{}, Limits{Body: 1 << 10})
	defer client.CloseIdleConnections()
	for path, want := range map[string]string{
		"/big":      "exceeds 1024 bytes",
		"/header":   "exceeded",
		"/redirect": "redirects to",
		"/upgrade":  "a protocol other than HTTP",
	} {
		res, err := client.Get(server.URL + path)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := dialWebSocket(t, client, "ws"+strings.TrimPrefix(server.URL, "http")+"/redirect"); err == nil || !strings.Contains(err.Error(), "redirects to") {
		t.Errorf("a handshake: %v", err)
	}
}

// A server that accepts the connection and sends nothing does not block the handshake.
func TestWebSocketHandshakeIsTimed(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	client := NewHTTPClient([]string{"127.0.0.1"}, Network{}, Limits{})
	client.Transport.(*boundedTransport).client.http.Transport.(*http.Transport).ResponseHeaderTimeout = 50 * time.Millisecond
	if _, err := dialWebSocket(t, client, "ws://"+l.Addr().String()+"/ws"); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Error(err)
	}
}
