package toolyard

import (
	"cmp"
	"fmt"
	"slices"
)

// limitScopes are the values of Limit.Per, widest first.
var limitScopes = []string{"", "account", "caller"}

func (l Limit) check() error {
	if !slices.Contains(limitScopes, l.Per) {
		return fmt.Errorf("unknown limit scope %.80q; use account or caller", l.Per)
	}
	return nil
}

// Stricter returns a limit that satisfies both limits. If their scopes differ, the smaller numbers
// apply to the wider scope. Advice comes from l or, if l has none, from other.
func (l Limit) Stricter(other Limit) Limit {
	switch {
	case !l.Limited():
		l.Per = other.Per
	case other.Limited():
		l.Per = limitScopes[min(slices.Index(limitScopes, l.Per), slices.Index(limitScopes, other.Per))]
	}
	l.PerMinute = fewer(l.PerMinute, other.PerMinute)
	l.Concurrency = fewer(l.Concurrency, other.Concurrency)
	l.Cooldown = max(l.Cooldown, other.Cooldown)
	l.Bulk = l.Bulk || other.Bulk
	if len(l.BatchTools) == 0 {
		l.BatchTools = other.BatchTools
	}
	l.Notes = cmp.Or(l.Notes, other.Notes)
	return l
}

// fewer returns the smaller of two limits. Zero means no limit.
func fewer(a, b int) int {
	if a <= 0 || (b > 0 && b < a) {
		return b
	}
	return a
}
