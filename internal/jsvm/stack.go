package jsvm

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var framePosition = regexp.MustCompile(`\(?([^\s()]+):(\d+):(\d+)\)?$`)

// mapped returns the exception with its stack mapped to the author's files: it omits the runtime's
// frames, and positions refer to the source.
func (m *Module) mapped(e *Exception) *Exception {
	m.locate(e, m.Name)
	return e
}

// locate maps the frames in the named file, and sets the exception's position to the first of them.
func (m *Module) locate(e *Exception, name string) {
	consumer := m.positions()
	if consumer == nil {
		return
	}
	e.Stack = e.Stack[:min(len(e.Stack), 8000)]
	var kept []string
	for line := range strings.Lines(e.Stack) {
		line = strings.TrimSpace(line)
		at := framePosition.FindStringSubmatch(line)
		if at == nil || at[1] != name {
			continue
		}
		row, _ := strconv.Atoi(at[2])
		column, _ := strconv.Atoi(at[3])
		file, _, row, column, ok := consumer.Source(row, max(column-1, 0))
		if !ok {
			continue
		}
		kept = append(kept, strings.Replace(line, at[0], fmt.Sprintf("(%s:%d:%d)", file, row, column+1), 1))
		if e.File == "" {
			e.File, e.Line, e.Column = file, row, column+1
			e.Message = m.named(e, at[2], at[3])
		}
	}
	e.Stack = strings.Join(kept, "\n")
}

var (
	// calleeBefore and calleeAfter match the parts of an expression before and after the position
	// at which the engine reports a failure.
	calleeBefore = regexp.MustCompile(`(new\s+)?[\w$.\]]*$`)
	calleeAfter  = regexp.MustCompile(`^[\w$]+(\.[\w$]+)*(\["[^"\]]*"\])?`)
	nativeFrame  = regexp.MustCompile(`^\s*at (\S+) \(native\)`)
)

// named returns an exception's message with the name of the failing value, which the engine omits.
// row and column refer to the compiled code.
func (m *Module) named(e *Exception, row, column string) string {
	if e.Message != "not a function" && e.Message != "value is not iterable" {
		return e.Message
	}
	if native := nativeFrame.FindStringSubmatch(e.Stack); native != nil {
		if e.Message == "not a function" {
			return "an argument to " + native[1] + " is not a function"
		}
		return e.Message
	}
	line, _ := strconv.Atoi(row)
	at, _ := strconv.Atoi(column)
	text := lineOf(m.Code, line)
	if at < 1 || at > len(text) {
		return e.Message
	}
	after := calleeAfter.FindString(text[at-1:])
	if after == "" {
		return e.Message
	}
	callee := calleeBefore.FindString(text[:at-1]) + after
	what := strings.TrimPrefix(e.Message, "value is ") // "not a function" or "not iterable"
	if constructed, ok := strings.CutPrefix(callee, "new "); ok && what == "not a function" {
		callee, what = constructed, "not a constructor"
	}
	return fmt.Sprintf("%.100s is %s", callee, what)
}

// lineOf returns a line of text. Lines are numbered from 1.
func lineOf(text string, line int) string {
	for l := range strings.Lines(text) {
		if line--; line == 0 {
			return l
		}
	}
	return ""
}
