// Package spelling suggests corrections for misspelled names: "did you mean ...?".
package spelling

import (
	"fmt"
	"slices"
	"strings"
)

// maxName is the maximum length of a name for which Nearest looks for a correction.
const maxName = 128

// Nearest returns the word that name probably misspells: the closest one, provided that at most a
// third of its letters differ. It returns "" if no word is close.
func Nearest(name string, words []string) string {
	if len(name) > maxName {
		return ""
	}
	best, bestDistance := "", len(name)/3+1
	for _, w := range slices.Sorted(slices.Values(words)) {
		if max(len(name), len(w))-min(len(name), len(w)) >= max(bestDistance, 1) {
			continue // at least this many letters differ
		}
		if d := distance(strings.ToLower(name), strings.ToLower(w)); d < bestDistance || d == 0 {
			best, bestDistance = w, d
		}
	}
	return best
}

// DidYouMean returns ` (did you mean "word"?)` with the word found by [Nearest], or "" if there is
// none. Append it to an error message about an unknown name.
func DidYouMean(name string, words []string) string { return Hint(Nearest(name, words)) }

// Hint returns ` (did you mean "a" or "b"?)`, or "" if all words are empty.
func Hint(words ...string) string {
	if question := ask(words); question != "" {
		return " (did you mean " + question + ")"
	}
	return ""
}

// Fix returns `Did you mean "word"?` with the word found by [Nearest], or "" if there is none.
func Fix(name string, words []string) string {
	if question := ask([]string{Nearest(name, words)}); question != "" {
		return "Did you mean " + question
	}
	return ""
}

func ask(words []string) string {
	var quoted []string
	for _, w := range words {
		if w != "" {
			quoted = append(quoted, fmt.Sprintf("%q", w))
		}
	}
	if len(quoted) == 0 {
		return ""
	}
	return strings.Join(quoted, " or ") + "?"
}

// distance returns the number of letters that have to be inserted, deleted, replaced or transposed
// to turn a into b.
func distance(a, b string) int {
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(prev[j]+cost, prev[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}

// Count returns a number with its noun: "1 call", "2 calls".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
