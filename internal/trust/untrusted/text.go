// Package untrusted makes text from untrusted senders safe to display: it detects hidden
// characters, quotes and shortens names, and finds names that look alike.
package untrusted

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// HiddenTextError is returned for text that contains a character users cannot see.
type HiddenTextError struct {
	Offset int // in bytes
	Rune   rune
	Kind   string
}

func (e *HiddenTextError) Error() string {
	return fmt.Sprintf("%U at byte %d is %s", e.Rune, e.Offset, e.Kind)
}

// The kinds of hidden characters.
const (
	notText      = "not UTF-8"
	isEscape     = "a terminal escape"
	isControl    = "a control character"
	isDirection  = "a text-direction control"
	isInvisible  = "an invisible character"
	isTag        = "a tag character, which is invisible to users"
	isVariation  = "a variation selector that follows no visible character"
	isPrivate    = "a private-use character"
	isNoChar     = "not a character"
	isBreak      = "a line separator that many programs do not show"
	isMisplaced  = "an invisible joiner in a script that does not use it"
	isAnnotation = "an invisible annotation"
)

const (
	zeroWidthSpace     = '\u200B'
	zeroWidthNonJoiner = '\u200C'
	zeroWidthJoiner    = '\u200D'
	textStyle          = '\uFE0E'
	emojiStyle         = '\uFE0F'
)

// CheckText rejects text that looks different to a user than to a model. It rejects control
// characters except
// , \t and \r, terminal escapes, direction controls, tags, private use characters, and invisible
// characters, unless the surrounding script or emoji requires them. The error is a
// [*HiddenTextError].
func CheckText(s string) error {
	var before, base rune // previous character, and last character that is not a mark
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			return &HiddenTextError{i, rune(s[i]), notText}
		}
		if n := countryFlag(s[i:]); n > 0 {
			before, base = r, r
			i += n
			continue
		}
		if kind := hiddenKind(r); kind != "" {
			after, _ := utf8.DecodeRuneInString(s[i+size:])
			if !isNeeded(r, before, base, after) {
				return &HiddenTextError{i, r, kind}
			}
		}
		if !unicode.Is(unicode.M, r) {
			base = r
		}
		before = r
		i += size
	}
	return nil
}

// countryFlag returns the length of the flag of England, Scotland or Wales at the start of s.
// Unicode encodes these flags with tags.
func countryFlag(s string) int {
	const black = "\U0001F3F4"
	if !strings.HasPrefix(s, black) {
		return 0
	}
	for _, country := range [...]string{"\U000E0065\U000E006E\U000E0067", "\U000E0073\U000E0063\U000E0074", "\U000E0077\U000E006C\U000E0073"} {
		if flag := black + "\U000E0067\U000E0062" + country + "\U000E007F"; strings.HasPrefix(s, flag) {
			return len(flag)
		}
	}
	return 0
}

// hiddenKind returns the kind of a hidden character, or "".
func hiddenKind(r rune) string {
	switch {
	case ' ' <= r && r <= '~', r == '\n', r == '\t', r == '\r':
		return ""
	case r == '\x1b', r == '\u009b', r == '\u0090', r == '\u009d':
		return isEscape
	case unicode.Is(unicode.Cc, r):
		return isControl
	case unicode.Is(unicode.Bidi_Control, r), 0x206A <= r && r <= 0x206F:
		return isDirection
	case r == zeroWidthNonJoiner, r == zeroWidthJoiner:
		return isMisplaced
	case 0xE0000 <= r && r <= 0xE007F:
		return isTag
	case unicode.Is(unicode.Variation_Selector, r):
		return isVariation
	case 0xFFF9 <= r && r <= 0xFFFB:
		return isAnnotation
	case unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
		return isBreak
	case unicode.Is(unicode.Co, r):
		return isPrivate
	case unicode.Is(unicode.Noncharacter_Code_Point, r):
		return isNoChar
	case isUnseen(r):
		return isInvisible
	}
	return ""
}

// isUnseen reports whether a character is invisible: fonts ignore it, as they do fillers and the
// soft hyphen, or leave it blank. Signs that span the digits after them are visible, although they
// are format characters.
func isUnseen(r rune) bool {
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) ||
		unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || r == '\u2800' || r == '\U0001D159'
}

// isNeeded reports whether ordinary text can contain an invisible character between two others.
func isNeeded(r, before, base, after rune) bool {
	switch r {
	case zeroWidthJoiner:
		if (isEmoji(before) || before == emojiStyle) && isEmoji(after) {
			return true
		}
		return unicode.Is(viramas, before) || joins(before, base, after)
	case zeroWidthNonJoiner:
		return unicode.Is(viramas, before) || joins(before, base, after)
	case zeroWidthSpace:
		return isWriting(before) && isWriting(after) && unicode.In(base, spaceless...) && unicode.In(after, spaceless...)
	case emojiStyle, textStyle:
		return isEmoji(before) || strings.ContainsRune("0123456789#*©®‼⁉™ℹ〰〽", before)
	}
	// Mongolian letters have forms that only a variation selector can choose.
	return r < 0x2000 && unicode.Is(unicode.Variation_Selector, r) && unicode.Is(unicode.Mongolian, before) && unicode.IsLetter(before)
}

// joins reports whether a joiner between two characters affects how they are displayed.
func joins(before, base, after rune) bool {
	return isWriting(before) && isWriting(after) && unicode.In(base, joining...) &&
		(unicode.In(after, joining...) || unicode.Is(unicode.Inherited, after))
}

func isWriting(r rune) bool {
	return unicode.IsLetter(r) || unicode.Is(unicode.M, r) && !unicode.Is(unicode.Variation_Selector, r)
}

// isEmoji reports whether a character is a pictograph or may be part of one. This includes
// characters that Unicode has reserved for future pictographs.
func isEmoji(r rune) bool {
	return 0x1F000 <= r && r <= 0x1FAFF || 0x2190 <= r && r <= 0x3299 && unicode.In(r, unicode.So, unicode.Sm)
}

var (
	// joining lists scripts in which the shape of a letter depends on its neighbors.
	joining = []*unicode.RangeTable{
		unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mandaic, unicode.Mongolian, unicode.Adlam, unicode.Thaana,
		unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu,
		unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Myanmar, unicode.Khmer, unicode.Tibetan, unicode.Balinese, unicode.Javanese,
	}
	// spaceless lists scripts that do not put spaces between words.
	spaceless = []*unicode.RangeTable{unicode.Khmer, unicode.Lao, unicode.Myanmar, unicode.Thai}
	// viramas remove the vowel from a letter. A joiner after a virama selects its shape, even at
	// the end of a word.
	viramas = &unicode.RangeTable{R16: []unicode.Range16{
		{0x094D, 0x0D4D, 0x80}, {0x0DCA, 0x0DCA, 1}, {0x1039, 0x103A, 1}, {0x17D2, 0x17D2, 1}, {0x1B44, 0x1B44, 1}, {0xA9C0, 0xA9C0, 1},
	}}
)

// CheckJSONText applies [CheckText] to all strings in a JSON value, including keys. The value must
// have passed strictjson.Check.
func CheckJSONText(value json.RawMessage) error {
	switch value[0] {
	case '"':
		s, _ := strictjson.String(value)
		return CheckText(s)
	case '{':
		for key, item := range strictjson.Members(value) {
			if err := CheckText(key); err != nil {
				return err
			}
			if err := CheckJSONText(item); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	case '[':
		var items []json.RawMessage
		if err := json.Unmarshal(value, &items); err != nil {
			return err
		}
		for i, item := range items {
			if err := CheckJSONText(item); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
	}
	return nil
}

// Printable returns text for a terminal on one line, with unprintable characters replaced.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\t' {
			return r
		}
		return utf8.RuneError
	}, text)
}

// Quote formats a name for use in an error message. If the name is long or unusual, it is truncated and
// quoted, with non-ASCII characters escaped.
func Quote(name string) string {
	const most = 80
	if quoted := strconv.QuoteToASCII(Truncate(name, most)); name == "" || quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// Skeleton maps names that look alike to the same string. It ignores case and separators, and maps
// digits and letters from other alphabets to the letters that they resemble.
func Skeleton(name string) string {
	var b strings.Builder
	for _, r := range name {
		if 0xFF01 <= r && r <= 0xFF5E { // full-width form
			r -= 0xFF01 - '!'
		}
		if like, ok := looksLike[r]; ok {
			r = like
		}
		r = unicode.ToLower(r)
		if like, ok := looksLike[r]; ok {
			r = like
		}
		if !strings.ContainsRune("_-./: ", r) && !unicode.In(r, unicode.M, unicode.Cf) {
			b.WriteRune(r)
		}
	}
	return pairs.Replace(b.String())
}

var (
	pairs     = strings.NewReplacer("rn", "m", "vv", "w")
	looksLike = lookAlikes("0o 1l Il il |l ıl ɩl ɑa ɡg ſs " +
		"аa бb вb гr еe кk мm нh оo пn рp сc тt уy хx ьb ѕs іl јj һh ԁd ԛq ԝw ӏl " +
		"Αa Βb Εe Ζz Ηh Ιl Κk Μm Νn Οo Ρp Τt Υy Χx αa βb γy εe ηn ιl κk νv οo ρp τt υu χx ωw")
)

// lookAlikes parses pairs of a character and the character it resembles.
func lookAlikes(list string) map[rune]rune {
	m := map[rune]rune{}
	for pair := range strings.FieldsSeq(list) {
		r := []rune(pair)
		m[r[0]] = r[1]
	}
	return m
}

// Visible removes the characters that [CheckText] rejects.
func Visible(s string) string {
	if CheckText(s) == nil {
		return s
	}
	var b strings.Builder
	for s != "" {
		hidden, ok := errors.AsType[*HiddenTextError](CheckText(s))
		if !ok {
			b.WriteString(s)
			break
		}
		b.WriteString(s[:hidden.Offset])
		_, size := utf8.DecodeRuneInString(s[hidden.Offset:])
		s = s[hidden.Offset+size:]
	}
	return b.String()
}
