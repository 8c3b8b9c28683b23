package yard_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/yard"
)

// A call over a spend limit is refused with the limit and the time when it renews. The console
// lists the limit; other callers and free gates are not affected.
func TestSpendLimitRefusesAndRenews(t *testing.T) {
	today := func() string { return time.Now().UTC().Format(time.DateOnly) }
	day := today()
	problems := spendLimitProblems(t)
	for ; day != today(); problems = spendLimitProblems(t) { // the limits were renewed in the meantime
		day = today()
	}
	for _, problem := range problems {
		t.Error(problem)
	}
}

func spendLimitProblems(t *testing.T) (problems []string) {
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	s := newTestAPI(t, `
terms: {greet: {executeUsd: "1", spend: {perMonthUsd: "2.5"}}}
gates: {shop: {mode: read, surface: execute, callers: keys, spend: [{per: caller, perDayUsd: "1.5"}]}, free: {mode: read, callers: keys}}
`, yard.Options{})
	call := func(who, gate string) (int, map[string]any) {
		return s.do(t, who, "POST", "/api/v1/tools/execute", `{"tool":"greet","gate":"`+gate+`","args":{"name":"Ann"}}`)
	}
	for i, step := range []struct {
		who, gate string
		status    int
		message   string
	}{
		{"caller", "shop", http.StatusOK, ""},
		{"caller", "shop", http.StatusPaymentRequired, "The spend limit for your use of gate shop has been reached: 1.5 USD per day. The call costs 1 USD, but only 0.5 USD remains. The limit resets at "},
		{"caller", "free", http.StatusOK, ""},
		{"viewer", "shop", http.StatusOK, ""},
		{"operator", "shop", http.StatusPaymentRequired, "The spend limit for tool greet has been reached: 2.5 USD per month. The call costs 1 USD, but only 0.5 USD remains"},
	} {
		status, body := call(step.who, step.gate)
		message, _ := body["message"].(string)
		if status != step.status || !strings.HasPrefix(message, step.message) {
			report("step %d: %d %v", i, status, body)
		}
		if after, _ := body["retryAfterMs"].(float64); status != http.StatusOK && (after <= 0 || after > float64(31*24*time.Hour/time.Millisecond)) {
			report("step %d: retry after %v ms", i, after)
		}
	}
	_, body := s.do(t, "viewer", "GET", "/api/v1/limits", "")
	spend := map[string]string{}
	for _, each := range body["limits"].([]any) {
		if l := each.(map[string]any); l["period"] != nil {
			spent, _ := l["spentUsd"].(string)
			spend[l["kind"].(string)] = strings.Join([]string{l["period"].(string), l["maxUsd"].(string), spent}, " ")
			if renews, err := time.Parse(time.RFC3339, l["renewsAt"].(string)); err != nil || renews.UTC().Truncate(24*time.Hour) != renews.UTC() {
				report("renews at %v", l["renewsAt"])
			}
		}
	}
	if spend["gate"] != "day 1.5 " || spend["tool"] != "month 2.5 2" {
		report("%v", spend)
	}
	return problems
}
