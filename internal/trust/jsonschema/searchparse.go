package jsonschema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// searchCompiler compiles a JavaScript regular expression to a program.
type searchCompiler struct {
	program
	source   string
	at       int
	names    map[string]int // groups by name
	groups   int            // number of groups seen so far
	backward bool
	fold     bool
	lines    bool
	dotAll   bool
	depth    int
}

func compileSearch(source string) (*program, error) {
	c := &searchCompiler{source: source, names: make(map[string]int)}
	if !utf8.ValidString(source) {
		return nil, errors.New("it is not valid UTF-8")
	}
	c.program.groups = c.countGroups()
	c.slots = 2 * (c.program.groups + 1)
	frag, err := c.alternatives()
	if err != nil {
		return nil, err
	}
	if c.at < len(source) {
		return nil, c.fail("unmatched )")
	}
	c.insts = append(frag, inst{op: opMatch})
	return &c.program, nil
}

func (c *searchCompiler) fail(format string, args ...any) error {
	return fmt.Errorf("%s (at byte %d)", fmt.Sprintf(format, args...), c.at)
}

// countGroups counts and names the groups in advance, because references may come before them.
func (c *searchCompiler) countGroups() (n int) {
	class := false
	for i := 0; i < len(c.source); i++ {
		switch c.source[i] {
		case '\\':
			i++
		case '[':
			class = true
		case ']':
			class = false
		case '(':
			rest := c.source[i+1:]
			named := strings.HasPrefix(rest, "?<") && !strings.HasPrefix(rest, "?<=") && !strings.HasPrefix(rest, "?<!")
			if class || strings.HasPrefix(rest, "?") && !named {
				continue
			}
			n++
			if end := strings.IndexByte(rest, '>'); named && end > 2 {
				c.names[rest[2:end]] = n
			}
		}
	}
	return n
}

// fragment is a part of a program. Its jumps are relative to its start.
type fragment = []inst

// join concatenates fragments.
func (c *searchCompiler) join(parts ...fragment) (all fragment, err error) {
	for _, part := range parts {
		offset := len(all)
		if offset+len(part) > maxProgram {
			return nil, errPatternSize
		}
		for _, in := range part {
			switch in.op {
			case opSplit:
				in.x, in.y = in.x+offset, in.y+offset
			case opJump, opLook:
				in.x += offset
			}
			all = append(all, in)
		}
	}
	return all, nil
}

func (c *searchCompiler) peek(s string) bool { return strings.HasPrefix(c.source[c.at:], s) }

func (c *searchCompiler) take(s string) bool {
	if c.peek(s) {
		c.at += len(s)
		return true
	}
	return false
}

func (c *searchCompiler) alternatives() (fragment, error) {
	if c.depth++; c.depth > 200 {
		return nil, c.fail("nested too deeply")
	}
	defer func() { c.depth-- }()
	first, err := c.sequence()
	if err != nil || !c.take("|") {
		return first, err
	}
	rest, err := c.alternatives()
	if err != nil {
		return nil, err
	}
	return c.join(
		fragment{{op: opSplit, x: 1, y: len(first) + 2}}, first,
		fragment{{op: opJump, x: len(rest) + 1}}, rest)
}

func (c *searchCompiler) sequence() (all fragment, err error) {
	for c.at < len(c.source) && !c.peek("|") && !c.peek(")") {
		term, err := c.term()
		if err != nil {
			return nil, err
		}
		if c.backward {
			all, err = c.join(term, all)
		} else {
			all, err = c.join(all, term)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// term parses an atom with its quantifier.
func (c *searchCompiler) term() (fragment, error) {
	firstGroup := c.groups
	assertion := c.peek("^") || c.peek("$") || c.peek(`\b`) || c.peek(`\B`)
	atom, err := c.atom()
	if err != nil {
		return nil, err
	}
	least, most, ok, err := c.quantifier()
	if err != nil || !ok {
		return atom, err
	}
	if assertion {
		return nil, c.fail("nothing to repeat")
	}
	lazy := c.take("?")
	return c.repeat(atom, least, most, lazy, firstGroup)
}

const unlimited = -1

func (c *searchCompiler) quantifier() (least, most int, ok bool, err error) {
	switch {
	case c.take("*"):
		return 0, unlimited, true, nil
	case c.take("+"):
		return 1, unlimited, true, nil
	case c.take("?"):
		return 0, 1, true, nil
	case !c.peek("{"):
		return 0, 0, false, nil
	}
	end := strings.IndexByte(c.source[c.at:], '}')
	if end < 0 {
		return 0, 0, false, nil
	}
	low, high, comma := strings.Cut(c.source[c.at+1:c.at+end], ",")
	least, err = strconv.Atoi(low)
	if err != nil || !isDigit(rune(low[0])) {
		return 0, 0, false, nil // a literal brace
	}
	switch most = least; {
	case comma && high == "":
		most = unlimited
	case comma:
		if most, err = strconv.Atoi(high); err != nil {
			return 0, 0, false, nil
		}
	}
	if most != unlimited && most < least {
		return 0, 0, false, c.fail("quantifier range out of order")
	}
	c.at += end + 1
	if least > maxProgram || most > maxProgram {
		return 0, 0, false, errPatternSize
	}
	return least, most, true, nil
}

// repeat expands an atom's quantifier. Each iteration starts by clearing the atom's groups.
func (c *searchCompiler) repeat(atom fragment, least, most int, lazy bool, firstGroup int) (all fragment, err error) {
	if c.groups > firstGroup {
		clear := fragment{{op: opClear, x: 2 * (firstGroup + 1), y: 2 * (c.groups + 1)}}
		if atom, err = c.join(clear, atom); err != nil {
			return nil, err
		}
	}
	if (least+1)*len(atom) > maxProgram || most > 0 && most*len(atom) > maxProgram {
		return nil, errPatternSize
	}
	parts := make([]fragment, 0, least+1)
	for range least {
		parts = append(parts, atom)
	}
	if most == unlimited {
		slot := c.slots
		c.slots++
		loop, err := c.join(
			fragment{split(lazy, 1, len(atom)+4), {op: opSave, x: slot}}, atom,
			fragment{{op: opProgress, x: slot}, {op: opJump, x: -len(atom) - 2}})
		if err != nil {
			return nil, err
		}
		return c.join(append(parts, loop)...)
	}
	optional := fragment{}
	for range most - least {
		if optional, err = c.join(fragment{split(lazy, 1, 1+len(atom)+len(optional))}, atom, optional); err != nil {
			return nil, err
		}
	}
	return c.join(append(parts, optional)...)
}

func split(lazy bool, body, after int) inst {
	if lazy {
		return inst{op: opSplit, x: after, y: body}
	}
	return inst{op: opSplit, x: body, y: after}
}

func (c *searchCompiler) atom() (fragment, error) {
	switch {
	case c.take("^"):
		return fragment{{op: opBegin, lines: c.lines}}, nil
	case c.take("$"):
		return fragment{{op: opEnd, lines: c.lines}}, nil
	case c.take("("):
		return c.group()
	case c.take("["):
		return c.class()
	case c.take("."):
		set := &class{not: true, others: []func(rune) bool{isNewline}}
		if c.dotAll {
			set.others = nil
		}
		return c.one(inst{op: opClass, class: set}), nil
	case c.take(`\`):
		return c.escape()
	case c.peek("*"), c.peek("+"), c.peek("?"):
		return nil, c.fail("nothing to repeat")
	}
	r, size := utf8.DecodeRuneInString(c.source[c.at:])
	c.at += size
	return c.one(inst{op: opRune, r: r}), nil
}

// one returns an instruction that matches a character in the current direction.
func (c *searchCompiler) one(in inst) fragment {
	in.backward, in.fold = c.backward, c.fold
	return fragment{in}
}

func (c *searchCompiler) group() (fragment, error) {
	fold, lines, dotAll := c.fold, c.lines, c.dotAll
	restore := func() { c.fold, c.lines, c.dotAll = fold, lines, dotAll }
	switch {
	case c.take("?:"):
		defer restore()
		return c.enclosed()
	case c.take("?="):
		return c.look(false, false)
	case c.take("?!"):
		return c.look(false, true)
	case c.take("?<="):
		return c.look(true, false)
	case c.take("?<!"):
		return c.look(true, true)
	case c.take("?<"):
		end := strings.IndexByte(c.source[c.at:], '>')
		if end < 1 {
			return nil, c.fail("missing group name")
		}
		c.at += end + 1
	case c.peek("?"):
		c.at++
		if err := c.flags(); err != nil {
			return nil, err
		}
		if c.take(")") {
			return nil, nil // applies to everything that follows
		}
		c.at++ // skips the colon
		defer restore()
		return c.enclosed()
	}
	defer restore()
	c.groups++
	open, close := 2*c.groups, 2*c.groups+1
	inner, err := c.enclosed()
	if err != nil {
		return nil, err
	}
	return c.join(fragment{{op: opSave, x: open}}, inner, fragment{{op: opSave, x: close}})
}

// flags parses a group's modifiers.
func (c *searchCompiler) flags() error {
	on := true
	for c.at < len(c.source) {
		switch c.source[c.at] {
		case 'i':
			c.fold = on
		case 'm':
			c.lines = on
		case 's':
			c.dotAll = on
		case '-':
			on = false
		case ')', ':':
			return nil
		default:
			return c.fail("unknown group type")
		}
		c.at++
	}
	return c.fail("unterminated group")
}

func (c *searchCompiler) enclosed() (fragment, error) {
	inner, err := c.alternatives()
	if err == nil && !c.take(")") {
		err = c.fail("unterminated group")
	}
	return inner, err
}

func (c *searchCompiler) look(behind, not bool) (fragment, error) {
	outer := c.backward
	c.backward = behind
	inner, err := c.enclosed()
	c.backward = outer
	if err != nil {
		return nil, err
	}
	return c.join(fragment{{op: opLook, not: not, x: len(inner) + 2}}, inner, fragment{{op: opMatch}})
}

// escape parses an escape sequence outside a class.
func (c *searchCompiler) escape() (fragment, error) {
	if c.at >= len(c.source) {
		return nil, c.fail("trailing backslash")
	}
	switch ch := c.source[c.at]; {
	case ch == 'b' || ch == 'B':
		c.at++
		return fragment{{op: opBoundary, not: ch == 'B'}}, nil
	case ch >= '1' && ch <= '9':
		end := c.at
		for end < len(c.source) && isDigit(rune(c.source[end])) && end-c.at < 4 {
			end++
		}
		if group, _ := strconv.Atoi(c.source[c.at:end]); group <= c.program.groups {
			c.at = end
			return c.one(inst{op: opBackRef, x: group}), nil
		}
		return c.one(inst{op: opRune, r: c.octal()}), nil
	case ch == 'k' && len(c.names) > 0:
		end := strings.IndexByte(c.source[c.at:], '>')
		if !strings.HasPrefix(c.source[c.at:], "k<") || end < 0 || c.names[c.source[c.at+2:c.at+end]] == 0 {
			return nil, c.fail("reference to an undefined group")
		}
		group := c.names[c.source[c.at+2:c.at+end]]
		c.at += end + 1
		return c.one(inst{op: opBackRef, x: group}), nil
	}
	set := &class{}
	r, isSet, err := c.escaped(set)
	if err != nil {
		return nil, err
	}
	if isSet {
		return c.one(inst{op: opClass, class: set}), nil
	}
	return c.one(inst{op: opRune, r: r}), nil
}

// octal parses an octal escape, which looks like a reference to a group that does not exist.
func (c *searchCompiler) octal() (r rune) {
	start := c.at
	for c.at < len(c.source) && c.source[c.at] >= '0' && c.source[c.at] <= '7' && r*8 < 256 {
		r = r*8 + rune(c.source[c.at]-'0')
		c.at++
	}
	if c.at == start { // the digit is 8 or 9
		r = rune(c.source[c.at])
		c.at++
	}
	return r
}

func (c *searchCompiler) class() (fragment, error) {
	set := &class{not: c.take("^")}
	for !c.take("]") {
		low, isSet, err := c.member(set)
		if err != nil {
			return nil, err
		}
		if isSet || !c.peek("-") || c.peek("-]") {
			if !isSet {
				set.ranges = append(set.ranges, low, low)
			}
			continue
		}
		c.at++
		high, isSet, err := c.member(set)
		switch {
		case err != nil:
			return nil, err
		case isSet:
			set.ranges = append(set.ranges, low, low, '-', '-')
		case high < low:
			return nil, c.fail("character class range out of order")
		default:
			set.ranges = append(set.ranges, low, high)
		}
	}
	return c.one(inst{op: opClass, class: set}), nil
}

// member parses a character in a class, or adds a set to the class.
func (c *searchCompiler) member(set *class) (r rune, isSet bool, err error) {
	if c.at >= len(c.source) {
		return 0, false, c.fail("unterminated character class")
	}
	if c.take(`\`) {
		if c.take("b") {
			return '\b', false, nil
		}
		return c.escaped(set)
	}
	r, size := utf8.DecodeRuneInString(c.source[c.at:])
	c.at += size
	return r, false, nil
}

var controls = map[byte]rune{'t': '\t', 'n': '\n', 'v': '\v', 'f': '\f', 'r': '\r', '0': 0}

var shorthands = map[byte]func(rune) bool{'d': isDigit, 'w': isWord, 's': isSpace}

// escaped parses an escape sequence for a character, or for a set, which it adds to the class.
func (c *searchCompiler) escaped(set *class) (r rune, isSet bool, err error) {
	if c.at >= len(c.source) {
		return 0, false, c.fail("trailing backslash")
	}
	r, size := utf8.DecodeRuneInString(c.source[c.at:])
	c.at += size
	ch := c.source[c.at-size]
	if has, ok := shorthands[ch|0x20]; ok {
		if ch&0x20 == 0 {
			set.others = append(set.others, func(r rune) bool { return !has(r) })
		} else {
			set.others = append(set.others, has)
		}
		return 0, true, nil
	}
	if control, ok := controls[ch]; ok {
		return control, false, nil
	}
	switch ch {
	case 'x':
		if code, size := hexadecimal(c.source[c.at:], 2); size > 0 {
			c.at += size
			return code, false, nil
		}
	case 'u':
		return c.codePoint()
	case 'c':
		if c.at < len(c.source) && unicode.IsLetter(rune(c.source[c.at])) {
			c.at++
			return rune(c.source[c.at-1]) & 31, false, nil
		}
	case 'p', 'P':
		return 0, true, c.property(set, ch == 'P')
	}
	return r, false, nil
}

// codePoint parses the code point after \u.
func (c *searchCompiler) codePoint() (rune, bool, error) {
	if end := strings.IndexByte(c.source[c.at:], '}'); c.peek("{") && end > 0 {
		code, err := strconv.ParseUint(c.source[c.at+1:c.at+end], 16, 32)
		if err != nil || code > unicode.MaxRune {
			return 0, false, c.fail("invalid escape")
		}
		c.at += end + 1
		return rune(code), false, nil
	}
	code, size := hexadecimal(c.source[c.at:], 4)
	if size == 0 {
		return 0, false, c.fail("invalid escape")
	}
	c.at += size
	if code >= 0xD800 && code < 0xDC00 && c.peek(`\u`) {
		if low, size := hexadecimal(c.source[c.at+2:], 4); size > 0 && low >= 0xDC00 && low < 0xE000 {
			c.at += 2 + size
			return (code-0xD800)<<10 + (low - 0xDC00) + 0x10000, false, nil
		}
	}
	return code, false, nil
}

// property adds the characters of a Unicode property to a set.
func (c *searchCompiler) property(set *class, not bool) error {
	end := strings.IndexByte(c.source[c.at:], '}')
	if !c.peek("{") || end < 0 {
		return c.fail("missing property name")
	}
	name := c.source[c.at+1 : c.at+end]
	c.at += end + 1
	if _, value, ok := strings.Cut(name, "="); ok {
		name = value
	}
	if alias, ok := unicode.CategoryAliases[name]; ok {
		name = alias
	}
	for _, tables := range []map[string]*unicode.RangeTable{unicode.Categories, unicode.Scripts, unicode.Properties} {
		if table, ok := tables[name]; ok {
			set.others = append(set.others, func(r rune) bool { return unicode.Is(table, r) != not })
			return nil
		}
	}
	return c.fail("unknown property %q", cut(name))
}
