package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/internal/trust/seal"
)

// fakeTokens are tokens shared by several servers. While they are unavailable, operations fail and
// may or may not have an effect.
type fakeTokens struct {
	used map[string]string
	away bool
	lost bool // operations take effect, but their responses are lost
}

func (f *fakeTokens) Consume(_ context.Context, id, owner string, _ time.Time) (string, bool, error) {
	if f.away {
		return "", false, errors.New("away")
	}
	_, before := f.used[id]
	if !before {
		f.used[id] = owner
	}
	if f.lost {
		return "", false, errors.New("lost")
	}
	return f.used[id], !before, nil
}

func (f *fakeTokens) Release(_ context.Context, id string) error {
	if f.away {
		return errors.New("away")
	}
	delete(f.used, id)
	return nil
}

// While tokens are unavailable, states are neither accepted nor consumed.
func TestStateIsRejectedWhileTokensAreUnavailable(t *testing.T) {
	tokens := &fakeTokens{used: make(map[string]string)}
	var ran atomic.Int64
	ask := raw(toolyard.Spec{Name: "ask"}, func(c *toolyard.Call) (string, error) {
		ran.Add(1)
		return asker(c)
	})
	server := func(name string) *mcpserver.Server {
		s := mcpserver.New(mcpserver.Options{Call: callpath.Run, Yard: name, Replicas: mcpserver.ReplicaOptions{Keys: seal.NewKeyring(func() [][]byte { return [][]byte{[]byte("secret")} }), Tokens: tokens}})
		t.Cleanup(s.Close)
		s.Publish([]*gates.Gate{{Name: "default", Mode: toolyard.Write}}, catalog.Offer{Tools: []*toolyard.Tool{ask}}, true)
		return s
	}
	one, other := server("one"), server("other")
	again := ann("ask")
	again.RequestState, again.InputResponses = asked(t, one, "ask").State, json.RawMessage(`{"n":{"action":"accept","content":{"n":1}}}`)
	for _, step := range []struct {
		name       string
		server     *mcpserver.Server
		away, lost bool
		want       toolyard.Code
	}{
		{"away", one, true, false, toolyard.Unavailable},
		{"answer lost", one, false, true, toolyard.Unavailable},
		{"another server", other, false, false, toolyard.Invalid}, // the first server may be using it
		{"back", one, false, false, ""},
		{"used", one, false, false, toolyard.Invalid},
		{"used elsewhere", other, false, false, toolyard.Invalid},
	} {
		tokens.away, tokens.lost = step.away, step.lost
		_, err := step.server.CallInteractive(t.Context(), again)
		if (err == nil) != (step.want == "") || err != nil && toolyard.AsError(err).Code != step.want {
			t.Errorf("%s: %v", step.name, err)
		}
		if e := toolyard.AsError(errors.Join(err, errors.New(""))); step.want == toolyard.Unavailable && !e.Retryable() {
			t.Errorf("%s: it cannot be sent again", step.name)
		}
	}
	if ran.Load() != 2 {
		t.Errorf("the tool ran %d times", ran.Load())
	}
}
