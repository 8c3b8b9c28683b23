package search

import (
	"cmp"
	"slices"
	"strings"
)

// Weights of terms related to a word in a request, relative to the word itself.
const (
	synonymWeight = 0.2
	similarWeight = 0.5 // if all grams are equal
)

const (
	gramSize      = 4
	minSimilarity = 0.35
	maxSimilar    = 12      // maximum number of similar terms per word
	commonGram    = 1 << 12 // a gram in more terms than this is skipped
)

// synonyms are words that requests and tool descriptions use interchangeably. The table covers
// common actions and objects of office and developer tools; it is not a dictionary.
var synonyms = synonymsOf(`
	add build create generate make new
	delete discard drop erase remove
	adjust alter change edit modify update
	display fetch get obtain read retrieve show view
	find locate lookup query search
	browse enumerate list
	deliver forward message notify send
	book reservation reserve
	buy order purchase
	cost fee price
	begin launch start
	cancel halt stop terminate
	calculate compute
	image photo picture
	email mail
	film movie
	document file
	directory folder
	repo repository
	bug error failure
	employee staff worker
	client customer
	appointment event meeting
	issue ticket
	bill invoice
	memo note
	pay payment
	directions route
	save store write
	convert transform translate
	people person user
	car vehicle
	phone telephone
	city location place town
	check validate verify
	clone copy duplicate
	calendar plan schedule
	overview summarize summary
	import upload
	download export`)

// synonymsOf returns the synonyms of each term. Each line lists words that are synonyms of one
// another.
func synonymsOf(lines string) map[string][]string {
	m := make(map[string][]string)
	for line := range strings.Lines(lines) {
		group := strings.Fields(line)
		for i, word := range group {
			group[i] = stem(word)
		}
		for i, term := range group {
			m[term] = slices.Concat(m[term], group[:i], group[i+1:])
		}
	}
	return m
}

// match is a term that a word in a request can stand for.
type match struct {
	term   int32
	weight float32
}

// match returns the terms that a word can match: the word itself, its synonyms and similar terms. A
// related term never counts as rarer than the word itself. For shared, see near.
func (x *termIndex) match(word string, shared []uint8) (list []match) {
	id, known := x.ids[word]
	weight := func(term int32) float32 {
		if known {
			return min(x.rarity[id], x.rarity[term])
		}
		return x.rarity[term]
	}
	if known {
		list = append(list, match{id, x.rarity[id]})
	}
	for _, synonym := range synonyms[word] {
		if term, ok := x.ids[synonym]; ok {
			list = append(list, match{term, synonymWeight * weight(term)})
		}
	}
	for _, n := range x.grams.near(word, shared) {
		list = append(list, match{n.term, similarWeight * n.similarity * weight(n.term)})
	}
	return list
}

// gramIndex finds terms that share grams with a word: its other forms, compounds and misspellings.
// A gram is a sequence of gramSize bytes in a term. Grams at the start of a term are marked.
type gramIndex struct {
	terms  []string
	sizes  []uint8  // number of grams in each term
	grams  []uint32 // sorted
	first  []int32  // first owner of each gram, followed by the end
	owners []int32  // terms that contain each gram
}

func newGramIndex(ids map[string]int32) gramIndex {
	x := gramIndex{terms: make([]string, len(ids)), sizes: make([]uint8, len(ids))}
	pairs := make([]uint64, 0, 5*len(ids)) // each pair is a gram and a term
	var grams []uint32
	for term, id := range ids {
		grams = gramsOf(grams[:0], term)
		x.terms[id], x.sizes[id] = term, uint8(len(grams)) //nolint:gosec // terms have at most maxWord bytes
		for _, gram := range grams {
			pairs = append(pairs, uint64(gram)<<32|uint64(id)) //nolint:gosec // numbers of terms are positive
		}
	}
	slices.Sort(pairs)
	x.owners = make([]int32, len(pairs))
	for i, pair := range pairs {
		gram := uint32(pair >> 32)
		if len(x.grams) == 0 || gram != x.grams[len(x.grams)-1] {
			x.grams, x.first = append(x.grams, gram), append(x.first, int32(i))
		}
		x.owners[i] = int32(uint32(pair)) //nolint:gosec // the lower half
	}
	x.first = append(x.first, int32(len(pairs))) //nolint:gosec // there are fewer grams than bytes
	return x
}

// gramsOf appends a term's distinct grams. Short terms and terms in unspaced scripts have none.
func gramsOf(grams []uint32, term string) []uint32 {
	if len(term) < gramSize || term[0] >= 0xe0 {
		return grams
	}
	gram := uint32('^')<<16 | uint32(term[0])<<8 | uint32(term[1])
	for i := 2; i < len(term); i++ {
		if gram = gram<<8 | uint32(term[i]); !slices.Contains(grams, gram) {
			grams = append(grams, gram)
		}
	}
	return grams
}

// neighbor is a term that is similar to a word.
type neighbor struct {
	term       int32
	similarity float32 // between 0 and 1
}

// near returns the terms that are similar to a word, most similar first. shared must contain a zero
// for each term, and does so again afterwards.
func (x *gramIndex) near(word string, shared []uint8) (list []neighbor) {
	grams := gramsOf(make([]uint32, 0, maxWord), word)
	var touched []int32
	for _, gram := range grams {
		at, ok := slices.BinarySearch(x.grams, gram)
		if !ok || x.first[at+1]-x.first[at] > commonGram {
			continue
		}
		for _, term := range x.owners[x.first[at]:x.first[at+1]] {
			if shared[term] == 0 {
				touched = append(touched, term)
			}
			shared[term]++
		}
	}
	for _, term := range touched {
		similarity := 2 * float32(shared[term]) / float32(len(grams)+int(x.sizes[term]))
		shared[term] = 0
		if similarity >= minSimilarity && x.terms[term] != word {
			list = append(list, neighbor{term, similarity})
		}
	}
	slices.SortFunc(list, func(a, b neighbor) int {
		return cmp.Or(cmp.Compare(b.similarity, a.similarity), cmp.Compare(x.terms[a.term], x.terms[b.term]))
	})
	return list[:min(len(list), maxSimilar)]
}
