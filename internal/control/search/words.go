package search

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Limits on untrusted text, in bytes.
const (
	maxQuery   = 256
	maxLabel   = 256 // name, title, server or category
	maxText    = 2 << 10
	maxArgs    = 4 << 10 // all arguments of a tool
	maxArgText = 512
	maxWord    = 64
)

const (
	maxWords   = 16 // words in a query
	minTypo    = 4  // minimum letters in a word that may contain a typo
	maxTypos   = 3  // words in a query that may contain a typo
	maxHeads   = 1 << 17
	minInside  = 2 // minimum letters of a match inside a name
	fairInside = 3 // minimum letters of a match inside a name that gets the full weight
)

// query is a parsed query.
type query struct {
	words []string // lower case, distinct
	whole string   // all letters and digits in lower case
}

func parse(s string) (q query) {
	s = untrusted.Prefix(s, maxQuery)
	seen := make(map[string]bool)
	for chunk := range chunks(s) {
		if word := fold(chunk); len(q.words) < maxWords && !seen[word] {
			seen[word] = true
			q.words = append(q.words, word)
		}
	}
	q.whole = squeeze(s)
	return q
}

// chunks yields the runs of letters, marks and numbers in a text.
func chunks(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start := -1 // start of the current chunk
		for i := 0; i < len(text); {
			r, size := rune(text[i]), 1
			if r >= utf8.RuneSelf {
				r, size = utf8.DecodeRuneInString(text[i:])
			}
			switch {
			case !isBreak(r):
				if start < 0 {
					start = i
				}
			case start >= 0:
				if !yield(text[start:i]) {
					return
				}
				start = -1
			}
			i += size
		}
		if start >= 0 {
			yield(text[start:])
		}
	}
}

// isBreak reports whether a character separates words.
func isBreak(r rune) bool {
	if r < utf8.RuneSelf {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}
	return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r)
}

// fold returns a word in the form used for comparison.
func fold(chunk string) string { return untrusted.Prefix(strings.ToLower(chunk), maxWord) }

// squeeze removes the separators from a name.
func squeeze(name string) string {
	var b strings.Builder
	for chunk := range chunks(name) {
		b.WriteString(strings.ToLower(chunk))
	}
	return b.String()
}

// camel splits part of a name at changes of case: getUserID becomes get, User and ID, and
// HTTPServer becomes HTTP and Server.
func camel(chunk string) []string {
	var parts []string
	start, before, upper := 0, 0, false // start of the part, start of the previous character, and whether that is upper case
	for i, r := range chunk {
		now := unicode.IsUpper(r)
		switch {
		case now && !upper && i > start:
			parts, start = append(parts, chunk[start:i]), i
		case !now && upper && unicode.IsLetter(r) && before > start:
			parts, start = append(parts, chunk[start:before]), before
		}
		before, upper = i, now
	}
	return append(parts, chunk[start:])
}

// singular returns possible singular forms of a word.
func singular(word string) []string {
	if len(word) < minTypo || !strings.HasSuffix(word, "s") || strings.HasSuffix(word, "ss") {
		return nil
	}
	forms := []string{word[:len(word)-1]}
	if stem, ok := strings.CutSuffix(word, "ies"); ok {
		return append(forms, stem+"y")
	}
	if stem, ok := strings.CutSuffix(word, "es"); ok {
		return append(forms, stem)
	}
	return forms
}

// nearly reports whether a word is a prefix of another after adding, dropping or changing one
// letter, or swapping two adjacent letters.
func nearly(word, other string) bool {
	i := 0
	for i < len(word) && i < len(other) && word[i] == other[i] {
		i++
	}
	for i > 0 && i < len(word) && !utf8.RuneStart(word[i]) {
		i--
	}
	word, other = word[i:], other[i:]
	if word == "" {
		return true
	}
	a, n := utf8.DecodeRuneInString(word)
	if strings.HasPrefix(other, word[n:]) { // one letter too many
		return true
	}
	if other == "" {
		return false
	}
	b, m := utf8.DecodeRuneInString(other)
	if strings.HasPrefix(other[m:], word[n:]) || strings.HasPrefix(other[m:], word) { // a different letter, or one missing
		return true
	}
	c, k := utf8.DecodeRuneInString(word[n:])
	d, l := utf8.DecodeRuneInString(other[m:])
	return a == d && b == c && strings.HasPrefix(other[m+l:], word[n+k:])
}
