package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/toolyard/toolyard"
)

// Faults are the errors of a file.
type Faults []toolyard.Problem

func (f Faults) Error() string {
	var lines []string
	for _, p := range f {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// Source is a parsed file with the positions of its keys.
type Source struct {
	*Config
	SensitiveValues []string           // values of variables whose names look like those of secrets
	Warnings        []toolyard.Problem // renamed keys

	name      string
	positions map[string]position
	variables map[string]bool // without a default
}

// Variables returns the environment variables that the configuration requires: those without a
// default, and those of its secrets.
func (s *Source) Variables() []string {
	names := maps.Clone(s.variables)
	if names == nil {
		names = make(map[string]bool)
	}
	refs := slices.Collect(maps.Values(s.Secrets))
	for _, server := range s.Servers {
		if server.Auth != nil {
			refs = append(refs, SecretRef(server.Auth.SecretRef))
		}
	}
	for _, ref := range refs {
		if name, ok := strings.CutPrefix(string(ref), "env:"); ok {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

var secretName = regexp.MustCompile(`(?i)token|secret|key|passw|auth|credential|cookie`)

// LooksSecret reports whether a name looks like that of a secret.
func LooksSecret(name string) bool { return secretName.MatchString(name) }

type position struct{ line, column int }

// Load reads a file. Its error is Faults, or that of reading the file.
func Load(name string, getenv func(string) (string, bool)) (*Source, error) {
	data, err := os.ReadFile(name) //nolint:gosec // the operator's own file
	if err != nil {
		return nil, err
	}
	return Parse(name, data, getenv)
}

// Parse parses and validates a configuration. ${VAR} and ${VAR:-default} in values are expanded
// with getenv.
func Parse(name string, data []byte, getenv func(string) (string, bool)) (*Source, error) {
	if len(data) > maxFile {
		return nil, Faults{{Subject: "file", File: name, Line: 1, Column: 1, Message: fmt.Sprintf("is larger than %d bytes", maxFile)}}
	}
	s := &Source{name: name, positions: make(map[string]position), variables: make(map[string]bool)}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, s.syntax(err, data)
	}
	w := walker{source: s, getenv: getenv, anchors: make(map[string]ast.Node)}
	value := any(map[string]any{})
	for i, doc := range file.Docs {
		if i > 0 && doc.Body != nil {
			w.fault(doc.Body, nil, "only one YAML document is supported")
		} else if doc.Body != nil {
			value = w.value(doc.Body, nil, 0)
		}
	}
	if value == nil {
		value = map[string]any{} // an empty file
	}
	if len(w.faults) > 0 {
		return nil, w.faults
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, Faults{{Subject: "file", File: name, Line: 1, Column: 1, Message: err.Error()}}
	}
	config, issues := decode(raw)
	if len(issues) > 0 {
		return nil, s.faults(issues)
	}
	s.Config = config
	return s, nil
}

// At sets the position of a problem to that of a key.
func (s *Source) At(p toolyard.Problem, steps ...string) toolyard.Problem {
	p.File = s.name
	at := s.nearest(steps)
	p.Line, p.Column = at.line, at.column
	return p
}

// nearest returns the position of the deepest key of a path that is in the file.
func (s *Source) nearest(steps []string) position {
	for n := len(steps); n > 0; n-- {
		if at, ok := s.positions[key(steps[:n])]; ok {
			return at
		}
	}
	return position{1, 1}
}

func key(steps []string) string { return strings.Join(steps, "\x00") }

// Located converts issues with a part of the configuration to faults. Steps are the path of the
// part.
func (s *Source) Located(issues []toolyard.Issue, steps ...string) (f Faults) {
	for _, i := range issues {
		at := slices.Concat(steps, i.Location)
		f = append(f, s.At(toolyard.Problem{Subject: toolyard.NewIssue(at, "").Path, Message: i.Message}, at...))
	}
	return f
}

func (s *Source) faults(issues []toolyard.Issue) (f Faults) {
	for _, i := range issues {
		f = append(f, s.At(toolyard.Problem{Subject: i.Path, Message: i.Message}, i.Location...))
	}
	slices.SortStableFunc(f, func(a, b toolyard.Problem) int { return a.Line - b.Line })
	return f
}

func (s *Source) syntax(err error, data []byte) error {
	p := toolyard.Problem{Subject: "syntax", File: s.name, Line: 1, Column: 1, Message: err.Error()}
	if ye, ok := errors.AsType[yaml.Error](err); ok {
		p.Message = ye.GetMessage()
		if t := ye.GetToken(); t != nil && t.Position != nil {
			p.Line, p.Column = t.Position.Line, t.Position.Column
		}
	}
	if odd, ok := oddIndent(data, p.Line); ok {
		p.Subject, p.Message, p.Line, p.Column = "indentation", odd.String(), odd.line, odd.indent+1
	}
	return Faults{p}
}

// Limits of a file, because aliases can expand exponentially.
const (
	maxFile  = 1 << 20
	maxDepth = 64
	maxNodes = 100_000
)

// walker converts a syntax tree to a JSON value and records the position of each key.
type walker struct {
	source  *Source
	getenv  func(string) (string, bool)
	anchors map[string]ast.Node
	nodes   int
	faults  Faults
}

func (w *walker) fault(n ast.Node, steps []string, message string) {
	at := positionOf(n.GetToken())
	w.faults = append(w.faults, toolyard.Problem{Subject: strings.Join(steps, "."), File: w.source.name, Line: at.line, Column: at.column, Message: message})
}

// warnRenamed warns of a key or value with its old spelling.
func (w *walker) warnRenamed(n ast.Node, old []string, renamed string) {
	at := positionOf(n.GetToken())
	w.source.Warnings = append(w.source.Warnings, toolyard.Problem{
		Subject: strings.Join(old, "."), File: w.source.name, Line: at.line, Column: at.column,
		Message: "was renamed to " + renamed, Fix: "Use the new name; the old one will be removed.",
	})
}

func positionOf(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{t.Position.Line, t.Position.Column}
}

func (w *walker) value(n ast.Node, steps []string, depth int) any {
	if w.nodes++; depth > maxDepth || w.nodes > maxNodes {
		if w.nodes <= maxNodes+1 {
			w.fault(n, steps, "the file has too many values or is nested too deeply")
		}
		w.nodes = maxNodes + 1
		return nil
	}
	if _, known := w.source.positions[key(steps)]; !known {
		w.source.positions[key(steps)] = positionOf(n.GetToken())
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return w.mapping(n.Values, steps, depth)
	case *ast.MappingValueNode:
		return w.mapping([]*ast.MappingValueNode{n}, steps, depth)
	case *ast.SequenceNode:
		list := make([]any, 0, len(n.Values))
		for i, item := range n.Values {
			list = append(list, w.value(item, append(slices.Clip(steps), fmt.Sprint(i)), depth+1))
		}
		return list
	case *ast.AnchorNode:
		w.anchors[n.Name.GetToken().Value] = n.Value
		return w.value(n.Value, steps, depth+1)
	case *ast.AliasNode:
		if target, ok := w.anchors[n.Value.GetToken().Value]; ok {
			return w.value(target, steps, depth+1)
		}
		w.fault(n, steps, "refers to an unknown anchor")
		return nil
	case *ast.StringNode:
		value := w.expand(n, n.Value, steps)
		if renamed := newValue(steps, value); renamed != value {
			w.warnRenamed(n, append(slices.Clip(steps), fmt.Sprint(value)), fmt.Sprint(renamed))
			return renamed
		}
		return value
	case *ast.LiteralNode:
		return w.expand(n, n.Value.Value, steps)
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		return n.Value
	case *ast.FloatNode:
		return n.Value
	}
	w.fault(n, steps, "unsupported YAML")
	return nil
}

func (w *walker) mapping(values []*ast.MappingValueNode, steps []string, depth int) any {
	m := make(map[string]any, len(values))
	for _, v := range values {
		name, ok := keyOf(v.Key)
		if !ok {
			w.fault(v.Key, steps, "unsupported kind of key")
			continue
		}
		if renamed := newKey(steps, name); renamed != name {
			w.warnRenamed(v.Key, append(slices.Clip(steps), name), renamed)
			name = renamed
		}
		at := append(slices.Clip(steps), name)
		if _, twice := m[name]; twice {
			w.fault(v.Key, at, "duplicate key")
			continue
		}
		w.source.positions[key(at)] = positionOf(v.Key.GetToken())
		before := len(w.faults)
		value := w.value(v.Value, at, depth+1)
		if value == nil && depth > 0 && len(w.faults) == before {
			w.fault(v.Key, at, "has no value")
			continue
		}
		if value != nil { // a top-level key without a value counts as absent
			m[name] = value
		}
	}
	return m
}

func keyOf(n ast.MapKeyNode) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.BoolNode, *ast.FloatNode, *ast.NullNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// expand expands the variables in a string. The results true and false become booleans.
func (w *walker) expand(n ast.Node, text string, steps []string) any {
	if !strings.Contains(text, "${") {
		return text
	}
	var b strings.Builder
	secrets := 0
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "${")
		b.WriteString(before)
		if !found {
			break
		}
		expression, tail, closed := strings.Cut(after, "}")
		if !closed {
			w.fault(n, steps, "unterminated variable: write ${NAME} or ${NAME:-default}")
			return text
		}
		value, err := w.variable(expression)
		if name, _, _ := strings.Cut(expression, ":"); err == nil && LooksSecret(name) {
			w.source.SensitiveValues = append(w.source.SensitiveValues, value)
		}
		if strings.HasPrefix(expression, "secret:") {
			value, err = "${"+expression+"}", checkSecretPath(steps)
			secrets++
		}
		if err != nil {
			w.fault(n, steps, err.Error())
			return text
		}
		b.WriteString(value)
		rest = tail
	}
	expanded := b.String()
	if strings.Count(expanded, "${secret:") != secrets {
		w.fault(n, steps, "a variable contains a reference to a secret: write references to secrets in this file")
		return text
	}
	if isBool := expanded == "true" || expanded == "false"; isBool && !isString(steps) {
		return expanded == "true"
	}
	return expanded
}

// isString reports whether a value stays a string even if it is true or false: values that are
// passed to servers.
func isString(steps []string) bool {
	return len(steps) > 3 && steps[0] == "servers" && slices.Contains([]string{"env", "headers", "args"}, steps[2])
}

func (w *walker) variable(expression string) (string, error) {
	name, fallback, hasFallback := strings.Cut(expression, ":-")
	if !isName(name) {
		return "", fmt.Errorf("invalid variable name %q: write ${NAME} or ${NAME:-default}", expression)
	}
	if !hasFallback {
		w.source.variables[name] = true
	}
	if value, ok := w.getenv(name); ok && (value != "" || !hasFallback) {
		return value, nil
	}
	if !hasFallback {
		return "", fmt.Errorf("variable %s is not set: set it, or write ${%s:-default}", name, name)
	}
	return fallback, nil
}

// checkSecretPath allows secrets only in env and headers of servers. They are expanded when a
// server is started or contacted.
func checkSecretPath(steps []string) error {
	if len(steps) == 4 && steps[0] == "servers" && (steps[2] == "env" || steps[2] == "headers") {
		return nil
	}
	return errors.New("secrets are allowed only in env and headers of a server, where other users cannot read them")
}

func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
