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

// Faults is all that is wrong with a file.
type Faults []toolyard.Problem

func (f Faults) Error() string {
	var lines []string
	for _, p := range f {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// Source is a file that was read, and remembers where everything in it stands.
type Source struct {
	*Config
	Hushed []string // what variables held that look like secrets by their names

	name      string
	places    map[string]place
	variables map[string]bool // that the file refers to and has no default for
}

// Variables are the names of the environment variables that the configuration needs: those it
// refers to without a default, and those that hold its secrets.
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

// LooksSecret reports whether what has this name is probably a secret.
func LooksSecret(name string) bool { return secretName.MatchString(name) }

type place struct{ line, column int }

// Load reads the file. Its error is Faults, or that of opening it.
func Load(name string, getenv func(string) (string, bool)) (*Source, error) {
	data, err := os.ReadFile(name) //nolint:gosec // the operator's own file
	if err != nil {
		return nil, err
	}
	return Parse(name, data, getenv)
}

// Parse reads a configuration. ${VAR} and ${VAR:-default} inside its values are
// replaced by what getenv says.
func Parse(name string, data []byte, getenv func(string) (string, bool)) (*Source, error) {
	if len(data) > maxFile {
		return nil, Faults{{Subject: "file", File: name, Line: 1, Column: 1, Message: fmt.Sprintf("has more than %d bytes", maxFile)}}
	}
	s := &Source{name: name, places: make(map[string]place), variables: make(map[string]bool)}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, s.syntax(err, data)
	}
	w := walker{source: s, getenv: getenv, anchors: make(map[string]ast.Node)}
	value := any(map[string]any{})
	for i, doc := range file.Docs {
		if i > 0 && doc.Body != nil {
			w.fault(doc.Body, nil, "a second document is not read; put everything in one")
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

// At is a problem at a place of the file.
func (s *Source) At(p toolyard.Problem, steps ...string) toolyard.Problem {
	p.File = s.name
	at := s.nearest(steps)
	p.Line, p.Column = at.line, at.column
	return p
}

// nearest is the place of the deepest step that stands in the file.
func (s *Source) nearest(steps []string) place {
	for n := len(steps); n > 0; n-- {
		if at, ok := s.places[key(steps[:n])]; ok {
			return at
		}
	}
	return place{1, 1}
}

func key(steps []string) string { return strings.Join(steps, "\x00") }

// Located returns issues with a part of the configuration as faults at their places. Steps lead
// to the part.
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

// Bounds on a file, which aliases could otherwise blow up.
const (
	maxFile  = 1 << 20
	maxDepth = 64
	maxNodes = 100_000
)

// walker turns a syntax tree into a JSON value and notes where each part stands.
type walker struct {
	source  *Source
	getenv  func(string) (string, bool)
	anchors map[string]ast.Node
	nodes   int
	faults  Faults
}

func (w *walker) fault(n ast.Node, steps []string, message string) {
	at := position(n.GetToken())
	w.faults = append(w.faults, toolyard.Problem{Subject: strings.Join(steps, "."), File: w.source.name, Line: at.line, Column: at.column, Message: message})
}

func position(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{1, 1}
	}
	return place{t.Position.Line, t.Position.Column}
}

func (w *walker) value(n ast.Node, steps []string, depth int) any {
	if w.nodes++; depth > maxDepth || w.nodes > maxNodes {
		if w.nodes <= maxNodes+1 {
			w.fault(n, steps, "the file is too large or too deep")
		}
		w.nodes = maxNodes + 1
		return nil
	}
	if _, known := w.source.places[key(steps)]; !known {
		w.source.places[key(steps)] = position(n.GetToken())
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
		return w.expand(n, n.Value, steps)
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
	w.fault(n, steps, "this kind of YAML is not supported")
	return nil
}

func (w *walker) mapping(values []*ast.MappingValueNode, steps []string, depth int) any {
	m := make(map[string]any, len(values))
	for _, v := range values {
		name, ok := keyOf(v.Key)
		if !ok {
			w.fault(v.Key, steps, "this kind of key is not supported")
			continue
		}
		at := append(slices.Clip(steps), name)
		if _, twice := m[name]; twice {
			w.fault(v.Key, at, "is a duplicate key")
			continue
		}
		w.source.places[key(at)] = position(v.Key.GetToken())
		before := len(w.faults)
		value := w.value(v.Value, at, depth+1)
		if value == nil && depth > 0 && len(w.faults) == before {
			w.fault(v.Key, at, "has no value")
			continue
		}
		if value != nil { // a whole part of the file without a value is one that is not there
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

// expand replaces the variables in a text. What comes out as true or false is that.
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
			w.fault(n, steps, "a variable does not end: write ${NAME} or ${NAME:-default}")
			return text
		}
		value, err := w.variable(expression)
		if name, _, _ := strings.Cut(expression, ":"); err == nil && LooksSecret(name) {
			w.source.Hushed = append(w.source.Hushed, value)
		}
		if strings.HasPrefix(expression, "secret:") {
			value, err = "${"+expression+"}", checkSecretPlace(steps)
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
		w.fault(n, steps, "a variable holds a reference to a secret; only this file can refer to secrets")
		return text
	}
	if isTruth := expanded == "true" || expanded == "false"; isTruth && !isText(steps) {
		return expanded == "true"
	}
	return expanded
}

// isText reports whether a place is for text even if that is true or false: what programs
// and servers get.
func isText(steps []string) bool {
	return len(steps) > 3 && steps[0] == "servers" && slices.Contains([]string{"env", "headers", "args"}, steps[2])
}

func (w *walker) variable(expression string) (string, error) {
	name, fallback, hasFallback := strings.Cut(expression, ":-")
	if !isName(name) {
		return "", fmt.Errorf("%q is not a variable: write ${NAME} or ${NAME:-default}", expression)
	}
	if !hasFallback {
		w.source.variables[name] = true
	}
	if value, ok := w.getenv(name); ok && (value != "" || !hasFallback) {
		return value, nil
	}
	if !hasFallback {
		return "", fmt.Errorf("the variable %s is not set: set it, or write ${%s:-default}", name, name)
	}
	return fallback, nil
}

// checkSecretPlace reports whether a secret may stand at a place: it is filled in when a
// server is started or reached, and only where others cannot read it.
func checkSecretPlace(steps []string) error {
	if len(steps) == 4 && steps[0] == "servers" && (steps[2] == "env" || steps[2] == "headers") {
		return nil
	}
	return errors.New("a secret can stand only in env and headers of a server, where others cannot read it")
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
