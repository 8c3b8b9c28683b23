package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/jsvm"
	"github.com/toolyard/toolyard/internal/trust/safefile"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// maxFaults limits how many problems are reported for one file.
const maxFaults = 10

// fail records the file's errors as problems.
func (f *file) fail(errs ...error) *file {
	for _, err := range errs {
		if len(f.faults) < maxFaults {
			f.faults = append(f.faults, f.problem(err))
		}
	}
	return f
}

// warn records a probable mistake.
func (f *file) warn(fault *jsvm.Fault) {
	if len(f.warnings) < maxFaults {
		p := f.problem(fault)
		p.Warning = true
		f.warnings = append(f.warnings, p)
	}
}

// maxMessage limits the length of a problem's message, in bytes.
const maxMessage = 2 << 10

func (f *file) problem(err error) toolyard.Problem {
	p := toolyard.Problem{Source: "scripts", File: f.path, Message: err.Error()}
	if fault, ok := errors.AsType[*jsvm.Fault](err); ok {
		p.File, p.Line, p.Column, p.Message, p.Fix, p.Frame = fault.File, fault.Line, fault.Column, fault.Message, fault.Fix, fault.Frame()
	}
	p.Message = untrusted.Truncate(p.Message, maxMessage)
	return p
}

// loadFault adds the position to an error that occurred while loading a script.
func loadFault(f *file, err error) error {
	fault := &jsvm.Fault{File: f.path, Message: err.Error()}
	var e *jsvm.Exception
	if errors.As(err, &e) && e.Line > 0 {
		fault.File, fault.Line, fault.Column = e.File, e.Line, e.Column
		path := filepath.Join(strings.TrimSuffix(f.abs, filepath.FromSlash(f.path)), filepath.FromSlash(e.File))
		if slices.ContainsFunc(f.inputs, func(in jsvm.Input) bool { return in.Path == path }) {
			fault.Text = lineOf(path, e.Line)
		}
	}
	return fault
}

func lineOf(path string, line int) string {
	data, err := safefile.Read(path, jsvm.MaxSource)
	if err != nil {
		return ""
	}
	for text := range strings.Lines(string(data)) {
		if line--; line == 0 {
			return strings.TrimRight(text, "\r\n")
		}
	}
	return ""
}

// jsonFault adds the position to a JSON error.
func jsonFault(file string, data []byte, err error) error {
	fault := &jsvm.Fault{File: file, Message: err.Error()}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	offset := int64(0)
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	}
	place(fault, string(data), int(min(max(offset-1, 0), int64(len(data)))))
	return fault
}

// place sets a fault's position in a text.
func place(fault *jsvm.Fault, text string, offset int) {
	before := text[:offset]
	start := strings.LastIndexByte(before, '\n') + 1
	fault.Line = strings.Count(before, "\n") + 1
	fault.Column = utf8.RuneCountInString(before[start:]) + 1
	fault.Text, _, _ = strings.Cut(text[start:], "\n")
	fault.Text = strings.TrimRight(fault.Text, "\r")
}

// partFault returns a fault in a script's export or in one of its keys. If the part cannot be
// found, the position is the start of the file.
func partFault(f *file, message, part string, keys ...string) *jsvm.Fault {
	fault := &jsvm.Fault{File: f.path, Line: 1, Column: 1, Message: message}
	data, err := safefile.Read(f.abs, jsvm.MaxSource)
	if err != nil {
		return fault
	}
	text := string(data)
	if at := exportOf(text, part); at >= 0 {
		place(fault, text, keyAfter(text, at, keys))
	}
	return fault
}

// exportOf returns the offset of an export, of a member with that name in an AI SDK tool, or of any
// occurrence of the name. It returns -1 if there is none.
func exportOf(text, part string) int {
	name := regexp.QuoteMeta(part)
	patterns := []string{
		`(?m)^[ \t]*(export\s+(?:async\s+)?(?:const|let|var|function\*?|class)\s+` + name + `\b)`,
		`(?m)^[ \t]*((?:const|let|var|(?:async\s+)?function\*?|class)\s+` + name + `\b)`,
		`[{,]\s*(["']?` + name + `["']?\s*[:(,}])`,
		`\b(` + name + `)\b`,
	}
	if part == "default" {
		patterns = []string{`(?m)^[ \t]*(export\s+default\b)`}
	}
	for _, pattern := range patterns {
		if export, err := regexp.Compile(pattern); err == nil {
			if at := export.FindStringSubmatchIndex(text); at != nil {
				return at[2]
			}
		}
	}
	return -1
}

// keyAfter looks for nested keys after an offset, and returns the offset of the last one that it
// finds.
func keyAfter(text string, offset int, keys []string) int {
	for _, key := range keys {
		pattern, err := regexp.Compile(`["']?\b` + regexp.QuoteMeta(key) + `\b["']?\s*[:,}]`)
		if err != nil {
			return offset
		}
		at := pattern.FindStringIndex(text[offset:])
		if at == nil {
			return offset
		}
		offset += at[0]
	}
	return offset
}

// definitionFault returns a fault in a tool's definition, either in the script or in its
// declaration file.
func definitionFault(f *file, declared bool, def *definition, err error) *jsvm.Fault {
	message := strings.TrimPrefix(err.Error(), "tool "+f.toolName(def)+": ")
	part, keys := partOf(message)
	if part == "" && def.Name != "" && strings.HasPrefix(message, "tool name ") {
		part = "name"
	}
	if !declared {
		if part == "" {
			part = def.Export
		}
		return partFault(f, message, part, keys...)
	}
	fault := &jsvm.Fault{File: strings.TrimSuffix(f.path, filepath.Ext(f.path)) + ".json", Line: 1, Column: 1, Message: message}
	data, readErr := safefile.Read(f.declaration, jsvm.MaxSource)
	if readErr != nil {
		return fault
	}
	names := map[string]string{"inputSchema": "parameters", "outputSchema": "output"}
	if name, ok := names[part]; ok && !bytes.Contains(data, []byte(`"`+part+`"`)) {
		part = name
	}
	if at := bytes.Index(data, []byte(`"`+def.Name+`"`)); at >= 0 {
		place(fault, string(data), keyAfter(string(data), at, append([]string{part}, keys...)))
	}
	return fault
}

// partOf returns the export and the nested keys that a definition error refers to, if any.
func partOf(message string) (part string, keys []string) {
	if path, ok := strings.CutPrefix(message, "_meta."); ok {
		path, _, _ = strings.Cut(path, ":")
		return "_meta", strings.Split(path, ".")
	}
	for beginning, part := range map[string]string{
		"input schema": "inputSchema", "output schema": "outputSchema", "unknown mode": "modes", "timeout ": "timeout",
		"name ": "name", "description ": "description", "summary ": "summary", "hint ": "hint", "title ": "title", "category ": "category", "_meta ": "_meta", "permissions": "permissions",
	} {
		if strings.HasPrefix(message, beginning) {
			return part, nil
		}
	}
	return "", nil
}
