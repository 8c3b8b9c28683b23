package search

import (
	"cmp"
	"slices"
)

// Limits on Rank.
const (
	MaxRequest = 2000 // bytes of a request to read
	MaxHits    = 50
)

const (
	boosting    = 3   // number of a server's best scores that boost its other documents
	serverBoost = 0.2 // weight of the mean of these scores
)

// Rank returns the documents that best match a natural-language request, at most limit and at most
// MaxHits; ties are in document order. keep may be nil.
//
// A document does not have to match every word in the request. Its score is the sum over the words
// (BM25F), relative to the best document, plus its best score for any single sentence, because a
// request may need several tools. A single server gets at most half of the hits, unless there are
// too few others. If no word matches, Rank returns the hits of Find.
func (x *Index) Rank(text string, limit int, keep func(i int) bool) []Hit {
	limit = min(limit, MaxHits)
	if limit <= 0 {
		return nil
	}
	s := x.newRanking()
	defer x.rankings.Put(s)
	s.score(parseRequest(text), keep)
	hits := s.page(limit)
	if len(hits) == 0 {
		hits = x.Find(text, keep)
	}
	return hits[:min(limit, len(hits))]
}

// ranking is one search by Rank. It contains a score for each document, which is zero if the
// document does not match or is not kept.
type ranking struct {
	*Index
	scores    []float32
	sentence  []float32           // scores for the current sentence
	sentences []float32           // best scores for any sentence, each relative to its best document
	servers   [][boosting]float32 // each server's best scores, in descending order
	shared    []uint8             // scratch space for near
}

// newRanking returns an empty ranking. Its memory is pooled.
func (x *Index) newRanking() *ranking {
	s, ok := x.rankings.Get().(*ranking)
	if !ok {
		n := x.len()
		return &ranking{
			Index: x, scores: make([]float32, n), sentence: make([]float32, n), sentences: make([]float32, n),
			servers: make([][boosting]float32, x.servers), shared: make([]uint8, len(x.terms.ids)),
		}
	}
	clear(s.scores)
	clear(s.sentences)
	clear(s.servers)
	return s
}

func (s *ranking) score(r request, keep func(int) bool) {
	matches := make([][]match, len(r.words))
	for i, word := range r.words {
		matches[i] = s.terms.match(word, s.shared)
		s.add(s.scores, matches[i])
	}
	if keep != nil {
		for doc, score := range s.scores {
			if score > 0 && !keep(doc) {
				s.scores[doc] = 0
			}
		}
	}
	for _, sentence := range r.sentences {
		clear(s.sentence)
		for _, word := range sentence {
			s.add(s.sentence, matches[word])
		}
		s.addSentence()
	}
	s.combine()
	s.boost()
}

// add adds the gains of the matching terms to the documents' scores.
func (s *ranking) add(scores []float32, matches []match) {
	for _, m := range matches {
		for _, g := range s.terms.of(m.term) {
			scores[g.doc] += m.weight * g.gain
		}
	}
}

// addSentence records how well the current sentence matches each document.
func (s *ranking) addSentence() {
	var top float32
	for doc, score := range s.sentence {
		if score > top && s.scores[doc] > 0 {
			top = score
		}
	}
	if top == 0 {
		return
	}
	for doc, score := range s.sentence {
		if score > 0 {
			s.sentences[doc] = max(s.sentences[doc], score/top)
		}
	}
}

// combine makes the scores relative to the best, and adds the scores for sentences.
func (s *ranking) combine() {
	var top float32
	for _, score := range s.scores {
		top = max(top, score)
	}
	for doc, score := range s.scores {
		if score > 0 {
			s.scores[doc] = score/top + s.sentences[doc]
		}
	}
}

// boost adds part of a server's best scores to all of its documents, because tools from the same
// server are often used together.
func (s *ranking) boost() {
	for doc, score := range s.scores {
		if server := s.server[doc]; score > 0 && server >= 0 {
			top := &s.servers[server]
			for i := range top {
				if score > top[i] {
					score, top[i] = top[i], score
				}
			}
		}
	}
	for doc, score := range s.scores {
		if server := s.server[doc]; score > 0 && server >= 0 {
			top := s.servers[server]
			s.scores[doc] += serverBoost / boosting * (top[0] + top[1] + top[2])
		}
	}
}

// page returns the best hits. If a server has more than half of them, its remaining hits follow the
// best hits of all others.
func (s *ranking) page(limit int) []Hit {
	page := s.best(limit, none)
	half := (limit + 1) / 2
	server, n := s.mostFrequent(page)
	if n <= half {
		return page
	}
	own := slices.DeleteFunc(page, func(h Hit) bool { return s.server[h.Doc] != server })
	others := s.best(limit-half, server)
	page = slices.Concat(own[:half], others)
	slices.SortFunc(page, better)
	return append(page, own[half:min(len(own), limit-len(others))]...)
}

// mostFrequent returns the server with the most hits, and the number of its hits. Documents that
// have no server do not count.
func (s *ranking) mostFrequent(hits []Hit) (server int32, n int) {
	counts := make(map[int32]int)
	for _, h := range hits {
		if id := s.server[h.Doc]; id != none {
			if counts[id]++; counts[id] > n {
				server, n = id, counts[id]
			}
		}
	}
	return server, n
}

// best returns the best hits in order, excluding one server's.
func (s *ranking) best(limit int, except int32) []Hit {
	top := make([]Hit, 0, limit+1)
	least := float32(0) // score that a further hit must exceed
	for doc, score := range s.scores {
		if score <= least || (except != none && s.server[doc] == except) {
			continue
		}
		h := Hit{Doc: doc, Score: float64(score)}
		at, _ := slices.BinarySearchFunc(top, h, better)
		if top = slices.Insert(top, at, h); len(top) > limit {
			top = top[:limit]
		}
		if len(top) == limit && limit > 0 {
			least = float32(top[limit-1].Score)
		}
	}
	return top
}

// Category is a group of documents.
type Category struct {
	Name  string
	Count int
}

// Categories returns the categories of the documents for which keep returns true, largest first. A
// document that has no category counts toward its server. keep may be nil.
func (x *Index) Categories(keep func(i int) bool) []Category {
	list := make([]Category, len(x.categories))
	for i, name := range x.categories {
		list[i].Name = name
	}
	for doc, category := range x.category {
		if category != none && (keep == nil || keep(doc)) {
			list[category].Count++
		}
	}
	list = slices.DeleteFunc(list, func(c Category) bool { return c.Count == 0 })
	slices.SortFunc(list, func(a, b Category) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return list
}
