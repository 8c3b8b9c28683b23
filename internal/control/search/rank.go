package search

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Bounds of a request and of its answer.
const (
	MaxRequest   = 2000 // bytes that Rank reads
	MaxHits      = 50   // hits that Rank returns
	maxTerms     = 64   // of a request
	maxSentences = 12
	minSentence  = 2 // terms of a sentence that is scored by itself
)

// Rank returns the documents that fit a request in natural language best, at most limit and at most
// MaxHits; ties are in the order of the documents. Keep may be nil.
//
// The terms of a request need not all match. A document's score is the sum over the terms (BM25F),
// plus the best score of any one sentence, because a request may describe several tools. One server
// has at most half of the hits, unless the other servers have too few. If no term matches, Rank
// returns the result of Find.
func (x *Index) Rank(text string, limit int, keep func(i int) bool) []Hit {
	limit = min(limit, MaxHits)
	if limit <= 0 {
		return nil
	}
	s := &ranking{Index: x, total: make([]float32, x.len()), best: make([]float32, x.len()), sentence: make([]float32, x.len())}
	s.score(parseRequest(text), keep)
	hits := s.page(s.matches(), limit)
	if len(hits) == 0 {
		hits = x.Find(text, keep)
	}
	return hits[:min(limit, len(hits))]
}

// request is a parsed request.
type request struct {
	terms     []string   // each once
	sentences [][]string // if there are several
}

// parseRequest reads a request up to its bounds.
func parseRequest(text string) (r request) {
	seen := make(map[string]bool)
	count := 0
	for _, part := range sentences(untrusted.Prefix(text, MaxRequest)) {
		var sentence []string
		for chunk := range strings.FieldsFuncSeq(part, isBreak) {
			terms(chunk, func(term string) {
				if count == maxTerms || slices.Contains(sentence, term) {
					return
				}
				count++
				sentence = append(sentence, term)
				if !seen[term] {
					seen[term] = true
					r.terms = append(r.terms, term)
				}
			})
		}
		if len(sentence) >= minSentence && len(r.sentences) < maxSentences {
			r.sentences = append(r.sentences, sentence)
		}
	}
	if len(r.sentences) < 2 {
		r.sentences = nil
	}
	return r
}

// sentences splits a text at line breaks and at marks that end a sentence.
func sentences(text string) (list []string) {
	start, ended := 0, false
	for i, r := range text {
		switch {
		case r == '\n' || r == ';' || r == '。' || r == '！' || r == '？' || ended && unicode.IsSpace(r):
			list = append(list, text[start:i])
			start, ended = i, false
		default:
			ended = r == '.' || r == '!' || r == '?'
		}
	}
	return append(list, text[start:])
}

// ranking is one search by Rank. Its slices have a score for each document; documents that do not
// match or that keep rejects have none.
type ranking struct {
	*Index
	total    []float32 // over all terms
	best     []float32 // of the sentences, each relative to its best document
	sentence []float32 // of the current sentence
}

func (s *ranking) score(r request, keep func(int) bool) {
	for _, term := range r.terms {
		s.add(s.total, term)
	}
	if keep != nil {
		for doc, score := range s.total {
			if score > 0 && !keep(doc) {
				s.total[doc] = 0
			}
		}
	}
	for _, sentence := range r.sentences {
		clear(s.sentence)
		for _, term := range sentence {
			s.add(s.sentence, term)
		}
		s.addBest()
	}
}

// add adds the weights of a term to the scores of the documents.
func (s *ranking) add(scores []float32, term string) {
	id, ok := s.terms.ids[term]
	if !ok {
		return
	}
	rarity := s.terms.rarity[id]
	for _, p := range s.terms.of(id) {
		scores[p.doc] += rarity * p.weight
	}
}

// addBest records how well the current sentence fits each document.
func (s *ranking) addBest() {
	var most float32
	for doc, score := range s.sentence {
		if score > most && s.total[doc] > 0 {
			most = score
		}
	}
	if most == 0 {
		return
	}
	for doc, score := range s.sentence {
		if score > 0 {
			s.best[doc] = max(s.best[doc], score/most)
		}
	}
}

// matches returns the documents with their scores, in order of position.
func (s *ranking) matches() (hits []Hit) {
	var most float32
	for _, score := range s.total {
		most = max(most, score)
	}
	for doc, score := range s.total {
		if score > 0 {
			hits = append(hits, Hit{Doc: doc, Score: float64(score/most + s.best[doc])})
		}
	}
	s.boost(hits)
	return hits
}

// boost adds to each score a part of the best scores of the same server, because tools of one server
// are used together.
func (s *ranking) boost(hits []Hit) {
	top := make([][boosting]float64, s.servers)
	for _, h := range hits {
		if server := s.server[h.Doc]; server >= 0 {
			score := h.Score
			for i, other := range top[server] {
				if score > other {
					top[server][i], score = score, other
				}
			}
		}
	}
	for i, h := range hits {
		if server := s.server[h.Doc]; server >= 0 {
			var sum float64
			for _, score := range top[server] {
				sum += score
			}
			hits[i].Score += serverBoost * sum / boosting
		}
	}
}

const (
	boosting    = 3   // number of best scores of a server that boost the others
	serverBoost = 0.2 // weight of their mean
)

// page returns the best hits. If one server has more than half of them, the best of the other
// servers precede the second half.
func (s *ranking) page(hits []Hit, limit int) []Hit {
	page := best(hits, limit, func(Hit) bool { return true })
	half := (limit + 1) / 2
	server, n := s.dominant(page)
	if n <= half {
		return page
	}
	others := best(hits, limit-half, func(h Hit) bool { return s.server[h.Doc] != server })
	own := slices.DeleteFunc(page, func(h Hit) bool { return s.server[h.Doc] != server })
	page = slices.Concat(own[:half], others)
	slices.SortFunc(page, better)
	return append(page, own[half:min(len(own), limit-len(others))]...)
}

// dominant returns the server with the most hits, and their number.
func (s *ranking) dominant(hits []Hit) (server int32, n int) {
	counts := make(map[int32]int)
	for _, h := range hits {
		if id := s.server[h.Doc]; id >= 0 {
			if counts[id]++; counts[id] > n {
				server, n = id, counts[id]
			}
		}
	}
	return server, n
}

// best returns the best of the hits that keep accepts, in order.
func best(hits []Hit, limit int, keep func(Hit) bool) []Hit {
	top := make([]Hit, 0, limit+1)
	for _, h := range hits {
		if len(top) == limit && (limit == 0 || better(h, top[limit-1]) >= 0) || !keep(h) {
			continue
		}
		at, _ := slices.BinarySearchFunc(top, h, better)
		top = slices.Insert(top, at, h)
		top = top[:min(len(top), limit)]
	}
	return top
}

// Category is a group of documents.
type Category struct {
	Name  string
	Count int
}

// Categories returns the categories of the documents for which keep returns true, the largest first.
// A document without a category counts for its server. Keep may be nil.
func (x *Index) Categories(keep func(i int) bool) []Category {
	counts := make([]Category, len(x.categories))
	for i, name := range x.categories {
		counts[i].Name = name
	}
	for doc, category := range x.category {
		if category >= 0 && (keep == nil || keep(doc)) {
			counts[category].Count++
		}
	}
	counts = slices.DeleteFunc(counts, func(c Category) bool { return c.Count == 0 })
	slices.SortFunc(counts, func(a, b Category) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return counts
}
