package jsonschema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

const (
	maxPattern      = 2_000  // bytes per pattern
	maxProgram      = 5_000  // instructions per pattern
	maxInstructions = 20_000 // instructions in all patterns of a schema
)

// pattern is a JavaScript regular expression. It is first matched by backtracking, which is fast
// for most patterns and counts its steps. If that takes too long, Go's linear-time engine takes
// over. Go does not support look-around or back references, so patterns that use these backtrack
// until the budget is used up.
type pattern struct {
	source string
	search *program       // nil if only Go supports the pattern
	linear *regexp.Regexp // nil if Go does not support the pattern
	cost   int            // number of instructions
}

func compilePattern(source string) (*pattern, error) {
	if err := checkLength(source); err != nil {
		return nil, err
	}
	p := &pattern{source: source}
	tree, translated, err := parseLinear(source)
	if err == nil {
		if p.cost = programSize(tree); p.cost > maxProgram {
			return nil, errPatternSize
		}
		if p.linear, err = regexp.Compile(translated); err != nil {
			return nil, err
		}
	}
	if onlyGo.MatchString(source) && p.linear != nil {
		return p, nil
	}
	if p.search, err = compileSearch(source); err != nil && p.linear == nil {
		return nil, err
	}
	if p.search != nil {
		p.cost = max(p.cost, len(p.search.insts))
	}
	return p, nil
}

// onlyGo matches syntax that Go supports but JavaScript does not.
var onlyGo = regexp.MustCompile(`\[\[:|\(\?P<`)

func parseLinear(source string) (tree *syntax.Regexp, translated string, err error) {
	translated, ok := toGo(source)
	if !ok {
		return nil, "", errNotLinear
	}
	tree, err = syntax.Parse(translated, syntax.Perl)
	return tree, translated, err
}

var errNotLinear = errors.New("it cannot be matched in linear time")

// match reports whether the pattern matches anywhere in s.
func (p *pattern) match(b *budget, s string) bool {
	if p.search != nil {
		patience := 1 << 62
		if p.linear != nil {
			patience = 64 + 8*len(s)
		}
		if found, ok := p.search.match(b, s, patience); ok {
			return found
		}
	}
	// Go's engine cannot be interrupted, so charge its maximum cost in advance.
	b.spend(4 + len(s)/4 + len(s)*p.cost/10)
	return p.linear.MatchString(s)
}

func checkLength(source string) error {
	if len(source) > maxPattern {
		return fmt.Errorf("it is %s bytes; the limit is %s", grouped(len(source)), grouped(maxPattern))
	}
	return nil
}

var errPatternSize = fmt.Errorf("it compiles to more than %s instructions: use smaller counts", grouped(maxProgram))

// programSize estimates the number of instructions in Go's program for an expression.
func programSize(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/8
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += programSize(sub)
		if n > maxProgram {
			return n
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// spaces are the characters in JavaScript's white space class.
const spaces = `\t\n\v\f\r \x{A0}\x{FEFF}\x{2028}\x{2029}\p{Zs}`

// toGo translates a JavaScript pattern to Go's syntax if there is an equivalent.
func toGo(source string) (string, bool) {
	var b strings.Builder
	class := false
	for i := 0; i < len(source); i++ {
		switch c := source[i]; {
		case c == '\\' && i+1 < len(source):
			size, ok := escapeForGo(&b, source[i+1:], class)
			if !ok {
				return "", false
			}
			i += size
		case c == '.' && !class && !strings.Contains(source, "(?"): // flags change its meaning
			b.WriteString(`[^\n\r\x{2028}\x{2029}]`)
		default:
			if c == '[' || c == ']' {
				class = c == '['
			}
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// escapeForGo translates an escape sequence and returns its size.
func escapeForGo(b *strings.Builder, rest string, class bool) (size int, ok bool) {
	switch c := rest[0]; {
	case c == 'u':
		r, digits := hexadecimal(rest[1:], 4)
		fmt.Fprintf(b, `\x{%X}`, r)
		return 1 + digits, digits > 0 && (r < 0xD800 || r >= 0xE000)
	case c == 's' && class:
		b.WriteString(spaces)
	case c == 's':
		b.WriteString("[" + spaces + "]")
	case c == 'S' && !class:
		b.WriteString("[^" + spaces + "]")
	case strings.IndexByte("SAzZQECaG", c) >= 0: // has a different meaning in Go
		return 0, false
	default:
		b.WriteString(`\` + string(c))
	}
	return 1, true
}

// hexadecimal parses exactly n digits. If there are fewer, size is 0.
func hexadecimal(s string, n int) (r rune, size int) {
	if len(s) < n {
		return 0, 0
	}
	for i := range n {
		d := strings.IndexByte("0123456789abcdef", s[i]|0x20)
		if d < 0 {
			return 0, 0
		}
		r = r<<4 | rune(d) //nolint:gosec // a digit
	}
	return r, n
}

// checkPattern returns an error if a string is not a regular expression. It does not compile the
// expression.
func checkPattern(source string) error {
	if err := checkLength(source); err != nil {
		return err
	}
	if _, _, err := parseLinear(source); err == nil {
		return nil
	}
	_, err := compileSearch(source)
	return err
}
