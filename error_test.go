package toolyard_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
)

// An error is retryable if the same request may succeed later, and correctable if a different
// request can succeed.
func TestErrorsAreRetryableOrCorrectable(t *testing.T) {
	tests := map[string]struct {
		err                    toolyard.Error
		retryable, correctable bool
	}{
		"wrong arguments":          {err: toolyard.Error{Code: toolyard.Invalid}, correctable: true},
		"unknown tool":             {err: toolyard.Error{Code: toolyard.UnknownTool}, correctable: true},
		"unknown session":          {err: toolyard.Error{Code: toolyard.NotFound}, correctable: true},
		"limit":                    {err: toolyard.Error{Code: toolyard.RateLimited}, retryable: true},
		"still running":            {err: toolyard.Error{Code: toolyard.InProgress}, retryable: true},
		"store away":               {err: toolyard.Error{Code: toolyard.Unavailable, RetryAfter: time.Second}, retryable: true},
		"broken off, may have run": {err: toolyard.Error{Code: toolyard.Unavailable}},
		"stale edit":               {err: toolyard.Error{Code: toolyard.VersionConflict}},
		"no money":                 {err: toolyard.Error{Code: toolyard.BudgetExceeded}},
	}
	for name, test := range tests {
		var got struct{ Retryable, Correctable bool }
		if err := json.Unmarshal(test.err.Data(), &got); err != nil || got.Retryable != test.retryable || got.Correctable != test.correctable {
			t.Errorf("%s: %s", name, test.err.Data())
		}
	}
}

// Missing client capabilities and missing key scopes are separate members, because a client cannot
// grant a scope.
func TestErrorsNameMissingCapabilitiesAndScopes(t *testing.T) {
	for name, test := range map[string]struct {
		err  toolyard.Error
		want string
	}{
		"capabilities": {
			toolyard.Error{Code: toolyard.MissingCapability, Missing: []string{"elicitation.url", "sampling"}},
			`{"error":"MISSING_CAPABILITY","message":"","retryable":false,"correctable":false,"requiredCapabilities":{"elicitation":{"url":{}},"sampling":{}}}`,
		},
		"scopes": {
			toolyard.Error{Code: toolyard.PermissionDenied, Missing: []string{"gate:trade", "write"}},
			`{"error":"AUTHORIZATION_ERROR","message":"","retryable":false,"correctable":false,"requiredScopes":["gate:trade","write"]}`,
		},
		"nothing": {
			toolyard.Error{Code: toolyard.PermissionDenied},
			`{"error":"AUTHORIZATION_ERROR","message":"","retryable":false,"correctable":false}`,
		},
	} {
		if got := string(test.err.Data()); got != test.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
