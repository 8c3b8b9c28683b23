package search

import (
	"math"
	"strings"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// field is a part of a document that Rank reads.
type field int

const (
	fieldName field = iota
	fieldTitle
	fieldOrigin // server and category
	fieldText
	fieldArgNames
	fieldArgTexts
	fields
)

// Weights of the fields, and how much a field's length lowers the weight of its words, as in BM25F.
var (
	fieldWeight = [fields]float64{fieldName: 3, fieldTitle: 1, fieldOrigin: 1, fieldText: 1, fieldArgNames: 1, fieldArgTexts: 0.5}
	fieldLength = [fields]float64{fieldName: 0.5, fieldTitle: 0.5, fieldOrigin: 0.5, fieldText: 0.75, fieldArgNames: 0.75, fieldArgTexts: 0.5}
)

const damping = 0.75 // exponent of the inverse document frequency

// termIndex is an inverted index of terms. A document's score is the sum, over the terms in a
// request, of the term's rarity times its gain in the document (BM25F). Both are computed when the
// index is built.
type termIndex struct {
	ids    map[string]int32
	rarity []float32 // rarity of each term
	first  []int32   // first gain of each term, followed by the end
	gains  []gain
	grams  gramIndex
}

// gain is the weight of a term in a document, between 0 and 1+saturation.
type gain struct {
	doc  int32
	gain float32
}

// of returns a term's gains.
func (x *termIndex) of(term int32) []gain { return x.gains[x.first[term]:x.first[term+1]] }

// termBuilder builds a termIndex.
type termBuilder struct {
	ids     map[string]int32
	docs    []int32         // number of documents that contain each term
	last    []int32         // last entry of each term
	chunks  map[string]span // terms in the chunks seen so far
	terms   []int32         // terms in all chunks
	entries []occurrence
	doc     int32
	first   int32            // first entry of the current document
	lengths [][fields]uint16 // lengths of the fields, by document
}

// span is a range of terms.
type span struct{ start, end int32 }

// occurrence counts how often a term occurs in each field of a document.
type occurrence struct {
	term, doc int32
	counts    [fields]uint16
}

func newTermBuilder(docs, room int) *termBuilder {
	return &termBuilder{
		ids: make(map[string]int32), chunks: make(map[string]span),
		entries: make([]occurrence, 0, room), lengths: make([][fields]uint16, 0, docs),
	}
}

func (b *termBuilder) read(d *Doc) {
	b.doc, b.first = int32(len(b.lengths)), int32(len(b.entries)) //nolint:gosec // documents and their words are bounded
	b.lengths = append(b.lengths, [fields]uint16{})
	b.field(fieldName, d.Name, maxLabel)
	b.field(fieldTitle, d.Title, maxLabel)
	b.field(fieldOrigin, d.Server, maxLabel)
	b.field(fieldOrigin, d.Category, maxLabel)
	b.field(fieldText, d.Text, maxText)
	room := maxArgs
	for _, a := range d.Args {
		room -= b.field(fieldArgNames, a.Name, min(room, maxLabel))
		room -= b.field(fieldArgTexts, a.Text, min(room, maxArgText))
	}
}

// field adds the terms in a text. It returns the number of bytes read, which is at most limit.
func (b *termBuilder) field(f field, text string, limit int) int {
	text = untrusted.Prefix(text, limit)
	for chunk := range chunks(text) {
		s, ok := b.chunks[chunk]
		if !ok {
			s = b.analyze(chunk)
		}
		for _, term := range b.terms[s.start:s.end] {
			b.add(f, term)
		}
	}
	return len(text)
}

// analyze returns the terms in a new chunk.
func (b *termBuilder) analyze(chunk string) span {
	s := span{start: int32(len(b.terms))} //nolint:gosec // there are fewer terms than bytes
	terms(chunk, func(term string) {
		id, ok := b.ids[term]
		if !ok {
			id = int32(len(b.docs)) //nolint:gosec // as above
			b.ids[strings.Clone(term)] = id
			b.docs, b.last = append(b.docs, 0), append(b.last, -1)
		}
		b.terms = append(b.terms, id)
	})
	s.end = int32(len(b.terms)) //nolint:gosec // as above
	b.chunks[chunk] = s
	return s
}

// add counts a term in the current document.
func (b *termBuilder) add(f field, term int32) {
	at := b.last[term]
	if at < b.first {
		at = int32(len(b.entries)) //nolint:gosec // documents are bounded
		b.entries = append(b.entries, occurrence{term: term, doc: b.doc})
		b.last[term] = at
		b.docs[term]++
	}
	b.entries[at].counts[f]++
	b.lengths[b.doc][f]++
}

// finish computes the weights and groups them by term.
func (b *termBuilder) finish() termIndex {
	x := termIndex{
		ids:    b.ids,
		rarity: make([]float32, len(b.docs)),
		first:  make([]int32, len(b.docs)+1),
		gains:  make([]gain, len(b.entries)),
		grams:  newGramIndex(b.ids),
	}
	at := b.last // next gain of each term
	var sum int32
	for term, n := range b.docs {
		x.first[term], at[term] = sum, sum
		sum += n
		x.rarity[term] = float32(rarity(int(n), len(b.lengths)))
	}
	x.first[len(b.docs)] = sum
	norms := b.norms()
	for i := range b.entries {
		e := &b.entries[i]
		var tf float64
		for f, n := range e.counts {
			if n > 0 {
				tf += float64(n) * norms[e.doc][f]
			}
		}
		x.gains[at[e.term]] = gain{e.doc, float32(tf * (1 + saturation) / (tf + saturation))}
		at[e.term]++
	}
	return x
}

// norms returns the weight of a single occurrence in each field of each document.
func (b *termBuilder) norms() [][fields]float64 {
	var sums [fields]float64
	for _, lengths := range b.lengths {
		for f, n := range lengths {
			sums[f] += float64(n)
		}
	}
	norms := make([][fields]float64, len(b.lengths))
	for doc, lengths := range b.lengths {
		for f, n := range lengths {
			if n > 0 {
				mean := sums[f] / float64(len(b.lengths))
				norms[doc][f] = fieldWeight[f] / (1 - fieldLength[f] + fieldLength[f]*float64(n)/mean)
			}
		}
	}
	return norms
}

// rarity returns the inverse document frequency of a term that occurs in n of all documents. It is
// damped, because the rarest words in a long request are often names and values rather than
// descriptions of what the tool does.
func rarity(n, all int) float64 {
	return math.Pow(math.Log1p((float64(all-n)+0.5)/(float64(n)+0.5)), damping)
}
