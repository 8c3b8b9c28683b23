package settings_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/sources/toolterms"
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

// callInTurns lets every caller call a tool for a while, from several goroutines and at randomly
// chosen replicas.
func callInTurns(t *testing.T, tool *toolyard.Tool, gate config.Gate, wait, during time.Duration) (spans []span) {
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
	s := &settings.Settings{Source: &config.Source{Config: &config.Config{Gates: map[string]config.Gate{"chat": gate}, Limits: config.Limits{Wait: config.Duration(wait), Timeout: config.Duration(10 * time.Second)}}}}
	end := time.Now().Add(during)
	var mu sync.Mutex
	for i, caller := range family {
		for j := range 3 {
			random := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			calling.Go(func() {
				for time.Now().Before(end) {
					request, err := s.AdmissionRequest(&toolyard.Call{ID: fmt.Sprint("c", random.Int64()), Gate: "chat", Tool: tool, Caller: caller})
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

// scopesOf groups calls by the account or caller that has the limit.
func scopesOf(spans []span, per string) map[string][]span {
	scopes := make(map[string][]span)
	for _, s := range spans {
		scope := map[string]string{
			"": "all", "account": s.caller.Account, "caller": s.caller.Account + "/" + s.caller.ID,
		}[per]
		if per == "account" && scope == "" {
			scope = s.caller.ID // a caller that has no account uses its own ID
		}
		scopes[scope] = append(scopes[scope], s)
	}
	return scopes
}

// If a gate and a tool have several limits, none is exceeded, and the narrowest ones are used.
func TestSeveralLimitsApplyAtTheSameTime(t *testing.T) {
	gate := config.Gate{Rate: config.Rates{{PerMinute: 20, Per: "account"}, {PerMinute: 13, Per: "caller", Concurrency: 2}}}
	for all, used := range map[int][]string{1000: {"account", "caller"}, 20: {""}} {
		synctest.Test(t, func(t *testing.T) {
			tool := toolterms.Apply(limited(toolyard.Limit{PerMinute: 17, Per: "account"}), toolterms.Terms{Limits: []toolyard.Limit{
				{PerMinute: all}, {PerMinute: 15, Per: "account"}, {PerMinute: 10, Per: "caller"}, {Concurrency: 1, Per: "caller"},
			}})
			spans := callInTurns(t, tool, gate, time.Second, 2*time.Second) // other tests cover the end of a minute
			for per, limit := range map[string]toolyard.Limit{"": {PerMinute: all}, "account": {PerMinute: 15}, "caller": {PerMinute: 10, Concurrency: 1}} {
				most := 0
				for scope, own := range scopesOf(spans, per) {
					if broken := exceeds(own, limit); broken != "" {
						t.Errorf("%q %s: %s", per, scope, broken)
					}
					most = max(most, len(own))
				}
				if slices.Contains(used, per) && 2*most < limit.PerMinute { // make chaos measures how much is used
					t.Errorf("%q: at most %d of %d calls began", per, most, limit.PerMinute)
				}
			}
		})
	}
}

// A tool's limits with the same scope are merged, and others stay separate.
func TestLimitsOfDifferentScopesAreNotMerged(t *testing.T) {
	own := toolyard.Limit{PerMinute: 10, Per: "caller", Notes: "n"}
	got := toolterms.Apply(limited(own), toolterms.Terms{Limits: []toolyard.Limit{{PerMinute: 100}, {PerMinute: 5, Concurrency: 2, Per: "caller"}, {PerMinute: 20, Per: "account"}}})
	want := toolyard.Terms{Limit: toolyard.Limit{PerMinute: 5, Concurrency: 2, Per: "caller", Notes: "n"}, Quotas: []toolyard.Limit{{PerMinute: 100}, {PerMinute: 20, Per: "account"}}}
	if diff := cmp.Diff(want.Limit, got.Limit) + cmp.Diff(want.Quotas, got.Quotas); diff != "" {
		t.Error(diff)
	}
}

// A refusal contains the limit, its scope, and when to try again.
func TestRefusalNamesTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		shared, err := store.Open(ctx, "memory")
		if err != nil {
			t.Fatal(err)
		}
		c := admission.New(shared, admission.Options{Replica: "r"})
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx) })
		for per, want := range map[string]string{
			"":        "The limit for gate chat has been reached: 2 calls per minute. Try again in ",
			"account": "The limit for your account's use of gate chat has been reached: 2 calls per minute. Try again in ",
			"caller":  "The limit for your use of gate chat has been reached: 2 calls per minute. Try again in ",
		} {
			s := &settings.Settings{Source: &config.Source{Config: &config.Config{Gates: map[string]config.Gate{"chat": {Rate: config.Rates{{PerMinute: 2, Per: per}}}}}}}
			for i := range 3 {
				request, err := s.AdmissionRequest(&toolyard.Call{ID: fmt.Sprint(per, i), Gate: "chat", Tool: limited(toolyard.Limit{}), Caller: family[0]})
				if err != nil {
					t.Fatal(err)
				}
				_, err = c.Admit(ctx, request)
				if i < 2 {
					if err != nil {
						t.Error(err)
					}
					continue
				}
				e := toolyard.AsError(err)
				if e.Code != toolyard.RateLimited || !strings.HasPrefix(e.Message, want) || e.RetryAfter < 50*time.Second {
					t.Errorf("%q: %v after %v", per, err, e.RetryAfter)
				}
			}
		}
		cancel()
		running.Wait()
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A limit is exact for every account or caller across replicas, and none of them can use up
// another's share.
func TestScopedLimitsAreExact(t *testing.T) {
	for limit, during := range map[*toolyard.Limit]time.Duration{
		{Concurrency: 1}: 5 * time.Second, {Cooldown: 200 * time.Millisecond}: 5 * time.Second, {PerMinute: 20, Concurrency: 2}: 70 * time.Second,
	} {
		for _, per := range []string{"", "account", "caller"} {
			limit.Per = per
			t.Run(fmt.Sprintf("%+v", *limit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					spans := callInTurns(t, limited(*limit), config.Gate{}, time.Minute, during)
					scopes := scopesOf(spans, per)
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

// If the tool and the operator use different scopes, the result satisfies both.
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
