package main

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// plainBM25 is the textbook ranking by the words in the name and the description, with no stop
// words, stemming or fields. It is the baseline for ranking tools.
type plainBM25 struct {
	postings map[string][]plainPosting
	lengths  []float64
	mean     float64
}

type plainPosting struct{ doc, count int }

func newPlainBM25(texts []string) *plainBM25 {
	x := &plainBM25{postings: make(map[string][]plainPosting)}
	for doc, text := range texts {
		counts := make(map[string]int)
		words := plainWords(text)
		for _, word := range words {
			counts[word]++
		}
		for word, n := range counts {
			x.postings[word] = append(x.postings[word], plainPosting{doc, n})
		}
		x.lengths = append(x.lengths, float64(len(words)))
		x.mean += float64(len(words)) / float64(len(texts))
	}
	return x
}

func plainWords(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
}

// rank returns the best documents. Ties keep document order.
func (x *plainBM25) rank(query string, limit int) []int {
	const k, b = 1.2, 0.75
	scores := make(map[int]float64)
	for _, word := range plainWords(query) {
		list := x.postings[word]
		idf := math.Log1p((float64(len(x.lengths)-len(list)) + 0.5) / (float64(len(list)) + 0.5))
		for _, p := range list {
			tf := float64(p.count)
			scores[p.doc] += idf * tf * (k + 1) / (tf + k*(1-b+b*x.lengths[p.doc]/x.mean))
		}
	}
	docs := make([]int, 0, len(scores))
	for doc := range scores {
		docs = append(docs, doc)
	}
	slices.SortFunc(docs, func(i, j int) int { return cmp.Or(cmp.Compare(scores[j], scores[i]), i-j) })
	return docs[:min(limit, len(docs))]
}
