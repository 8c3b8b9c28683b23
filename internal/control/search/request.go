package search

import (
	"slices"
	"unicode"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

const (
	maxRequestWords = 64
	maxSentences    = 12
	minSentence     = 2 // minimum number of words in a sentence that is scored separately
)

// request is a parsed request for Rank.
type request struct {
	words     []string // distinct terms
	sentences [][]int  // positions in words; empty if there is only one sentence
}

// parseRequest parses a request up to the limits.
func parseRequest(text string) (r request) {
	words := 0
	for _, part := range sentences(untrusted.Prefix(text, MaxRequest)) {
		var sentence []int
		for chunk := range chunks(part) {
			terms(chunk, func(term string) {
				if words == maxRequestWords {
					return
				}
				at := slices.Index(r.words, term)
				if at < 0 {
					at = len(r.words)
					r.words = append(r.words, term)
				}
				if !slices.Contains(sentence, at) {
					sentence = append(sentence, at)
					words++
				}
			})
		}
		if len(sentence) >= minSentence && len(r.sentences) < maxSentences {
			r.sentences = append(r.sentences, sentence)
		}
	}
	if len(r.sentences) == 1 {
		r.sentences = nil
	}
	return r
}

// sentences splits a text at line breaks and at punctuation that ends a sentence.
func sentences(text string) (list []string) {
	start, ended := 0, false
	for i, r := range text {
		if isTerminator(r) || (ended && unicode.IsSpace(r)) {
			list = append(list, text[start:i])
			start = i
		}
		ended = r == '.' || r == '!' || r == '?'
	}
	return append(list, text[start:])
}

// isTerminator reports whether a character ends a sentence, regardless of what follows.
func isTerminator(r rune) bool {
	return r == '\n' || r == ';' || r == '。' || r == '！' || r == '？'
}
