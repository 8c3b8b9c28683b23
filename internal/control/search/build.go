package search

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Weights of a word by field. The ranges do not overlap, even for prefix matches, so a document's
// best field decides.
const (
	inName   = 240 // if the name is a single word
	inTitle  = 160
	inside   = 120 // anywhere inside a name
	inOrigin = 100 // server and category
	inText   = 40  // plus up to textGain
	textGain = 20
	inShort  = 10 // one or two letters inside a name

	longName  = 2 // subtracted for each additional word in a name
	longNames = 8 // maximum number of words for which longName is subtracted
)

// BM25 constants for texts, and typical lengths.
const (
	saturation = 1.2
	lengthPart = 0.75
	usualWords = 40
	usualBytes = 8 // a word and its separator
)

// posting is an occurrence of a word in a document.
type posting struct {
	word, doc int32
	level     uint8
}

// builder builds an index.
type builder struct {
	ids      map[string]int32
	words    []string
	head     []bool // whether a word occurs outside texts
	lastDoc  []int32
	lastAt   []int32 // index in found
	postings []posting

	doc   int32
	found []entry // words found in the current document
}

// entry is a word in the current document.
type entry struct {
	word  int32
	level uint8 // weight of the best field other than the text
	times int   // number of occurrences in the text
}

// New builds an index.
func New(docs []Doc) *Index {
	room := 0 // estimated number of postings
	for _, d := range docs {
		room += 8 + min(len(d.Text), maxText)/usualBytes
	}
	labelled := slices.Clone(docs) // copied without the arguments, which Find does not use
	for i := range labelled {
		labelled[i].Args = nil
	}
	x := &Index{starts: make([]int32, 0, len(docs)+1)}
	terms, servers, categories := newTermBuilder(len(docs), 2*room), newLabels(), newLabels()
	var names strings.Builder
	for _, d := range docs {
		x.starts = append(x.starts, int32(names.Len())) //nolint:gosec // names are at most 256 bytes
		names.WriteString(squeeze(untrusted.Prefix(d.Name, maxLabel)))
		names.WriteByte(0)
		terms.read(&d)
		x.server = append(x.server, servers.id(d.Server))
		x.category = append(x.category, categories.id(cmp.Or(d.Category, d.Server)))
	}
	x.starts = append(x.starts, int32(names.Len())) //nolint:gosec // as above
	x.names = names.String()
	x.words = sync.OnceValue(func() *wordIndex { return newWordIndex(labelled, room) })
	x.terms, x.servers, x.categories = terms.finish(), len(servers.names), categories.names
	return x
}

// newWordIndex builds the index of words. room is the estimated number of postings.
func newWordIndex(docs []Doc, room int) *wordIndex {
	b := &builder{ids: make(map[string]int32), postings: make([]posting, 0, room)}
	for i, d := range docs {
		b.read(int32(i), d)
	}
	return b.finish()
}

// labels assigns numbers to strings.
type labels struct {
	ids   map[string]int32
	names []string
}

func newLabels() *labels { return &labels{ids: make(map[string]int32)} }

// id returns a label's number, or none if it is empty.
func (l *labels) id(label string) int32 {
	if label = untrusted.Prefix(label, maxLabel); label == "" {
		return none
	}
	id, ok := l.ids[label]
	if !ok {
		id = int32(len(l.names)) //nolint:gosec // there are fewer labels than documents
		label = strings.Clone(label)
		l.ids[label] = id
		l.names = append(l.names, label)
	}
	return id
}

func (b *builder) read(doc int32, d Doc) {
	b.doc, b.found = doc, b.found[:0]
	b.name(untrusted.Prefix(d.Name, maxLabel))
	b.field(d.Title, inTitle)
	b.field(d.Server, inOrigin)
	b.field(d.Category, inOrigin)
	length := 0
	for chunk := range chunks(untrusted.Prefix(d.Text, maxText)) {
		b.entryOf(fold(chunk)).times++
		length++
	}
	norm := saturation * (1 - lengthPart + lengthPart*float64(length)/usualWords)
	for _, e := range b.found {
		level := e.level
		if level == 0 {
			level = inText + uint8(textGain*float64(e.times)/(float64(e.times)+norm))
		} else {
			b.head[e.word] = true
		}
		b.postings = append(b.postings, posting{e.word, doc, level})
	}
}

// name adds the words in a name, both whole and split at changes of case.
func (b *builder) name(name string) {
	var words []string
	count := 0
	for chunk := range chunks(name) {
		parts := camel(chunk)
		count += len(parts)
		words = append(words, chunk)
		if len(parts) > 1 {
			words = append(words, parts...)
		}
	}
	level := uint8(inName - longName*min(max(count-1, 0), longNames))
	for _, word := range words {
		e := b.entryOf(fold(word))
		e.level = max(e.level, level)
	}
}

func (b *builder) field(text string, level uint8) {
	for chunk := range chunks(untrusted.Prefix(text, maxLabel)) {
		e := b.entryOf(fold(chunk))
		e.level = max(e.level, level)
	}
}

// entryOf returns the entry for a word in the current document.
func (b *builder) entryOf(word string) *entry {
	id, ok := b.ids[word]
	if !ok {
		id = int32(len(b.words))   //nolint:gosec // there are fewer words than bytes
		word = strings.Clone(word) // don't retain the text
		b.ids[word] = id
		b.words, b.head = append(b.words, word), append(b.head, false)
		b.lastDoc, b.lastAt = append(b.lastDoc, -1), append(b.lastAt, 0)
	}
	if b.lastDoc[id] != b.doc {
		b.lastDoc[id], b.lastAt[id] = b.doc, int32(len(b.found)) //nolint:gosec // a document has few words
		b.found = append(b.found, entry{word: id})
	}
	return &b.found[b.lastAt[id]]
}

// finish sorts the words and groups the postings by word.
func (b *builder) finish() *wordIndex {
	x := &wordIndex{}
	order := make([]int32, len(b.words))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int { return cmp.Compare(b.words[i], b.words[j]) })
	counts := make([]int32, len(b.words))
	for _, p := range b.postings {
		counts[p.word]++
	}
	x.sorted, x.first = make([]string, len(order)), make([]int32, len(order)+1)
	at := counts // index of each word's next posting
	var sum int32
	for rank, id := range order {
		x.sorted[rank], x.first[rank] = b.words[id], sum
		if b.head[id] && len(x.heads) < maxHeads && utf8.RuneCountInString(b.words[id]) >= minTypo-1 {
			x.heads = append(x.heads, int32(rank))
		}
		sum, at[id] = sum+counts[id], sum
	}
	x.first[len(order)] = sum
	x.docs, x.levels = make([]int32, sum), make([]uint8, sum)
	for _, p := range b.postings {
		x.docs[at[p.word]], x.levels[at[p.word]] = p.doc, p.level
		at[p.word]++
	}
	return x
}
