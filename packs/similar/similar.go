// Package similar finds names that resemble a misspelled one, for packs' error messages.
package similar

import (
	"cmp"
	"slices"
)

// Candidate is a name and its distance from the misspelled one.
type Candidate struct {
	Name     string
	Distance int
}

// Closest returns at most n names, closest first.
func Closest(list []Candidate, n int) []string {
	slices.SortFunc(list, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Distance, b.Distance), cmp.Compare(a.Name, b.Name))
	})
	names := make([]string, 0, n)
	for _, c := range list[:min(len(list), n)] {
		names = append(names, c.Name)
	}
	return names
}

// Distance returns the number of bytes to insert, delete or replace to turn a into b. It takes time
// proportional to the product of their lengths, so the caller must limit them.
func Distance(a, b string) int {
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
