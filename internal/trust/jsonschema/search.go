package jsonschema

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// program is a regular expression that is matched by backtracking, which look-around and back
// references require. Each instruction uses one step of the budget.
type program struct {
	insts  []inst
	groups int
	slots  int // number of slots for captures and loops
}

type opcode uint8

const (
	opRune     opcode = iota
	opClass           // matches one character in a class
	opBegin           // matches the start of the text or of a line
	opEnd             // matches the end of the text or of a line
	opBoundary        // matches a word boundary
	opSplit           // tries x, then y
	opJump
	opSave     // stores the position in slot x
	opClear    // clears slots x to y
	opProgress // fails if nothing was consumed since slot x
	opBackRef  // matches the text captured by group x
	opLook     // look-ahead or look-behind; continues at x
	opMatch
)

type inst struct {
	op       opcode
	backward bool // look-behind matches from right to left
	not      bool
	fold     bool // ignores case
	lines    bool // opBegin and opEnd match at line boundaries
	x, y     int
	r        rune
	class    *class
}

// class is a set of characters.
type class struct {
	not    bool
	ranges []rune // pairs of first and last character
	others []func(rune) bool
}

func (c *class) has(r rune, fold bool) bool {
	in := c.contains(r)
	if fold && !in {
		for f := unicode.SimpleFold(r); f != r && !in; f = unicode.SimpleFold(f) {
			in = c.contains(f)
		}
	}
	return in != c.not
}

func (c *class) contains(r rune) bool {
	for i := 0; i < len(c.ranges); i += 2 {
		if r >= c.ranges[i] && r <= c.ranges[i+1] {
			return true
		}
	}
	return slices.ContainsFunc(c.others, func(has func(rune) bool) bool { return has(r) })
}

// matcher searches one text.
type matcher struct {
	*program
	budget *budget
	text   string
	slot   []int
	stack  []choice

	patience int // number of steps until the search aborts
}

// choice is a backtracking entry: an alternative to try, or a slot to restore.
type choice struct {
	pc, pos int // pc is -1 for a slot
	slot    int
}

// impatient is the maximum number of choices in a search that may abort.
const impatient = 1 << 10

// match searches a text. ok is false if the search aborted because it took too many steps.
func (p *program) match(b *budget, text string, patience int) (found, ok bool) {
	b.spend(8)
	b.allocate(256 + 8*p.slots)
	m := &matcher{program: p, budget: b, text: text, slot: make([]int, p.slots), patience: patience}
	for start := 0; ; {
		for i := range m.slot {
			m.slot[i] = -1
		}
		m.stack = m.stack[:0]
		if _, ok := m.run(0, start); ok || m.patience < 0 {
			return ok, m.patience >= 0
		}
		if start >= len(text) || p.insts[0].op == opBegin && !p.insts[0].lines {
			return false, true
		}
		_, size := utf8.DecodeRuneInString(text[start:])
		start += size
	}
}

func (m *matcher) push(c choice) {
	if len(m.stack) == cap(m.stack) {
		if len(m.stack) >= impatient && m.patience < 1<<60 {
			m.patience = -1
		}
		m.budget.allocate(24 * (2*cap(m.stack) + 16))
	}
	m.stack = append(m.stack, c)
}

func (m *matcher) set(slot, pos int) {
	m.push(choice{pc: -1, slot: slot, pos: m.slot[slot]})
	m.slot[slot] = pos
}

// run executes instructions at a position until opMatch.
func (m *matcher) run(pc, pos int) (end int, ok bool) {
	base := len(m.stack)
	for {
		m.budget.spend(1)
		if m.patience--; m.patience < 0 {
			return 0, false
		}
		in := &m.insts[pc]
		if in.op == opMatch {
			m.keepSlots(base)
			return pos, true
		}
		next, to, ok := m.step(in, pc, pos)
		if !ok {
			if next, to, ok = m.back(base); !ok {
				return 0, false
			}
		}
		pc, pos = next, to
	}
}

// keepSlots removes the alternatives added since base, but keeps the slots to restore.
func (m *matcher) keepSlots(base int) {
	kept := m.stack[:base]
	for _, c := range m.stack[base:] {
		if c.pc < 0 {
			kept = append(kept, c)
		}
	}
	m.budget.spend((len(m.stack) - base) / 8)
	m.stack = kept
}

// back backtracks to the last choice.
func (m *matcher) back(base int) (pc, pos int, ok bool) {
	for len(m.stack) > base {
		c := m.stack[len(m.stack)-1]
		m.stack = m.stack[:len(m.stack)-1]
		if c.pc >= 0 {
			return c.pc, c.pos, true
		}
		m.slot[c.slot] = c.pos
	}
	return 0, 0, false
}

// step executes one instruction.
func (m *matcher) step(in *inst, pc, pos int) (next, to int, ok bool) {
	switch in.op {
	case opRune, opClass:
		r, size := m.read(pos, in.backward)
		return pc + 1, pos + size, size != 0 && in.accepts(r)
	case opBegin:
		return pc + 1, pos, pos == 0 || in.lines && isNewline(m.before(pos))
	case opEnd:
		return pc + 1, pos, pos == len(m.text) || in.lines && isNewline(m.after(pos))
	case opBoundary:
		return pc + 1, pos, (isWord(m.before(pos)) != isWord(m.after(pos))) != in.not
	case opSplit:
		m.push(choice{pc: in.y, pos: pos})
		return in.x, pos, true
	case opJump:
		return in.x, pos, true
	case opSave:
		m.set(in.x, pos)
		return pc + 1, pos, true
	case opClear:
		for slot := in.x; slot < in.y; slot++ {
			m.set(slot, -1)
		}
		return pc + 1, pos, true
	case opProgress:
		return pc + 1, pos, m.slot[in.x] != pos
	case opBackRef:
		to, ok = m.backRef(in, pos)
		return pc + 1, to, ok
	}
	return in.x, pos, m.look(in, pc, pos)
}

func (in *inst) accepts(r rune) bool {
	if in.op == opClass {
		return in.class.has(r, in.fold)
	}
	return r == in.r || in.fold && strings.EqualFold(string(r), string(in.r))
}

// look matches look-ahead or look-behind, and does not move the position.
func (m *matcher) look(in *inst, pc, pos int) bool {
	base := len(m.stack)
	_, ok := m.run(pc+1, pos)
	if ok && in.not {
		for len(m.stack) > base { // a negative look-around captures nothing
			m.back(base)
		}
	}
	return ok != in.not
}

func (m *matcher) backRef(in *inst, pos int) (int, bool) {
	start, end := m.slot[2*in.x], m.slot[2*in.x+1]
	if start < 0 || end < 0 {
		return pos, true // a group that did not participate matches the empty string
	}
	if start > end {
		start, end = end, start
	}
	want := m.text[start:end]
	m.budget.spend(len(want) / 16)
	from, to := pos, pos+len(want)
	if in.backward {
		from, to = pos-len(want), pos
	}
	if from < 0 || to > len(m.text) {
		return pos, false
	}
	got := m.text[from:to]
	if got != want && (!in.fold || !strings.EqualFold(got, want)) {
		return pos, false
	}
	if in.backward {
		return from, true
	}
	return to, true
}

// read returns the next character and its size, which is 0 at the end.
func (m *matcher) read(pos int, backward bool) (rune, int) {
	if backward {
		r, size := utf8.DecodeLastRuneInString(m.text[:pos])
		return r, -size
	}
	if pos < len(m.text) && m.text[pos] < utf8.RuneSelf {
		return rune(m.text[pos]), 1
	}
	return utf8.DecodeRuneInString(m.text[pos:])
}

// before and after return the characters around a position, or -1.
func (m *matcher) before(pos int) rune {
	if r, size := m.read(pos, true); size != 0 {
		return r
	}
	return -1
}

func (m *matcher) after(pos int) rune {
	if r, size := m.read(pos, false); size != 0 {
		return r
	}
	return -1
}

func isWord(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

func isNewline(r rune) bool { return r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029' }

func isSpace(r rune) bool {
	return r == ' ' || r >= '\t' && r <= '\r' || r == 0xA0 || r == 0xFEFF || r == '\u2028' || r == '\u2029' || r > 0x7F && unicode.Is(unicode.Zs, r)
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }
