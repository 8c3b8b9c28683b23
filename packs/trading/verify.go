package trading

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
)

// verifier is implemented by live accounts. It checks with the venue that an account's address and
// agent are correct.
type verifier interface {
	Verify(ctx context.Context) error
}

// How often to verify live accounts. An agent's approval can expire.
const (
	verifyEvery  = time.Hour
	verifyFailed = time.Minute
)

// watchAccounts verifies the live accounts until ctx ends, and reports changes in their problems.
// It returns immediately if there are no live accounts.
func (src *Source) watchAccounts(ctx context.Context, report func([]toolyard.Problem)) {
	live := src.verifiers()
	var known []toolyard.Problem
	for len(live) > 0 {
		problems := verifyAll(ctx, live)
		if ctx.Err() != nil {
			return
		}
		if !slices.Equal(problems, known) {
			report(problems)
		}
		known = problems
		wait := verifyEvery
		if len(problems) > 0 {
			wait = verifyFailed
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (src *Source) verifiers() map[string]verifier {
	live := map[string]verifier{}
	for name, a := range src.accounts {
		if v, ok := a.broker.(verifier); ok {
			live[name] = v
		} else if v, ok := a.Portfolio.(verifier); ok {
			live[name] = v
		}
	}
	return live
}

func verifyAll(ctx context.Context, live map[string]verifier) (problems []toolyard.Problem) {
	for _, name := range slices.Sorted(maps.Keys(live)) {
		err := live[name].Verify(ctx)
		if err == nil {
			continue
		}
		e := toolyard.AsError(err)
		problems = append(problems, toolyard.Problem{
			Subject: "account " + name, Message: e.Message, Warning: e.Code == toolyard.Unavailable || e.Code == toolyard.RateLimited,
		})
	}
	return problems
}
