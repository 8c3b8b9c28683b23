package jsonschema

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strings"
	"unsafe"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

type kind uint8

const (
	kindNull kind = iota
	kindBoolean
	kindNumber
	kindString
	kindArray
	kindObject
)

// node is one part of a value. Nodes are in the order of the text: a node is followed by its first
// child, and next is the index of its sibling.
type node struct {
	kind  kind
	flags uint8
	count uint32 // number of members or items
	next  uint32
	text  span // text of the value; excludes a string's quotes
	key   span // name in an object, excluding its quotes
}

const (
	isTrue uint8 = 1 << iota
	textEscaped
	keyEscaped
)

// span is a part of a value's text, or of unescaped if a string contains escapes.
type span struct{ start, end uint32 }

func spanOf(start, end int) span {
	return span{uint32(start), uint32(end)} //nolint:gosec // a text has fewer than 2^31 bytes
}

// value is a parsed JSON text.
type value struct {
	data      string
	nodes     []node
	unescaped []string
}

func (v *value) str(n uint32) string {
	e := &v.nodes[n]
	if e.flags&textEscaped != 0 {
		return v.unescaped[e.text.start]
	}
	return v.data[e.text.start:e.text.end]
}

func (v *value) key(n uint32) string {
	e := &v.nodes[n]
	if e.flags&keyEscaped != 0 {
		return v.unescaped[e.key.start]
	}
	return v.data[e.key.start:e.key.end]
}

// parser parses a value within a budget.
type parser struct {
	value
	budget   *budget
	at       int
	maxDepth int
}

const maxNumber = 4_096 // characters of a number

// parse parses one JSON value. It rejects duplicate names, because parsers differ in which one they
// use.
func (p *parser) parse(data string) (err error) {
	p.data, p.at = data, 0
	if len(data) >= 1<<31 {
		return &SyntaxError{0, "too large"}
	}
	p.grow(len(data)/16 + 8)
	if err := p.element(span{}, 0, 0); err != nil {
		return err
	}
	if p.space(); p.at < len(p.data) {
		return p.fail("unexpected data after the value")
	}
	return nil
}

// grow allocates more nodes.
func (p *parser) grow(n int) {
	if n <= cap(p.nodes) {
		p.nodes = p.nodes[:0]
		return
	}
	p.budget.allocate(n * int(unsafe.Sizeof(node{})))
	p.nodes = make([]node, 0, n)
}

func (p *parser) add(n node) uint32 {
	if len(p.nodes) == cap(p.nodes) {
		p.budget.allocate(2 * cap(p.nodes) * int(unsafe.Sizeof(node{})))
		grown := make([]node, len(p.nodes), 2*cap(p.nodes))
		copy(grown, p.nodes)
		p.nodes = grown
	}
	p.nodes = append(p.nodes, n)
	return uint32(len(p.nodes) - 1) //nolint:gosec // a text has fewer than 2^31 bytes
}

func (p *parser) fail(format string, args ...any) error {
	return &SyntaxError{p.at, fmt.Sprintf(format, args...)}
}

func (p *parser) space() {
	for p.at < len(p.data) {
		switch p.data[p.at] {
		case ' ', '\n', '\r', '\t':
			p.at++
		default:
			return
		}
	}
}

// element parses the value for a key at the given depth.
func (p *parser) element(key span, flags uint8, depth int) error {
	p.space()
	if p.at >= len(p.data) {
		return p.fail("unexpected end")
	}
	p.budget.spend(1)
	switch c := p.data[p.at]; c {
	case '{':
		return p.object(key, flags, depth)
	case '[':
		return p.array(key, flags, depth)
	case '"':
		text, escaped, err := p.string()
		if err != nil {
			return err
		}
		if escaped {
			flags |= textEscaped
		}
		p.leaf(node{kind: kindString, flags: flags, text: text, key: key})
		return nil
	case 't':
		return p.word("true", node{kind: kindBoolean, flags: flags | isTrue, key: key})
	case 'f':
		return p.word("false", node{kind: kindBoolean, flags: flags, key: key})
	case 'n':
		return p.word("null", node{kind: kindNull, flags: flags, key: key})
	default:
		return p.number(key, flags)
	}
}

func (p *parser) leaf(n node) {
	i := p.add(n)
	p.nodes[i].next = i + 1
}

func (p *parser) word(word string, n node) error {
	if len(p.data)-p.at < len(word) || p.data[p.at:p.at+len(word)] != word {
		return p.fail("unknown literal")
	}
	n.text = spanOf(p.at, p.at+len(word))
	p.at += len(word)
	p.leaf(n)
	return nil
}

func (p *parser) number(key span, flags uint8) error {
	start := p.at
	end, ok := scanNumber(p.data, start)
	if !ok {
		return p.fail("unexpected character %q", p.data[start])
	}
	if end-start > maxNumber {
		return p.fail("number has more than %d characters", maxNumber)
	}
	if e := strings.IndexAny(p.data[start:end], "eE"); e >= 0 && end-start-e > maxExponent {
		return p.fail("exponent has more than %d digits", maxExponent-2)
	}
	p.at = end
	p.leaf(node{kind: kindNumber, flags: flags, text: spanOf(start, end), key: key})
	return nil
}

// scanNumber returns the end of the number at i.
func scanNumber(s string, i int) (end int, ok bool) {
	digits := func() bool {
		start := i
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i > start
	}
	if i < len(s) && s[i] == '-' {
		i++
	}
	if i < len(s) && s[i] == '0' {
		i++
	} else if !digits() {
		return 0, false
	}
	if i < len(s) && s[i] == '.' {
		i++
		if !digits() {
			return 0, false
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if !digits() {
			return 0, false
		}
	}
	return i, true
}

// string parses a string and returns the span of its content.
func (p *parser) string() (text span, escaped bool, err error) {
	start := p.at + 1
	for i := start; i < len(p.data); i++ {
		switch c := p.data[i]; {
		case c == '"':
			p.at = i + 1
			p.budget.spend((i - start) / 32)
			if escaped {
				text, err = p.unescape(start-1, i+1)
				return text, true, err
			}
			return spanOf(start, i), false, nil
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			p.at = i
			return span{}, false, p.fail("control character in a string")
		}
	}
	p.at = len(p.data)
	return span{}, false, p.fail("unterminated string")
}

func (p *parser) unescape(start, end int) (span, error) {
	p.budget.allocate(3 * (end - start))
	var s string
	if err := json.Unmarshal([]byte(p.data[start:end]), &s); err != nil {
		p.at = start
		return span{}, p.fail("invalid escape in a string")
	}
	p.unescaped = append(p.unescaped, s)
	return spanOf(len(p.unescaped)-1, 0), nil
}

// enter checks the depth and skips the opening bracket.
func (p *parser) enter(depth int) error {
	if depth >= p.maxDepth {
		return p.fail("nested more than %d levels deep", p.maxDepth)
	}
	p.at++
	p.space()
	return nil
}

// separator parses a comma or the closing bracket.
func (p *parser) separator(end byte) (more bool, err error) {
	p.space()
	if p.at >= len(p.data) {
		return false, p.fail("unexpected end")
	}
	switch p.data[p.at] {
	case ',':
		p.at++
		p.space()
		return true, nil
	case end:
		p.at++
		return false, nil
	}
	return false, p.fail("unexpected character %q", p.data[p.at])
}

func (p *parser) array(key span, flags uint8, depth int) error {
	start := p.at
	self := p.add(node{kind: kindArray, flags: flags, key: key})
	if err := p.enter(depth); err != nil {
		return err
	}
	if p.at < len(p.data) && p.data[p.at] == ']' {
		p.at++
		p.close(self, start, 0)
		return nil
	}
	for count := uint32(1); ; count++ {
		if err := p.element(span{}, 0, depth+1); err != nil {
			return err
		}
		more, err := p.separator(']')
		if err != nil {
			return err
		}
		if !more {
			p.close(self, start, count)
			return nil
		}
	}
}

func (p *parser) close(self uint32, start int, count uint32) {
	n := &p.nodes[self]
	n.text, n.count = spanOf(start, p.at), count
	n.next = uint32(len(p.nodes)) //nolint:gosec // a text has fewer than 2^31 bytes
}

func (p *parser) object(key span, flags uint8, depth int) error {
	start := p.at
	self := p.add(node{kind: kindObject, flags: flags, key: key})
	if err := p.enter(depth); err != nil {
		return err
	}
	if p.at < len(p.data) && p.data[p.at] == '}' {
		p.at++
		p.close(self, start, 0)
		return nil
	}
	for count := uint32(1); ; count++ {
		more, err := p.member(depth)
		if err != nil {
			return err
		}
		if !more {
			p.close(self, start, count)
			return p.checkNames(self)
		}
	}
}

func (p *parser) member(depth int) (more bool, err error) {
	if p.at >= len(p.data) || p.data[p.at] != '"' {
		return false, p.fail("missing name")
	}
	name, escaped, err := p.string()
	if err != nil {
		return false, err
	}
	if p.space(); p.at >= len(p.data) || p.data[p.at] != ':' {
		return false, p.fail("missing colon")
	}
	p.at++
	var flags uint8
	if escaped {
		flags = keyEscaped
	}
	if err := p.element(name, flags, depth+1); err != nil {
		return false, err
	}
	return p.separator('}')
}

// fewNames is the maximum number of names that are compared pairwise rather than with a table.
const fewNames = 12

// checkNames returns an error if an object has duplicate names.
func (p *parser) checkNames(self uint32) error {
	if p.nodes[self].count > fewNames {
		return p.checkManyNames(self)
	}
	for a := self + 1; a < p.nodes[self].next; a = p.nodes[a].next {
		name := p.key(a)
		for b := p.nodes[a].next; b < p.nodes[self].next; b = p.nodes[b].next {
			if p.key(b) == name {
				return p.fail("duplicate member %q", cut(name))
			}
		}
	}
	return nil
}

func (p *parser) checkManyNames(self uint32) error {
	count := int(p.nodes[self].count)
	p.budget.spend(count)
	p.budget.allocate(count * 32)
	seen := make(map[uint64]uint32, count)
	for n := self + 1; n < p.nodes[self].next; n = p.nodes[n].next {
		name := p.key(n)
		hash := maphash.String(seed, name)
		if other, ok := seen[hash]; ok && p.key(other) == name {
			return p.fail("duplicate member %q", cut(name))
		}
		seen[hash] = n
	}
	return nil
}

// cut shortens a name or value for use in a message.
func cut(s string) string { return untrusted.Truncate(s, 100) }
