package toolyard

import "cmp"

// Stricter returns a limit that satisfies both limits. It takes the advice of l, and that of
// other where l has none.
func (l Limit) Stricter(other Limit) Limit {
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

// fewer returns the smaller of two limits; zero is no limit.
func fewer(a, b int) int {
	if a <= 0 || (b > 0 && b < a) {
		return b
	}
	return a
}
