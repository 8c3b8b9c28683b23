package script

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/jsvm"
	"github.com/toolyard/toolyard/internal/trust/outbound"
)

// stoppingRunner makes host requests and then stops the run.
type stoppingRunner struct {
	requests []string
	reason   jsvm.Reason
}

func (s stoppingRunner) Run(ctx context.Context, r *jsvm.Run) (json.RawMessage, error) {
	for _, op := range s.requests {
		_, _ = r.Host(ctx, op, json.RawMessage(`{"url":"http://127.0.0.1:1/"}`))
	}
	return nil, &jsvm.Stopped{Reason: s.reason}
}

// A stopped call can be retried only if the script cannot have had an effect.
func TestStoppedScriptsOfferARetryOnlyWithoutEffects(t *testing.T) {
	for name, tt := range map[string]struct {
		runner stoppingRunner
		code   toolyard.Code
		retry  time.Duration
	}{
		"full, before any request": {stoppingRunner{nil, jsvm.WorkerFull}, toolyard.RateLimited, time.Second},
		"full, after a read":       {stoppingRunner{[]string{"cwd"}, jsvm.WorkerFull}, toolyard.RateLimited, time.Second},
		"full, after a fetch":      {stoppingRunner{[]string{"fetch"}, jsvm.WorkerFull}, toolyard.Unavailable, 0},
		"full, after a tool call":  {stoppingRunner{[]string{"CallToolsParallel"}, jsvm.WorkerFull}, toolyard.Unavailable, 0},
		"dead":                     {stoppingRunner{nil, jsvm.WorkerDied}, toolyard.Unavailable, 0},
		"late":                     {stoppingRunner{[]string{"fetch"}, jsvm.DeadlineExceeded}, toolyard.Timeout, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tool := &scriptTool{pool: tt.runner, module: &jsvm.Module{Name: "x.ts"}, reach: &reach{net: outbound.NewClient(nil, nil, outbound.Network{}, 1<<10)}}
			_, err := tool.call(t.Context(), &toolyard.Call{Tool: &toolyard.Tool{Spec: toolyard.Spec{Name: "x"}}})
			if e := toolyard.AsError(err); e.Code != tt.code || e.RetryAfter != tt.retry || e.Retryable() != (tt.retry > 0) {
				t.Errorf("%s after %v: %v", e.Code, e.RetryAfter, e)
			}
		})
	}
}
