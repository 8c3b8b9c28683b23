package jsvm

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/evanw/esbuild/pkg/api"
)

// Snippet is the body of an async function, compiled to an expression that evaluates to the
// function. A module evaluates it as data, so all snippets can share one module.
type Snippet struct {
	Code   string // JavaScript
	module *Module
	lines  int // number of lines in the source
}

// Limits on a snippet.
const (
	MaxSnippet  = 64 << 10        // bytes of source code
	snippetTime = 5 * time.Second // time limit for compiling
)

// snippetHead precedes the source on its own line, so that only line numbers change.
const snippetHead = "(async function %s(%s) {\"use strict\";\n"

// Snippet removes the types from the body of an async function. name is the function's name in
// stack traces, and params are its parameters.
func (c *Compiler) Snippet(ctx context.Context, name, params, body string) (*Snippet, []Fault, error) {
	if len(body) > MaxSnippet {
		return nil, []Fault{{File: name, Message: fmt.Sprintf("the code is larger than %d KiB", MaxSnippet>>10)}}, nil
	}
	source := fmt.Sprintf(snippetHead, name, params) + body + "\n})"
	lines := strings.Count(body, "\n") + 1
	m, faults, err := c.run(ctx, compileRequest{File: name, Source: source}, snippetTime)
	if err != nil {
		return nil, nil, err
	}
	for i := range faults {
		placeInSnippet(&faults[i], body, lines)
	}
	if len(faults) > 0 {
		return nil, faults, nil
	}
	return &Snippet{Code: m.Code, module: m, lines: lines}, nil, nil
}

// moduleSyntax matches statements that are not allowed in a function body.
var moduleSyntax = regexp.MustCompile(`^\s*(import|export)\b`)

// placeInSnippet converts a fault's position from the wrapped function to the body. If the fault is
// after the end of the body, it is placed on the last line.
func placeInSnippet(f *Fault, body string, lines int) {
	if f.Line == 0 {
		return
	}
	if f.Line--; f.Line > lines || f.Line < 1 {
		f.Line = min(max(f.Line, 1), lines)
		f.Text = strings.TrimRight(lineOf(body, f.Line), "\r\n")
		f.Column = len([]rune(f.Text)) + 1
	}
	if moduleSyntax.MatchString(f.Text) {
		f.Fix = "The code is the body of a function: it cannot import or export anything."
	}
}

// transform removes the types from source code. It runs in a compiler process.
func transform(file, source string) (*Module, []Fault) {
	result := api.Transform(withoutMaps([]byte(source)), api.TransformOptions{
		Loader: api.LoaderTS, Sourcefile: file, Target: api.ES2023, Charset: api.CharsetUTF8, TsconfigRaw: "{}",
		Sourcemap: api.SourceMapExternal, SourcesContent: api.SourcesContentExclude, LogLimit: maxFaults,
	})
	if len(result.Errors) > 0 {
		return &Module{Name: file}, (&compiler{entry: file}).faults(result.Errors)
	}
	return NewModule(file, string(result.Code), result.Map), nil
}

// evalName is the file name of evaluated code in stack traces.
const evalName = "<input>"

// Locate sets an exception's position to the place in the snippet where it was thrown, if known,
// and its stack to the frames in the snippet.
func (s *Snippet) Locate(e *Exception) {
	e.Line, e.Column = 0, 0
	s.module.locate(e, evalName)
	if e.Line--; e.Line < 1 || e.Line > s.lines {
		e.Line, e.Column = 0, 0
	}
}
