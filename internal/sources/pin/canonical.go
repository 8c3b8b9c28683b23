// Package pin stores the approved definitions of third-party tools. They are stored in a file next
// to the configuration, which is meant to be committed and reviewed, or in a document shared by
// replicas.
package pin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// Canonical returns the canonical form of a tool definition. As in RFC 8785, keys are sorted by
// UTF-16 code units, strings have as few escapes as possible, and there is no white space. Unlike
// in RFC 8785, numbers are exact decimals: 1.0, 1e0 and 1 are equal, while 9007199254740993 and
// 9007199254740992 differ. Two definitions are equivalent if their canonical forms are identical.
//
// The definition must pass [strictjson.Check], and its numbers must have at most 100 significant
// digits and roughly the range of a float64.
func Canonical(definition json.RawMessage) (json.RawMessage, error) {
	if err := strictjson.Check(definition); err != nil {
		return nil, err
	}
	w := writer{in: definition, out: make([]byte, 0, len(definition))}
	w.value()
	if w.err != nil {
		return nil, w.err
	}
	return w.out, nil
}

// Hash returns the SHA-256 hash of a canonical form in hexadecimal.
func Hash(canonical json.RawMessage) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// Digest returns a canonical form's hash in the format used in the file.
func Digest(canonical json.RawMessage) string { return "sha256:" + Hash(canonical) }

// isHash reports whether a string has the format of a hash.
func isHash(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == sha256.Size && strings.ToLower(text) == text
}

// writer reads checked JSON and writes its canonical form.
type writer struct {
	in  []byte
	pos int
	out []byte
	err error // error for the first number that has no canonical form
}

// next returns the next byte that is not white space.
func (w *writer) next() byte {
	for {
		switch c := w.in[w.pos]; c {
		case ' ', '\t', '\n', '\r':
			w.pos++
		default:
			return c
		}
	}
}

func (w *writer) value() {
	switch w.next() {
	case '{':
		w.object()
	case '[':
		w.array()
	case '"':
		w.out = appendString(w.out, w.token())
	case 't', 'f', 'n':
		w.out = append(w.out, w.token()...)
	default:
		w.number()
	}
}

func (w *writer) array() {
	w.pos++
	w.out = append(w.out, '[')
	for first := true; w.next() != ']'; first = false {
		if !first {
			w.pos++ // skips the comma
			w.out = append(w.out, ',')
		}
		w.value()
	}
	w.pos++
	w.out = append(w.out, ']')
}

// member is an object member in canonical form.
type member struct {
	key   string
	bytes []byte // key, colon and value
}

func (w *writer) object() {
	w.pos++
	start := len(w.out)
	var keys []string
	var ends []int
	for first := true; w.next() != '}'; first = false {
		if !first {
			w.pos++ // skips the comma
			w.next()
		}
		w.out = append(w.out, ',')
		quoted := w.token()
		key, _ := strictjson.String(quoted)
		w.out = append(appendString(w.out, quoted), ':')
		w.next()
		w.pos++ // skips the colon
		w.value()
		keys, ends = append(keys, key), append(ends, len(w.out))
	}
	w.pos++
	if len(keys) == 0 {
		w.out = append(w.out, '{')
	} else if !slices.IsSortedFunc(keys, compareUTF16) {
		w.sort(start, keys, ends)
	}
	w.out[start] = '{'
	w.out = append(w.out, '}')
}

// sort sorts the members written since start. Each starts with a comma, and ends contains their end
// offsets.
func (w *writer) sort(start int, keys []string, ends []int) {
	written := slices.Clone(w.out[start:])
	members := make([]member, len(keys))
	from := 0
	for i, key := range keys {
		members[i] = member{key, written[from : ends[i]-start]}
		from = ends[i] - start
	}
	slices.SortFunc(members, func(a, b member) int { return compareUTF16(a.key, b.key) })
	w.out = w.out[:start]
	for _, m := range members {
		w.out = append(w.out, m.bytes...)
	}
}

// token skips a string, a number or a literal.
func (w *writer) token() []byte {
	start := w.pos
	if w.in[start] == '"' {
		for w.pos++; w.in[w.pos] != '"'; w.pos++ {
			if w.in[w.pos] == '\\' {
				w.pos++
			}
		}
		w.pos++
		return w.in[start:w.pos]
	}
	for w.pos < len(w.in) && !isEnd(w.in[w.pos]) {
		w.pos++
	}
	return w.in[start:w.pos]
}

func isEnd(c byte) bool {
	switch c {
	case ',', ']', '}', ' ', '\t', '\n', '\r', ':':
		return true
	}
	return false
}

func (w *writer) number() {
	out, err := appendNumber(w.out, w.token())
	if err != nil && w.err == nil {
		w.err = err
	}
	w.out = out
}

// appendString appends a checked string with as few escapes as possible.
func appendString(out, quoted []byte) []byte {
	if !slices.Contains(quoted, '\\') {
		return append(out, quoted...)
	}
	text, _ := strictjson.String(quoted)
	return append(appendEscaped(append(out, '"'), text), '"')
}

const hexDigits = "0123456789abcdef"

func appendEscaped(out []byte, text string) []byte {
	for i := range len(text) {
		switch c := text[i]; c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\b':
			out = append(out, `\b`...)
		case '\t':
			out = append(out, `\t`...)
		case '\n':
			out = append(out, `\n`...)
		case '\f':
			out = append(out, `\f`...)
		case '\r':
			out = append(out, `\r`...)
		default:
			if c < ' ' {
				out = append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			} else {
				out = append(out, c)
			}
		}
	}
	return out
}

// compareUTF16 orders strings by their UTF-16 code units. This equals byte order, except that
// characters above U+FFFF, which use surrogates, sort before U+E000 to U+FFFF.
func compareUTF16(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if x, y := a[i], b[i]; x != y {
			if (x >= 0xF0) != (y >= 0xF0) && x >= 0xEE && y >= 0xEE {
				return int(y) - int(x)
			}
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}
