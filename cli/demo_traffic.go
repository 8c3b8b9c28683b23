package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent"
	"github.com/toolyard/toolyard/internal/demo"
	"github.com/toolyard/toolyard/internal/trust/outbound"
	"github.com/toolyard/toolyard/yard"
)

// traffic simulates callers.
type traffic struct {
	yard   *yard.Yard
	client *outbound.Client // sends calls that a session pays for
	url    string
	tokens map[string]string
	calls  demo.Traffic
}

func newTraffic(y *yard.Yard, base string, tokens map[string]string, packs bool) *traffic {
	t := &traffic{yard: y, url: base + "/api/v1/tools/execute", tokens: tokens}
	t.calls = demo.NewTraffic(func(p *demo.CallPattern) bool { return packs || !p.Pack })
	if u, err := url.Parse(base); err == nil {
		t.client = outbound.NewClient(outbound.Allowlist{u.Hostname()}, nil, outbound.Network{}, 4<<20)
	}
	return t
}

// maxConcurrent limits the concurrent simulated calls; some of them wait for a limit.
const maxConcurrent = 64

// run makes the given number of calls per second until ctx ends.
func (t *traffic) run(ctx context.Context, rate float64) {
	r := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) //nolint:gosec // nothing here is secret
	running := make(chan struct{}, maxConcurrent)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { t.ask(ctx) })
	for {
		select {
		case <-time.After(time.Duration((0.5 + r.Float64()) * float64(time.Second) / rate)):
		case <-ctx.Done():
			return
		}
		act := t.calls.Next(r)
		caller, args, session := act.Caller(r), act.Args(r, r.IntN(25) == 0), ""
		if act.Price > 0 && r.IntN(2) == 0 {
			session = demo.SessionOf(caller, r)
		}
		select {
		case running <- struct{}{}:
			wg.Go(func() {
				defer func() { <-running }()
				t.call(ctx, act, caller, args, session)
			})
		default: // at the limit: skip this call
		}
	}
}

// questionInterval is the time between two questions to the agent.
const questionInterval = 20 * time.Second

// ask sends questions to the agent until ctx ends. It sends all of them at first, so that there are
// queries to look at, and then one at a time.
func (t *traffic) ask(ctx context.Context) {
	for n := 0; ; n++ {
		q := &demo.Questions[n%len(demo.Questions)]
		if args, err := json.Marshal(agent.Query{Text: q.Text}); err == nil {
			_, _ = t.yard.Call(ctx, q.Gate, q.Caller, agent.ToolName(demo.Agent), args) // failures are part of the demo
		}
		pause := questionInterval
		if n < len(demo.Questions)-1 {
			pause = 0
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// call makes one call. If a session pays for the call, it is sent over HTTP with its caller's key.
func (t *traffic) call(ctx context.Context, act *demo.CallPattern, caller toolyard.Caller, args json.RawMessage, session string) {
	token := t.tokens[caller.ID]
	if session == "" || token == "" {
		_, _ = t.yard.Call(ctx, act.Gate, caller, act.Name(), args) // failures are part of the demo
		return
	}
	body, err := json.Marshal(map[string]any{"gate": act.Gate, "tool": act.Name(), "args": args, "session": session})
	if err != nil {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	_, _, _ = t.client.Do(req, "error") //nolint:bodyclose // Do reads and closes it
}
