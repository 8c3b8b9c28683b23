package mcpserve

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
)

// Who opened a session is remembered for as long as there is one.
func TestOwnersAreForgotten(t *testing.T) {
	s := New(Options{Call: toolyard.Run})
	defer s.Close()
	s.Publish([]*toolyard.Gate{{Name: "default", Mode: toolyard.Read}}, toolyard.Offer{}, true)
	send := func(method, session, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, "/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		w := httptest.NewRecorder()
		s.Handler(func(*http.Request) string { return "default" }).ServeHTTP(w, r)
		return w
	}
	owners := func() (n int) {
		(*s.gates.Load())["default"].legacy.owners.Range(func(any, any) bool { n++; return true })
		return n
	}
	session := send(http.MethodPost, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`).Header().Get("Mcp-Session-Id")
	send(http.MethodPost, "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`) // opens none
	if owners() != 1 {
		t.Fatalf("%d owners of one session", owners())
	}
	send(http.MethodDelete, session, "")
	for end := time.Now().Add(5 * time.Second); owners() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the owner is remembered")
		}
	}
}
