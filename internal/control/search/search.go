// Package search finds tools in a catalog, for people and for models.
//
// Find is for people who type a few words. Every word in the query must match a word, the start of
// a word, or a part of a name. Matches in the name rank highest, followed by the title, then server
// and category, then text. Rare words have more weight than common ones. A word that has no match
// may contain one typo.
//
// Rank is for models and for whole requests. It returns the best matches, even if most words in the
// request match nothing.
package search

import (
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"
)

// Doc is a document to search. Find ignores the arguments.
type Doc struct {
	Name, Title, Text, Server, Category string
	Args                                []Arg
}

// Arg is a tool's argument.
type Arg struct{ Name, Text string }

// Hit is a match. Doc is the index of the document.
type Hit struct {
	Doc   int
	Score float64
}

// Index is an inverted index of documents. It is immutable and safe for concurrent use.
type Index struct {
	names  string  // all names with separators removed, each terminated by a zero byte
	starts []int32 // start of each name, followed by the end

	words func() *wordIndex // used by Find, built on the first search

	terms      termIndex // used by Rank
	rankings   sync.Pool // pool of *ranking
	server     []int32   // each document's server, or none
	servers    int
	category   []int32 // each document's category or server, or none
	categories []string
}

// wordIndex contains the words in the documents, for Find.
type wordIndex struct {
	sorted []string
	first  []int32 // first posting of each word, followed by the end
	docs   []int32 // document of each posting
	levels []uint8 // weight of each posting
	heads  []int32 // words outside texts, which are checked for typos
}

// none is the number for an empty label.
const none int32 = -1

// Scores for name matches, higher than any sum over words.
const (
	wholeName  = 1e6
	namePrefix = 1e5
)

// Find returns the documents that match the query and for which keep returns true, best first. Ties
// are in document order. An empty query matches all documents. keep may be nil.
func (x *Index) Find(text string, keep func(i int) bool) []Hit {
	q := parse(text)
	s := &scan{
		Index: x, wordIndex: x.words(),
		best:    make([]uint8, x.len()),
		matched: make([]uint8, x.len()),
		scores:  make([]float64, x.len()),
	}
	for _, word := range q.words {
		if !s.match(word) {
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
	*wordIndex
	best    []uint8   // weight of the current word in each document
	touched []int32   // documents whose best weight is not zero
	matched []uint8   // number of words that match each document
	scores  []float64 // sum over the words
	words   uint8     // number of words processed so far
	typos   int
}

// match adds the weight of a word to each document, and reports whether any document matches.
func (s *scan) match(word string) bool {
	s.touched = s.touched[:0]
	at := sort.SearchStrings(s.sorted, word)
	for i := at; i < len(s.sorted) && strings.HasPrefix(s.sorted[i], word); i++ {
		if len(s.sorted[i]) == len(word) {
			s.add(i, whole)
		} else {
			s.add(i, prefix)
		}
	}
	for _, form := range singular(word) {
		if i, ok := slices.BinarySearch(s.sorted, form); ok {
			s.add(i, prefix)
		}
	}
	s.matchInside(word)
	if len(s.touched) == 0 {
		s.matchTypo(word)
	}
	s.addScores()
	return len(s.touched) > 0
}

// part is the fraction of the full weight that a match gets, in twentieths.
type part int

const (
	whole  part = 20
	prefix part = 17
	typo   part = 10
)

// add adds the documents that contain a word in the index.
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

// matchInside adds the documents whose names contain the word.
func (s *scan) matchInside(word string) {
	if len(word) < minInside {
		return
	}
	level := uint8(inside)
	if len(word) < fairInside {
		level = inShort
	}
	for doc, at := 0, 0; ; doc++ { // at is where the search continues
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

// matchTypo adds the documents that contain a word that differs by one letter.
func (s *scan) matchTypo(word string) {
	if utf8.RuneCountInString(word) < minTypo || s.typos == maxTypos {
		return
	}
	s.typos++
	for _, i := range s.heads {
		if nearly(word, s.sorted[i]) {
			s.add(int(i), typo)
		}
	}
}

// addScores adds the word to the scores of all documents that match every word so far.
func (s *scan) addScores() {
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

// hits returns the documents that match every word.
func (s *scan) hits(q query, keep func(int) bool) []Hit {
	room := len(s.touched) // number of documents that contain the last word
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
			hit.Score += namePrefix
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
