package config

import (
	"fmt"
	"regexp"
	"strings"
)

// misplaced is a key whose indentation differs from that of the keys around it.
type misplaced struct {
	key    string
	line   int
	indent int // indentation of the key, in spaces
	others int // indentation of the keys around it
}

func (m misplaced) String() string {
	return fmt.Sprintf("%s is indented by %s, but the surrounding keys are indented by %d", m.key, spaces(m.indent), m.others)
}

func spaces(n int) string {
	if n == 1 {
		return "1 space"
	}
	return fmt.Sprintf("%d spaces", n)
}

// keyLine matches a line that starts with a key.
var keyLine = regexp.MustCompile(`^( *)([A-Za-z0-9_.*-]+):(?:\s|$)`)

// nearLines is how many lines around a syntax error are searched for its cause.
const nearLines = 2

// oddIndent finds a key near a syntax error whose indentation matches neither the key before it nor
// any of the keys that contain it.
func oddIndent(data []byte, line int) (misplaced, bool) {
	var open []int // indentation of the keys that contain the current line
	before := 0
	for i, text := range strings.Split(string(data), "\n") {
		m := keyLine.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		indent := len(m[1])
		for len(open) > 0 && open[len(open)-1] > indent {
			before = open[len(open)-1]
			open = open[:len(open)-1]
		}
		fits := len(open) > 0 && open[len(open)-1] == indent
		near := i+1 >= line-nearLines && i+1 <= line+nearLines
		if !fits && before > indent && near {
			return misplaced{m[2], i + 1, indent, before}, true
		}
		if !fits {
			if near && len(open) > 0 && endsValue(data, i) {
				return misplaced{m[2], i + 1, indent, open[len(open)-1]}, true
			}
			open = append(open, indent)
		}
		before = 0
	}
	return misplaced{}, false
}

// endsValue reports whether the last key before a line has a value on the same line, which means
// that no key can be nested below it.
func endsValue(data []byte, line int) bool {
	lines := strings.Split(string(data), "\n")
	for i := line - 1; i >= 0; i-- {
		text := strings.TrimSpace(lines[i])
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		m := keyLine.FindStringSubmatch(lines[i])
		if m == nil {
			return false
		}
		_, value, _ := strings.Cut(text, ":")
		value = strings.TrimSpace(value)
		return value != "" && !strings.HasPrefix(value, "#") && !strings.HasPrefix(value, "|") && !strings.HasPrefix(value, ">") && !strings.HasPrefix(value, "&")
	}
	return false
}
