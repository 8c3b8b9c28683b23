// Package search ranks the tools of a catalog for what somebody types. Every word must
// match: as a word, as the beginning of one, or inside a name. The name of a tool counts
// for most, then its title, its server and category, and its text; rare words count for
// more than common ones. A word that matches nothing may have one letter wrong.
package search

import (
	"math"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// Doc is something that can be found.
type Doc struct{ Name, Title, Text, Server, Category string }

// Hit is a document that was found, by its position.
type Hit struct {
	Doc   int
	Score float64
}

// Index holds what can be found of documents. It never changes, and any number of
// goroutines may use it.
type Index struct {
	names  string  // all names without their breaks, each with a zero byte behind it
	starts []int32 // where each begins, and the end

	words  []string // sorted
	first  []int32  // where the postings of each word begin, and the end
	docs   []int32  // postings: the documents
	levels []uint8  // and how much the word counts there
	heads  []int32  // the words that stand anywhere but in texts: those that people misspell
}

// Scores of names. No sum of words comes near.
const (
	wholeName = 1e6
	nameBegin = 1e5
)

// Find returns the documents that match the query and that keep keeps, best first; those
// that match equally well are in the order of their positions. An empty query matches all.
// Keep may be nil.
func (x *Index) Find(text string, keep func(i int) bool) []Hit {
	q := parse(text)
	s := &scan{
		Index:   x,
		best:    make([]uint8, x.len()),
		matched: make([]uint8, x.len()),
		scores:  make([]float64, x.len()),
	}
	for _, word := range q.words {
		if !s.look(word) {
			return nil
		}
	}
	return s.hits(q, keep)
}

func (x *Index) len() int { return len(x.starts) - 1 }

func (x *Index) name(doc int) string { return x.names[x.starts[doc] : x.starts[doc+1]-1] }

// scan is one search.
type scan struct {
	*Index
	best    []uint8   // what the word counts in each document
	touched []int32   // the documents where that is not zero
	matched []uint8   // how many words each document has matched
	scores  []float64 // the sum over the words
	words   uint8     // so far
	typos   int
}

// look adds what a word counts in each document, and reports whether any has it.
func (s *scan) look(word string) bool {
	s.touched = s.touched[:0]
	at := sort.SearchStrings(s.Index.words, word)
	for i := at; i < len(s.Index.words) && strings.HasPrefix(s.Index.words[i], word); i++ {
		if len(s.Index.words[i]) == len(word) {
			s.add(i, whole)
		} else {
			s.add(i, begun)
		}
	}
	for _, form := range singular(word) {
		if i, ok := slices.BinarySearch(s.Index.words, form); ok {
			s.add(i, begun)
		}
	}
	s.lookInside(word)
	if len(s.touched) == 0 {
		s.lookNear(word)
	}
	s.settle()
	return len(s.touched) > 0
}

// part is how much of its level a match counts, in twentieths.
type part int

const (
	whole  part = 20
	begun  part = 17
	nearby part = 10
)

// add takes the documents that have a word.
func (s *scan) add(word int, p part) {
	for i := s.first[word]; i < s.first[word+1]; i++ {
		s.raise(s.docs[i], uint8(int(s.levels[i])*int(p)/int(whole))) //nolint:gosec // a part of a byte
	}
}

func (s *scan) raise(doc int32, level uint8) {
	if s.best[doc] == 0 {
		s.touched = append(s.touched, doc)
	}
	s.best[doc] = max(s.best[doc], level)
}

// lookInside takes the documents whose names have the word somewhere.
func (s *scan) lookInside(word string) {
	if len(word) < minInside {
		return
	}
	level := uint8(inside)
	if len(word) < fairInside {
		level = accident
	}
	for doc, at := 0, 0; ; doc++ { // at is where the search goes on
		i := strings.Index(s.names[at:], word)
		if i < 0 {
			return
		}
		found := int32(at + i) //nolint:gosec // as long as the starts fit
		doc += sort.Search(len(s.starts)-doc, func(n int) bool { return s.starts[doc+n] > found }) - 1
		s.raise(int32(doc), level) //nolint:gosec // as above
		at = int(s.starts[doc+1])
	}
}

// lookNear takes the documents with a word that is one letter away.
func (s *scan) lookNear(word string) {
	if utf8.RuneCountInString(word) < minTypo || s.typos == maxTypos {
		return
	}
	s.typos++
	for _, i := range s.heads {
		if nearly(word, s.Index.words[i]) {
			s.add(int(i), nearby)
		}
	}
}

// settle adds the word to the scores of the documents that have all words so far.
func (s *scan) settle() {
	with, all := float64(len(s.touched)), float64(s.len())
	rarity := math.Log1p((all - with + 0.5) / (with + 0.5))
	for _, doc := range s.touched {
		if s.matched[doc] == s.words {
			s.matched[doc]++
			s.scores[doc] += rarity * float64(s.best[doc])
		}
		s.best[doc] = 0
	}
	s.words++
}

// hits are the documents that have every word.
func (s *scan) hits(q query, keep func(int) bool) []Hit {
	room := len(s.touched) // those that have the last word
	if s.words == 0 {
		room = s.len()
	}
	hits := make([]Hit, 0, room)
	for doc, n := range s.matched {
		if n != s.words || (keep != nil && !keep(doc)) {
			continue
		}
		hit := Hit{Doc: doc, Score: s.scores[doc]}
		switch name := s.name(doc); {
		case q.whole == "":
		case name == q.whole:
			hit.Score = wholeName
		case strings.HasPrefix(name, q.whole):
			hit.Score += nameBegin
		}
		hits = append(hits, hit)
	}
	if s.words > 0 {
		slices.SortFunc(hits, better)
	}
	return hits
}

// better orders hits, best first.
func better(a, b Hit) int {
	switch {
	case a.Score > b.Score:
		return -1
	case a.Score < b.Score:
		return 1
	}
	return a.Doc - b.Doc
}
