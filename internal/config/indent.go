package config

import (
	"fmt"
	"regexp"
	"strings"
)

// misplaced is a key that is not indented like the keys around it.
type misplaced struct {
	key    string
	line   int
	indent int // of the key, in spaces
	others int // of its neighbours
}

func (m misplaced) String() string {
	return fmt.Sprintf("%s is indented by %s, its neighbours by %d", m.key, spaces(m.indent), m.others)
}

func spaces(n int) string {
	if n == 1 {
		return "1 space"
	}
	return fmt.Sprintf("%d spaces", n)
}

// keyLine is a line that begins with a key.
var keyLine = regexp.MustCompile(`^( *)([A-Za-z0-9_.*-]+):(?:\s|$)`)

// nearLines is how far from an error its cause is looked for.
const nearLines = 2

// oddIndent finds the key near a line that YAML cannot make sense of because it is indented
// neither like the key before it nor like one of those that contain it.
func oddIndent(data []byte, line int) (misplaced, bool) {
	var open []int // the indents of the keys that contain the current line
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

// endsValue reports whether the last key before a line has a value on its own line, so that
// nothing can be indented below it.
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
