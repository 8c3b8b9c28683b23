package search

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// stopWords are words with no meaning in a request or a description.
var stopWords = setOf(`
	a about above after again all also am an and any are as at based be because been before being below between both
	but by can could did do does doing down during e each eg etc few for from further g give given had has have
	having he help her here hers him his how i ie if in into is it its itself just know let like look looking may me
	might more most must my need no nor not now of off on once only or other our ours out over own please provide
	shall she should so some specified such tell than that the their theirs them then there these they this those
	through to too under until up upon us use used using very via want was we were what when where which while who
	whom whose why will with would you your yours`)

func setOf(words string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// terms yields the terms in a chunk, which is a run of letters, marks and numbers. The terms are
// the stems of the chunk and of each of its parts by case, and the bigrams in scripts that do not
// separate words. A chunk that has no meaning yields none.
func terms(chunk string, yield func(term string)) {
	if !isASCII(chunk) {
		chunk = wordsOf(chunk, yield)
	}
	if parts := camel(chunk); len(parts) > 1 {
		for _, part := range parts {
			yieldWord(part, yield)
		}
	}
	yieldWord(chunk, yield)
}

func yieldWord(word string, yield func(string)) {
	if word = fold(word); word != "" && !stopWords[word] {
		yield(stem(word))
	}
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// wordsOf yields the bigrams of unspaced scripts in a chunk, and the words between them. If the
// chunk contains no such script, it returns the chunk itself.
func wordsOf(chunk string, yield func(string)) string {
	start, run := 0, false // start of the current run, and whether its script is unspaced
	for i, r := range chunk {
		if now := isUnspaced(r); now != run && !unicode.IsMark(r) {
			yieldRun(chunk[start:i], run, yield)
			start, run = i, now
		}
	}
	if start == 0 && !run {
		return chunk
	}
	yieldRun(chunk[start:], run, yield)
	return ""
}

func yieldRun(run string, unspaced bool, yield func(string)) {
	if !unspaced {
		yieldWord(run, yield)
		return
	}
	before, count := 0, 0 // start of the previous character, and number of characters
	for i, r := range run {
		if count > 0 {
			yield(run[before : i+utf8.RuneLen(r)])
		}
		before = i
		count++
	}
	if count == 1 {
		yield(run)
	}
}

// isUnspaced reports whether a character belongs to a script that is written without spaces.
func isUnspaced(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// stem removes common endings from an English word, so that its forms share one term: creates,
// created, creating and creation become creat. Stems don't have to be words.
func stem(word string) string {
	for i := range len(word) {
		if c := word[i]; c < 'a' || c > 'z' {
			return word
		}
	}
	word = trimPlural(word)
	for _, ending := range endings {
		if rest, ok := strings.CutSuffix(word, ending.text); ok && len(rest) >= ending.rest {
			word = rest
			if ending.doubles {
				word = trimDouble(word)
			}
			break
		}
	}
	if n := len(word) - 1; n >= 3 && (word[n] == 'e' || word[n] == 'y') {
		word = word[:n]
	}
	return word
}

type ending struct {
	text    string
	rest    int  // minimum length of the stem
	doubles bool // whether the ending doubles the last consonant
}

// endings are the endings that stem removes. The first match wins.
var endings = []ending{
	{"ing", 3, true},
	{"ed", 3, true},
	{"ment", 4, false},
	{"ion", 4, false},
	{"ly", 4, false},
}

func trimPlural(word string) string {
	n := len(word)
	switch {
	case n < 4 || word[n-1] != 's' || word[n-2] == 's' || word[n-2] == 'u' || word[n-2] == 'i':
		return word
	case n > 4 && strings.HasSuffix(word, "ies"):
		return word[:n-3] + "y"
	case strings.HasSuffix(word, "sses"), strings.HasSuffix(word, "xes"), strings.HasSuffix(word, "ches"), strings.HasSuffix(word, "shes"):
		return word[:n-2]
	}
	return word[:n-1]
}

// trimDouble removes the second of two equal consonants at the end of a word.
func trimDouble(word string) string {
	n := len(word)
	if n < 4 || word[n-1] != word[n-2] || strings.IndexByte("lsz", word[n-1]) >= 0 {
		return word
	}
	return word[:n-1]
}
