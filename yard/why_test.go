package yard_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/toolyard/toolyard/yard"
)

// The explanation of a tool includes its limits, their scope, and who sets the as-of time.
func TestWhyNamesLimitsAndTheClock(t *testing.T) {
	s := newTestAPI(t, "terms: {greet: {rate: {perMinute: 5, per: account}}}\ngates: {past: {mode: read, clock: caller, callers: keys}, now: {mode: read, callers: keys}}\n", yard.Options{})
	quotas := newTestAPI(t, "terms: {greet: {rate: [{perMinute: 5, per: account}, {perMinute: 50}]}}\ngates: {chat: {mode: read, rate: [{per: caller, concurrency: 2}]}}\n", yard.Options{})
	steps, err := quotas.yard.Why("chat", "greet")
	if err != nil {
		t.Fatal(err)
	}
	var rates []string
	for _, step := range steps {
		if step.Rule == "rate" {
			rates = append(rates, step.Text)
		}
	}
	if want := []string{"at most 5 calls per minute, for each account", "at most 50 calls per minute", "all calls at gate chat: at most 2 at once, for each caller"}; !slices.Equal(rates, want) {
		t.Errorf("%q", rates)
	}
	shop := newTestAPI(t, "terms: {greet: {executeUsd: \"1\", spend: {perMonthUsd: \"9\"}}}\ngates: {shop: {mode: read, surface: execute, callers: keys, spend: [{per: caller, perDayUsd: \"5\"}]}}\n", yard.Options{})
	if steps, err = shop.yard.Why("shop", "greet"); err != nil {
		t.Fatal(err)
	}
	var spends []string
	for _, step := range steps {
		if step.Rule == "spend" {
			spends = append(spends, step.Text)
		}
	}
	if want := []string{"gate shop: at most 5 USD per day, for each caller", "tool greet: at most 9 USD per month"}; !slices.Equal(spends, want) {
		t.Errorf("%q", spends)
	}
	for gate, want := range map[string][]string{
		"past": {"rate: at most 5 calls per minute, for each account", "clock: callers can set the as-of time at this gate"},
		"now":  {"rate: at most 5 calls per minute, for each account"},
	} {
		steps, err := s.yard.Why(gate, "greet")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, step := range steps {
			if step.Rule == "rate" || step.Rule == "clock" {
				got = append(got, fmt.Sprintf("%s: %s", step.Rule, step.Text))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q", gate, got)
		}
	}
}
