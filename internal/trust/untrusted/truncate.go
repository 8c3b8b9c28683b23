package untrusted

import (
	"strings"
	"unicode/utf8"
)

const ellipsis = "…"

// Prefix returns the first max bytes of s, or fewer to avoid splitting a character.
func Prefix(s string, max int) string {
	if len(s) <= max {
		return s
	}
	end := max
	for end > 0 && max-end < utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// Suffix returns the last max bytes of s, or fewer to avoid splitting a character.
func Suffix(s string, max int) string {
	if len(s) <= max {
		return s
	}
	start := len(s) - max
	for n := 0; start < len(s) && n < utf8.UTFMax && !utf8.RuneStart(s[start]); n++ {
		start++
	}
	return s[start:]
}

// Truncate shortens s to at most max bytes, including the ellipsis that marks the cut.
func Truncate(s string, max int) string {
	if len(s) <= max {
		return s
	}
	return Prefix(s, max-len(ellipsis)) + ellipsis
}

// TruncateRunes shortens s to at most max characters, including the ellipsis that marks the cut.
func TruncateRunes(s string, max int) string {
	count, end := 0, 0
	for i := range s {
		if count == max-1 {
			end = i
		}
		if count == max {
			return strings.TrimRight(s[:end], " ") + ellipsis
		}
		count++
	}
	return s
}
