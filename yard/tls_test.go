package yard_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/trust/certtest"
	"github.com/toolyard/toolyard/packs/basics"
	"github.com/toolyard/toolyard/yard"
)

// serveTLS serves a yard with the certificate in dir until the test ends.
func serveTLS(t *testing.T, dir string) (y *yard.Yard, base string) {
	t.Helper()
	file := filepath.Join(dir, "toolyard.yaml")
	if err := os.WriteFile(file, []byte("tls: {cert: tls.crt, key: tls.key}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	y = start(t, yard.Options{ConfigFile: file, Tools: basics.Tools()})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- y.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return y, y.Scheme() + "://" + l.Addr().String()
}

func clientTrusting(t *testing.T, pairs ...certtest.Pair) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	for _, pair := range pairs {
		roots.AddCert(pair.Leaf)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func get(t *testing.T, c *http.Client, url string) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return res, string(body), err
}

func TestServeTLS(t *testing.T) {
	dir := t.TempDir()
	pair := certtest.New(t, time.Now().Add(60*24*time.Hour))
	pair.Write(t, dir)
	_, base := serveTLS(t, dir)
	client := clientTrusting(t, pair)
	if res, body, err := get(t, client, base+"/healthz"); err != nil || body != "ok\n" || res.Proto != "HTTP/2.0" {
		t.Fatal(res, body, err)
	}
	if _, body, err := get(t, client, base+"/metrics"); err != nil || !strings.Contains(body, fmt.Sprintf("toolyard_tls_certificate_not_after_timestamp_seconds %v\n", float64(pair.Leaf.NotAfter.Unix()))) {
		t.Error("no metric of the expiry", err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"} {
		r.Header.Set(name, value)
	}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), "notifications/subscriptions/acknowledged") {
	}
	if res.ProtoMajor != 2 || lines.Err() != nil || !strings.Contains(lines.Text(), "acknowledged") {
		t.Errorf("the stream over HTTP/2: %s, %v, %q", res.Proto, lines.Err(), lines.Text())
	}
}

func TestServeTLSRefusesOldVersions(t *testing.T) {
	dir := t.TempDir()
	certtest.New(t, time.Now().Add(60*24*time.Hour)).Write(t, dir)
	_, base := serveTLS(t, dir)
	address := strings.TrimPrefix(base, "https://")
	old := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}}
	if conn, err := old.DialContext(t.Context(), "tcp", address); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.1 is accepted")
	}
	if res, body, err := get(t, http.DefaultClient, "http://"+address+"/healthz"); err != nil || res.StatusCode != http.StatusBadRequest {
		t.Error("a request without TLS:", body, err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A client that opens a connection and sends nothing is disconnected.
func TestServeTLSBoundsHandshakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certtest.New(t, time.Now().Add(60*24*time.Hour)).Write(t, dir)
	_, base := serveTLS(t, dir)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(base, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is still open:", err)
	}
}

func TestServeTLSUsesReplacedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := certtest.New(t, time.Now().Add(60*24*time.Hour)), certtest.New(t, time.Now().Add(24*time.Hour))
	first.Write(t, dir)
	y, base := serveTLS(t, dir)
	client := clientTrusting(t, first, second)
	expiry := func() time.Time {
		t.Helper()
		res, _, err := get(t, client, base+"/healthz")
		if err != nil {
			t.Fatal(err)
		}
		return res.TLS.PeerCertificates[0].NotAfter
	}
	problem := func(text string) func() bool {
		return func() bool {
			for _, p := range y.Problems() {
				if p.Subject == "tls" && strings.Contains(p.Message, text) {
					return true
				}
			}
			return false
		}
	}
	if got := expiry(); !got.Equal(first.Leaf.NotAfter) {
		t.Fatal(got)
	}
	second.Write(t, dir)
	within(t, time.Minute, "the new certificate is in use, and its expiry is a problem", problem("expires at"))
	if got := expiry(); !got.Equal(second.Leaf.NotAfter) {
		t.Error("the new certificate is not in use:", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "tls.key"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a file that is read only once may be half-written
		if err := y.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	if !problem("previous certificate stays in use")() {
		t.Error("the broken key is not a problem:", y.Problems())
	}
	if got := expiry(); !got.Equal(second.Leaf.NotAfter) {
		t.Error("the previous certificate is not in use:", got)
	}
	// After a reload of the configuration, the yard uses other files.
	other := filepath.Join(dir, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	first.Write(t, other)
	if err := os.WriteFile(filepath.Join(dir, "toolyard.yaml"), []byte("tls: {cert: other/tls.crt, key: other/tls.key}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := y.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := expiry(); !got.Equal(first.Leaf.NotAfter) || len(y.Problems()) > 0 {
		t.Error("after the reload:", got, y.Problems())
	}
}

func TestServeTLSNeedsACertificate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	if err := os.WriteFile(file, []byte("tls: {cert: none.crt, key: none.key}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	y := start(t, yard.Options{ConfigFile: file, Tools: basics.Tools()})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := y.Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), "tls: ") || !strings.Contains(err.Error(), "none.crt") {
		t.Error(err)
	}
}
