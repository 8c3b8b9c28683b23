// Package strictjson reads JSON from untrusted senders. It checks input once and rejects ambiguous
// input, so that two readers of a message cannot disagree about its content.
package strictjson

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"iter"
	"strconv"
	"unicode/utf8"
)

// MaxDepth is the maximum nesting depth.
const MaxDepth = 64

// SyntaxError is returned for rejected JSON.
type SyntaxError struct {
	Offset  int
	Message string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("at byte %d: %s", e.Offset, e.Message)
}

// Check checks that data is exactly one JSON value in UTF-8, with unique keys in each object,
// numbers of limited size, and at most [MaxDepth] levels. It takes linear time.
func Check(data []byte) error {
	if !utf8.Valid(data) {
		return &SyntaxError{0, "not valid UTF-8"}
	}
	r := reader{data: data}
	r.space()
	r.value(0)
	r.space()
	if r.err == nil && r.pos < len(data) {
		r.fail("unexpected data after the value")
	}
	if r.err != nil {
		return r.err
	}
	return nil
}

// reader scans data up to the first error.
type reader struct {
	data []byte
	pos  int
	err  *SyntaxError
}

func (r *reader) fail(message string) {
	if r.err == nil {
		r.err = &SyntaxError{r.pos, message}
	}
	r.pos = len(r.data)
}

// peek returns the next byte, or 0 at the end, which does not start any JSON token.
func (r *reader) peek() byte {
	if r.pos < len(r.data) {
		return r.data[r.pos]
	}
	return 0
}

func (r *reader) space() {
	for r.pos < len(r.data) {
		switch r.data[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

func (r *reader) value(depth int) {
	if depth > MaxDepth {
		r.fail(fmt.Sprintf("nested more than %d levels deep", MaxDepth))
		return
	}
	switch c := r.peek(); {
	case c == '{':
		r.object(depth)
	case c == '[':
		r.array(depth)
	case c == '"':
		r.str()
	case c == 't':
		r.word("true")
	case c == 'f':
		r.word("false")
	case c == 'n':
		r.word("null")
	case c == '-' || isDigit(c):
		r.number()
	default:
		r.fail("expected a value")
	}
}

func (r *reader) object(depth int) {
	r.pos++
	r.space()
	if r.peek() == '}' {
		r.pos++
		return
	}
	var keys keySet
	for r.err == nil {
		if r.peek() != '"' {
			r.fail("expected a key")
			return
		}
		start := r.pos
		r.str()
		if r.err == nil && !keys.add(unquote(r.data[start:r.pos])) {
			r.pos = start
			r.fail("duplicate key " + string(unquote(r.data[start:r.end(start)])))
			return
		}
		r.space()
		if r.peek() != ':' {
			r.fail("expected a colon")
			return
		}
		r.pos++
		r.space()
		r.value(depth + 1)
		if r.close('}') {
			return
		}
	}
}

func (r *reader) array(depth int) {
	r.pos++
	r.space()
	if r.peek() == ']' {
		r.pos++
		return
	}
	for r.err == nil {
		r.value(depth + 1)
		if r.close(']') {
			return
		}
	}
}

// close consumes the comma or closing byte after a member and reports whether it was the closing
// byte.
func (r *reader) close(end byte) bool {
	r.space()
	switch r.peek() {
	case end:
		r.pos++
		return true
	case ',':
		r.pos++
		r.space()
	default:
		r.fail(fmt.Sprintf("expected a comma or %c", end))
	}
	return false
}

func (r *reader) word(w string) {
	if len(r.data)-r.pos < len(w) || string(r.data[r.pos:r.pos+len(w)]) != w {
		r.fail("expected a value")
		return
	}
	r.pos += len(w)
}

// Limits on a number: the range of a float64. Outside this range, readers disagree, and exact
// arithmetic can take a very long time.
const (
	maxNumber   = 128 // bytes
	maxExponent = 308
	minExponent = -324
)

func (r *reader) number() {
	start := r.pos
	if r.peek() == '-' {
		r.pos++
	}
	if r.peek() == '0' {
		r.pos++
	} else {
		r.digits()
	}
	if r.peek() == '.' {
		r.pos++
		r.digits()
	}
	if c := r.peek(); c == 'e' || c == 'E' {
		r.pos++
		exponent := r.pos
		if c := r.peek(); c == '+' || c == '-' {
			r.pos++
		}
		r.digits()
		if n, err := strconv.Atoi(string(r.data[exponent:r.pos])); r.err == nil && (err != nil || n > maxExponent || n < minExponent) {
			r.fail("number out of range")
		}
	}
	if r.err == nil && r.pos-start > maxNumber {
		r.fail("number too long")
	}
}

func (r *reader) digits() {
	if !isDigit(r.peek()) {
		r.fail("expected a digit")
	}
	for isDigit(r.peek()) {
		r.pos++
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (r *reader) str() {
	for r.pos++; r.pos < len(r.data); r.pos++ {
		switch c := r.data[r.pos]; {
		case c == '"':
			r.pos++
			return
		case c < ' ':
			r.fail("control character in a string")
			return
		case c == '\\':
			r.escape()
		}
	}
	r.fail("unterminated string")
}

// escape checks one escape sequence and leaves pos on its last byte.
func (r *reader) escape() {
	r.pos++
	switch r.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return
	case 'u':
	default:
		r.fail("unknown escape in a string")
		return
	}
	switch c := r.hex4(r.pos + 1); {
	case c < 0:
		r.fail("expected four hexadecimal digits")
	case c < 0xD800 || c > 0xDFFF:
		r.pos += 4
	default: // half of a surrogate pair: the other half must follow
		low := -1
		if r.pos+6 < len(r.data) && r.data[r.pos+5] == '\\' && r.data[r.pos+6] == 'u' {
			low = r.hex4(r.pos + 7)
		}
		if c > 0xDBFF || low < 0xDC00 || low > 0xDFFF {
			r.fail("unpaired surrogate")
			return
		}
		r.pos += 10
	}
}

func (r *reader) hex4(at int) int {
	if at+4 > len(r.data) {
		return -1
	}
	n := 0
	for _, c := range r.data[at : at+4] {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		n = n<<4 | int(c)
	}
	return n
}

// end returns the position after a checked string that starts at start.
func (r *reader) end(start int) int {
	s := reader{data: r.data, pos: start}
	s.str()
	return s.pos
}

// keySet detects duplicate keys in an object. For small objects, a list is faster than a map. For
// large objects, it stores seeded hashes, so that attackers cannot cause collisions.
type keySet struct {
	few  [12][]byte
	n    int
	many map[uint64]struct{}
}

var seed = maphash.MakeSeed()

// add reports whether the key is new.
func (s *keySet) add(key []byte) bool {
	if s.n < len(s.few) {
		for _, k := range s.few[:s.n] {
			if string(k) == string(key) {
				return false
			}
		}
		s.few[s.n] = key
		s.n++
		return true
	}
	if s.many == nil {
		s.many = make(map[uint64]struct{}, 4*len(s.few))
		for _, k := range s.few {
			s.many[maphash.Bytes(seed, k)] = struct{}{}
		}
	}
	before := len(s.many)
	s.many[maphash.Bytes(seed, key)] = struct{}{}
	return len(s.many) > before
}

// unquote returns the value of a checked JSON string. If there are no escapes, it is a subslice of
// quoted.
func unquote(quoted []byte) []byte {
	for _, c := range quoted {
		if c == '\\' {
			var s string
			if err := json.Unmarshal(quoted, &s); err != nil {
				return quoted
			}
			return []byte(s)
		}
	}
	return quoted[1 : len(quoted)-1]
}

// Member returns a member of an object that has passed [Check], or nil.
func Member(object json.RawMessage, name string) json.RawMessage {
	for key, value := range Members(object) {
		if key == name {
			return value
		}
	}
	return nil
}

// Members yields the keys and raw values of an object that has passed [Check], in order. It yields
// nothing for other values.
func Members(object json.RawMessage) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		r := reader{data: object}
		r.space()
		if r.peek() != '{' {
			return
		}
		r.pos++
		for r.space(); r.peek() == '"'; r.space() {
			start := r.pos
			r.skipString()
			key := unquote(object[start:r.pos])
			r.space()
			r.pos++ // skips the colon
			r.space()
			start = r.pos
			r.skip()
			if !yield(string(key), object[start:r.pos]) {
				return
			}
			if r.space(); r.peek() == ',' {
				r.pos++
			}
		}
	}
}

// Elements yields the elements of an array that has passed [Check], in order. It yields nothing for
// other values.
func Elements(array json.RawMessage) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		r := reader{data: array}
		r.space()
		if r.peek() != '[' {
			return
		}
		r.pos++
		for r.space(); r.pos < len(array) && r.peek() != ']'; r.space() {
			start := r.pos
			if r.skip(); r.pos == start || !yield(array[start:r.pos]) { // there is no element, so the input was not checked
				return
			}
			if r.space(); r.peek() == ',' {
				r.pos++
			}
		}
	}
}

// skip skips a checked value.
func (r *reader) skip() {
	depth := 0
	for r.pos < len(r.data) {
		switch r.data[r.pos] {
		case '"':
			r.skipString()
			if depth == 0 {
				return
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return
			}
			depth--
			if depth == 0 {
				r.pos++
				return
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return
			}
		}
		r.pos++
	}
}

// skipString skips a checked string.
func (r *reader) skipString() {
	for r.pos++; r.pos < len(r.data); r.pos++ {
		switch r.data[r.pos] {
		case '"':
			r.pos++
			return
		case '\\':
			r.pos++
		}
	}
}

// String returns the value of a checked JSON string, or false for other values.
func String(value json.RawMessage) (string, bool) {
	if len(value) < 2 || value[0] != '"' {
		return "", false
	}
	return string(unquote(value)), true
}
