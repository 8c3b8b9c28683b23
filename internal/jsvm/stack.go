package jsvm

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var framePosition = regexp.MustCompile(`\(?([^\s()]+):(\d+):(\d+)\)?$`)

// mapped is the exception with the stack of the author's files: what belongs to the runtime
// is left out, and positions are those before compiling.
func (m *Module) mapped(e *Exception) *Exception {
	consumer := m.positions()
	if consumer == nil {
		return e
	}
	e.Stack = e.Stack[:min(len(e.Stack), 8000)]
	var kept []string
	for line := range strings.Lines(e.Stack) {
		line = strings.TrimSpace(line)
		at := framePosition.FindStringSubmatch(line)
		if at == nil || at[1] != m.Name {
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
		}
	}
	e.Stack = strings.Join(kept, "\n")
	return e
}
