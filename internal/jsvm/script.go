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
	Name   string   // the file it was made from
	Code   string   // JavaScript
	Map    []byte   // its source map
	Inputs []Input  // the files that it is made of
	key    [32]byte // of name and code

	positions func() *sourcemap.Consumer // what Map says, nil if it says nothing
}

// Input is a file that a module is made of.
type Input struct {
	Path string
	Sum  [32]byte
}

// NewModule is a module of JavaScript that needs no compiling.
func NewModule(name, code string, sourceMap []byte) *Module {
	m := &Module{Name: name, Code: code, Map: sourceMap}
	m.key = sha256.Sum256(m.body())
	m.positions = sync.OnceValue(func() *sourcemap.Consumer {
		c, _ := sourcemap.Parse("", m.Map) // of JavaScript that was not compiled there is none
		return c
	})
	return m
}

func (m *Module) body() []byte {
	return append(append([]byte(m.Name), 0), m.Code...)
}

// CompileOptions say what a script may be made of.
type CompileOptions struct {
	Root     string   // the folder that imports cannot leave, absolute
	Provided []string // names of modules that are there without a file
}

// Fault is something that is wrong with a script.
type Fault struct {
	File         string // relative to the root
	Line, Column int    // from 1; zero when unknown
	Message      string
	Text         string // the line
	Fix          string // what to do about it, if that is known
}

func (f *Fault) Error() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s", f.File, f.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s", f.File, f.Line, f.Column, f.Message)
}

// Bounds on the texts of a fault, in bytes.
const (
	maxFaultMessage = 2 << 10
	maxFaultLine    = 64 << 10
)

// clip bounds the texts of a fault: the message is cut, a line that is too long left out.
func (f *Fault) clip() {
	f.Message = untrusted.Truncate(f.Message, maxFaultMessage)
	if len(f.Text) > maxFaultLine {
		f.Text = ""
	}
}

// maxFrameText is how many characters of a line a frame shows.
const maxFrameText = 200

// Frame shows the line of a fault, or the part of a long one around it, and points at the place.
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
