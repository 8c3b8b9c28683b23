package settings_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/store"
)

// span is a call that ran.
type span struct {
	caller     toolyard.Caller
	start, end time.Time
}

// limited returns a tool with a limit.
func limited(l toolyard.Limit) *toolyard.Tool {
	return toolyard.Define(toolyard.Spec{Name: "order", Terms: toolyard.Terms{Limit: l}},
		func(context.Context, *toolyard.Call, struct{}) (string, error) { return "", nil })
}

var family = []toolyard.Caller{
	{ID: "ann", Account: "acme"}, {ID: "bob", Account: "acme"}, {ID: "ann", Account: "umbrella"}, {ID: "acme"}, {ID: "anonymous"},
}

// callInTurns lets every caller call a tool for a while, from several goroutines and at replicas chosen
// at random.
func callInTurns(t *testing.T, limit toolyard.Limit, during time.Duration) (spans []span) {
	ctx, cancel := context.WithCancel(t.Context())
	shared, err := store.Open(ctx, "memory")
	if err != nil {
		t.Fatal(err)
	}
	var replicas []*admission.Controller
	var running, calling sync.WaitGroup
	for i := range 3 {
		c := admission.New(shared, admission.Options{Replica: fmt.Sprint("replica-", i)})
		replicas = append(replicas, c)
		running.Go(func() { c.Run(ctx) })
	}
	s := &settings.Settings{Source: &config.Source{Config: &config.Config{Limits: config.Limits{Wait: config.Duration(time.Minute), Timeout: config.Duration(10 * time.Second)}}}}
	tool := limited(limit)
	end := time.Now().Add(during)
	var mu sync.Mutex
	for i, caller := range family {
		for j := range 3 {
			random := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			calling.Go(func() {
				for time.Now().Before(end) {
					request, err := s.AdmissionRequest(&toolyard.Call{ID: fmt.Sprint("c", random.Int64()), Tool: tool, Caller: caller})
					if err != nil {
						t.Error(err)
						return
					}
					replica := replicas[random.IntN(len(replicas))]
					admitted, err := replica.Admit(ctx, request)
					if err != nil {
						time.Sleep(max(time.Millisecond, min(toolyard.AsError(err).RetryAfter, time.Second)))
						continue
					}
					ran := span{caller: caller, start: time.Now()}
					time.Sleep(time.Duration(10+random.Int64N(40)) * time.Millisecond)
					ran.end = time.Now()
					mu.Lock()
					spans = append(spans, ran)
					mu.Unlock()
					if _, err := replica.Settle(ctx, admitted, toolyard.Outcome{Result: &toolyard.Result{}}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	calling.Wait()
	cancel()
	running.Wait()
	if err := shared.Close(); err != nil {
		t.Error(err)
	}
	slices.SortFunc(spans, func(a, b span) int { return a.start.Compare(b.start) })
	return spans
}

// exceeds returns the first violation of a limit.
func exceeds(spans []span, l toolyard.Limit) string {
	for i := range spans {
		if n := l.PerMinute; n > 0 && i >= n && spans[i].start.Sub(spans[i-n].start) < time.Minute {
			return fmt.Sprintf("%d calls began within %v", n+1, spans[i].start.Sub(spans[i-n].start))
		}
		if i > 0 && spans[i].start.Sub(spans[i-1].start) < l.Cooldown {
			return fmt.Sprintf("two calls began within %v", spans[i].start.Sub(spans[i-1].start))
		}
		atOnce := 0
		for j := max(0, i-100); j <= i; j++ {
			if spans[j].end.After(spans[i].start) {
				atOnce++
			}
		}
		if l.Concurrency > 0 && atOnce > l.Concurrency {
			return fmt.Sprintf("%d calls ran at once", atOnce)
		}
	}
	return ""
}

// A limit is exact for every account or caller across replicas, and none of them uses up the share of
// another.
func TestScopedLimitsAreExact(t *testing.T) {
	for limit, during := range map[*toolyard.Limit]time.Duration{
		{Concurrency: 1}: 5 * time.Second, {Cooldown: 200 * time.Millisecond}: 5 * time.Second, {PerMinute: 20, Concurrency: 2}: 70 * time.Second,
	} {
		for _, per := range []string{"", "account", "caller"} {
			limit.Per = per
			t.Run(fmt.Sprintf("%+v", *limit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					spans := callInTurns(t, *limit, during)
					scopes := make(map[string][]span)
					for _, s := range spans {
						scope := map[string]string{
							"": "all", "account": s.caller.Account, "caller": s.caller.Account + "/" + s.caller.ID,
						}[per]
						if per == "account" && scope == "" {
							scope = s.caller.ID // a caller without an account uses its own ID
						}
						scopes[scope] = append(scopes[scope], s)
					}
					if want := map[string]int{"": 1, "account": 3, "caller": 5}[per]; len(scopes) != want {
						t.Errorf("%d scopes ran calls, want %d", len(scopes), want)
					}
					for scope, own := range scopes {
						if broken := exceeds(own, *limit); broken != "" {
							t.Errorf("%s: %s", scope, broken)
						}
					}
					if per != "" && exceeds(spans, *limit) == "" {
						t.Error("the scopes share the limit")
					}
				})
			})
		}
	}
}

// If the tool and the operator count differently, the result satisfies both.
func TestStricterLimitSatisfiesBothScopes(t *testing.T) {
	for _, tt := range []struct{ tool, operator, want toolyard.Limit }{
		{toolyard.Limit{PerMinute: 10, Per: "caller"}, toolyard.Limit{}, toolyard.Limit{PerMinute: 10, Per: "caller"}},
		{toolyard.Limit{}, toolyard.Limit{Concurrency: 1, Per: "account"}, toolyard.Limit{Concurrency: 1, Per: "account"}},
		{toolyard.Limit{Notes: "n"}, toolyard.Limit{Concurrency: 1, Per: "account"}, toolyard.Limit{Concurrency: 1, Per: "account", Notes: "n"}},
		{toolyard.Limit{PerMinute: 10, Per: "caller"}, toolyard.Limit{PerMinute: 100}, toolyard.Limit{PerMinute: 10}},
		{toolyard.Limit{PerMinute: 10, Per: "caller"}, toolyard.Limit{Concurrency: 1, Per: "account"}, toolyard.Limit{PerMinute: 10, Concurrency: 1, Per: "account"}},
	} {
		if got := tt.tool.Stricter(tt.operator); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", tt.want) {
			t.Errorf("%+v and %+v: %+v", tt.tool, tt.operator, got)
		}
	}
}
