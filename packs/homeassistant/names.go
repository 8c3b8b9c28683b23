package homeassistant

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxNear     = 5
	maxCompared = 64 // letters of a name that are compared
)

// nearest returns the names that are most similar to a name: those that contain it, and then those
// with the smallest edit distance.
func nearest(name string, known []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	wanted := strings.ToLower(cut(name, maxCompared))
	var all []candidate
	seen := make(map[string]bool, len(known))
	for _, k := range known {
		lower := strings.ToLower(cut(k, maxCompared))
		if lower == "" || seen[lower] {
			continue
		}
		seen[lower] = true
		distance := editDistance(wanted, lower)
		if len(wanted) >= 3 && (strings.Contains(lower, wanted) || strings.Contains(wanted, lower)) {
			distance = min(distance, 1)
		}
		if distance <= max(2, len(wanted)/3) {
			all = append(all, candidate{printable(k, 80), distance})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	near := make([]string, 0, maxNear)
	for _, c := range all[:min(len(all), maxNear)] {
		near = append(near, c.name)
	}
	return near
}

// editDistance returns the Levenshtein distance.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// printable returns at most limit bytes of a text without control characters. Names of a home are
// shown to people who decide by them.
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

// cut returns at most limit bytes of a text, without breaking a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
