package jsvm

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-sourcemap/sourcemap"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Module is a compiled script.
type Module struct {
	Name   string   // source file
	Code   string   // JavaScript
	Map    []byte   // source map of the code
	Inputs []Input  // all files in the module
	key    [32]byte // hash of the name and code

	positions func() *sourcemap.Consumer // parsed Map; nil if there is none
}

// Input is one of a module's files.
type Input struct {
	Path string
	Sum  [32]byte
}

// NewModule returns a module for JavaScript code that does not need to be compiled.
func NewModule(name, code string, sourceMap []byte) *Module {
	m := &Module{Name: name, Code: code, Map: sourceMap}
	m.key = sha256.Sum256(m.body())
	m.positions = sync.OnceValue(func() *sourcemap.Consumer {
		c, _ := sourcemap.Parse("", m.Map) // uncompiled JavaScript has no source map
		return c
	})
	return m
}

func (m *Module) body() []byte {
	return append(append([]byte(m.Name), 0), m.Code...)
}

// CompileOptions restricts a script's imports.
type CompileOptions struct {
	Root     string   // absolute path of the folder that imports must stay in
	Provided []string // names of built-in modules
}

// Fault is an error in a script.
type Fault struct {
	File         string // relative to the root
	Line, Column int    // starts at 1; zero if unknown
	Message      string
	Text         string // the source line
	Fix          string // how to fix it, if known
}

func (f *Fault) Error() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s", f.File, f.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Message)
}

// Limits on the text in a fault, in bytes.
const (
	maxFaultMessage = 2 << 10
	maxFaultLine    = 64 << 10
)

// clip limits the text in a fault: it truncates the message and omits a long source line.
func (f *Fault) clip() {
	f.Message = untrusted.Truncate(f.Message, maxFaultMessage)
	if len(f.Text) > maxFaultLine {
		f.Text = ""
	}
}

// maxFrameText is the maximum number of characters of a line that a frame shows.
const maxFrameText = 200

// Frame returns the fault's source line and marks the position. If the line is long, it returns the
// part around the position.
func (f *Fault) Frame() string {
	if f.Text == "" || f.Line == 0 {
		return ""
	}
	text := []rune(f.Text)
	at := min(max(f.Column-1, 0), len(text))
	if from := at - maxFrameText/2; len(text) > maxFrameText && from > 0 {
		text, at = text[from:], at-from
	}
	text = text[:min(len(text), maxFrameText)]
	before := slices.Clone(text[:at])
	for i, r := range before {
		if r != '\t' {
			before[i] = ' '
		}
	}
	number := fmt.Sprint(f.Line)
	return fmt.Sprintf("%s | %s\n%s | %s^", number, string(text), strings.Repeat(" ", len(number)), string(before))
}
