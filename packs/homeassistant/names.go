package homeassistant

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolyard/toolyard/packs/similar"
)

const (
	maxNear     = 5
	maxCompared = 64 // letters of a name to compare
)

// nearest returns the names that are most similar to a name: first those that contain it, then
// those with the smallest edit distance.
func nearest(name string, known []string) []string {
	wanted := strings.ToLower(cut(name, maxCompared))
	var all []similar.Candidate
	seen := make(map[string]bool, len(known))
	for _, k := range known {
		lower := strings.ToLower(cut(k, maxCompared))
		if lower == "" || seen[lower] {
			continue
		}
		seen[lower] = true
		distance := similar.Distance(wanted, lower)
		if len(wanted) >= 3 && (strings.Contains(lower, wanted) || strings.Contains(wanted, lower)) {
			distance = min(distance, 1)
		}
		if distance <= max(2, len(wanted)/3) {
			all = append(all, similar.Candidate{Name: printable(k, 80), Distance: distance})
		}
	}
	return similar.Closest(all, maxNear)
}

// printable returns at most limit bytes of a text with control characters removed. A home's names
// appear in the questions that users answer.
func printable(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf) {
			return -1
		}
		return r
	}, text)
	if len(text) <= limit {
		return text
	}
	return cut(text, limit) + "…"
}

// cut returns at most limit bytes of a text and never breaks a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
