package yard_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/basics"
	"github.com/toolyard/toolyard/yard"
)

func TestPolicyOfTheProgramRefusesCalls(t *testing.T) {
	closed := func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			if c.Tool.Name == "random" {
				return nil, toolyard.Errorf(toolyard.PermissionDenied, "%s is closed.", c.Tool.Name)
			}
			return next(ctx, c)
		}
	}
	y := start(t, yard.Options{Tools: basics.Tools(), Policies: []toolyard.Policy{closed}})
	call := func(body string) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+body+`}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		y.Handler().ServeHTTP(w, r)
		return w.Body.String()
	}
	if got := call(`{"name":"random","arguments":{"type":"uuid"}}`); !strings.Contains(got, "random is closed.") || !strings.Contains(got, "AUTHORIZATION_ERROR") {
		t.Error(got)
	}
	if got := call(`{"name":"hello","arguments":{"name":"Ann"}}`); !strings.Contains(got, "Hello, Ann!") {
		t.Error(got)
	}
}
