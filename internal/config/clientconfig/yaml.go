package clientconfig

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxYAMLNodes bounds what aliases can make of a file.
const maxYAMLNodes = 100_000

// maxBrackets bounds the brackets that are open at once, those in texts and comments
// included.
const maxBrackets = 256

// parseYAML reads one document. An empty one is an object without members.
func parseYAML(data []byte) (*node, error) {
	if err := checkYAML(data); err != nil {
		return nil, err
	}
	// The parser counts the two characters that end a line on Windows as two lines.
	unix := bytes.ReplaceAll(bytes.TrimPrefix(data, bom), []byte("\r\n"), []byte("\n"))
	file, err := parser.ParseBytes(unix, 0)
	if err != nil {
		return nil, yamlError(err)
	}
	w := walker{anchors: make(map[string]ast.Node)}
	top := &node{kind: object, line: 1}
	for i, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.NullType:
		case i > 0:
			return nil, errors.New("the file has a second document; put everything in one")
		default:
			top = w.node(doc.Body, 0)
		}
	}
	return top, w.err
}

func yamlError(err error) error {
	message, line := err.Error(), 1
	if ye, ok := errors.AsType[yaml.Error](err); ok {
		message = ye.GetMessage()
		if t := ye.GetToken(); t != nil && t.Position != nil {
			line = t.Position.Line
		}
	}
	return fmt.Errorf("the file is not YAML: line %d: %s", line, brief(message))
}

// checkYAML refuses what is too much before anything is built of it.
func checkYAML(data []byte) error {
	if len(data) > maxYAML {
		return fmt.Errorf("the file has more than %d MiB", maxYAML>>20)
	}
	if !utf8.Valid(data) {
		return errors.New("the file is not UTF-8; save it as such")
	}
	open, dashes, atStart := 0, 0, true
	for _, c := range data {
		switch {
		case c == '\n':
			dashes, atStart = 0, true
		case c == '-' && atStart:
			dashes++
		case c == '[' || c == '{':
			open++
		case (c == ']' || c == '}') && open > 0:
			open--
		}
		atStart = atStart && (c == '-' || c == ' ' || c == '\n' || c == '?' || c == '\t')
		if open > maxBrackets || (dashes > maxDepth && c != '-') {
			return fmt.Errorf("the file is nested more than %d deep", maxDepth)
		}
	}
	return nil
}

// walker turns a syntax tree into nodes.
type walker struct {
	anchors map[string]ast.Node
	nodes   int
	err     error
}

func (w *walker) fail(n ast.Node, format string, args ...any) *node {
	if w.err == nil {
		w.err = fmt.Errorf("line %d: %s", lineOf(n), brief(fmt.Sprintf(format, args...)))
	}
	return &node{}
}

func lineOf(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 1
}

func (w *walker) node(n ast.Node, depth int) *node {
	if w.nodes++; depth > maxDepth || w.nodes > maxYAMLNodes {
		return w.fail(n, "the file is too large or too deep")
	}
	scalar := func(k kind, s string) *node { return &node{kind: k, text: s, line: lineOf(n)} }
	switch n := n.(type) {
	case *ast.MappingNode:
		return w.mapping(n, n.Values, n.IsFlowStyle, depth)
	case *ast.MappingValueNode:
		return w.mapping(n, []*ast.MappingValueNode{n}, n.IsFlowStyle, depth)
	case *ast.SequenceNode:
		list := &node{kind: array, line: lineOf(n), flow: n.IsFlowStyle}
		for _, item := range n.Values {
			list.items = append(list.items, w.node(item, depth+1))
		}
		return list
	case *ast.AnchorNode:
		w.anchors[n.Name.GetToken().Value] = n.Value
		return w.node(n.Value, depth+1)
	case *ast.AliasNode:
		if target, ok := w.anchors[n.Value.GetToken().Value]; ok {
			return w.node(target, depth+1)
		}
		return w.fail(n, "refers to an anchor that is not there")
	case *ast.StringNode:
		return scalar(text, n.Value)
	case *ast.LiteralNode:
		return scalar(text, n.Value.Value)
	case *ast.NullNode:
		return scalar(null, "")
	case *ast.BoolNode:
		return scalar(boolean, fmt.Sprint(n.Value))
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return scalar(number, n.GetToken().Value)
	}
	return w.fail(n, "this kind of YAML is not read")
}

func (w *walker) mapping(n ast.Node, values []*ast.MappingValueNode, flow bool, depth int) *node {
	m := &node{kind: object, line: lineOf(n), flow: flow}
	seen := make(map[string]bool, len(values))
	for _, v := range values {
		if v.Key == nil || v.Key.GetToken() == nil || v.Key.IsMergeKey() || v.Value == nil {
			return w.fail(n, "this kind of key is not read")
		}
		name := v.Key.GetToken().Value
		if s, ok := v.Key.(*ast.StringNode); ok {
			name = s.Value
		}
		if seen[name] {
			return w.fail(v.Key, "%s stands twice", name)
		}
		seen[name] = true
		entry := member{name: name, value: w.node(v.Value, depth+1), line: lineOf(v.Key)}
		if p := v.Key.GetToken().Position; p != nil {
			entry.column = p.Column
		}
		m.members = append(m.members, entry)
	}
	return m
}

// yamlEntry is a value, under its name, for a mapping.
type yamlEntry struct {
	name  string
	value any // as in a field
}

func (e yamlEntry) field() field { return field{e.name, e.value} }

// lines are the lines of an entry.
func (e yamlEntry) lines(indent string) []string {
	if fields, ok := e.value.([]field); ok {
		return append([]string{indent + yamlKey(e.name) + ":"}, yamlOf(fields, indent+"  ")...)
	}
	return yamlOf([]field{e.field()}, indent)
}

// addYAML puts a server under the root.
func addYAML(data []byte, root, name string, fields []field, s *Server) ([]byte, error) {
	tree, err := parseYAML(data)
	if err != nil {
		return nil, err
	}
	if present := tree.get(root).get(name); present != nil {
		if present.isServer(s) {
			return data, nil
		}
		if data, err = removeYAML(data, root, name); err != nil {
			return nil, err
		}
	}
	return insertYAML(data, root, []yamlEntry{{name, fields}})
}

// sheet is a YAML file as lines. Nothing is written from the tree: changes are made in the
// lines.
type sheet struct {
	tree  *node
	lines []string
	eol   string
}

func newSheet(data []byte) (*sheet, error) {
	tree, err := parseYAML(data)
	if err != nil {
		return nil, err
	}
	if tree.kind != object || tree.flow {
		return nil, errors.New("the file is not a mapping with a key on each line; write it so")
	}
	if bytes.Contains(bytes.ReplaceAll(data, []byte("\r\n"), nil), []byte("\r")) {
		return nil, errors.New("the file has lines that end with a carriage return only; save it with other line endings")
	}
	s := &sheet{tree: tree, lines: slices.Collect(strings.Lines(string(data))), eol: "\n"}
	if len(s.lines) > 0 && strings.HasSuffix(s.lines[0], "\r\n") {
		s.eol = "\r\n"
	}
	if n := len(s.lines); n > 0 && !strings.HasSuffix(s.lines[n-1], "\n") {
		s.lines[n-1] += s.eol
	}
	return s, nil
}

// insertYAML adds entries at the end of the mapping under a root, and the root if it is
// not there.
func insertYAML(data []byte, root string, entries []yamlEntry) ([]byte, error) {
	s, err := newSheet(data)
	if err != nil {
		return nil, err
	}
	want := s.tree.get(root)
	for _, e := range entries {
		want = want.with(e.name, nodeOf([]field{e.field()}).members[0].value)
	}
	want = s.tree.with(root, want)
	at, indent, err := s.open(root)
	if err != nil {
		return nil, err
	}
	var added []string
	for _, e := range entries {
		for _, line := range e.lines(indent) {
			added = append(added, line+s.eol)
		}
	}
	s.lines = slices.Insert(s.lines, at, added...)
	return s.finish(want)
}

var emptyRoot = regexp.MustCompile(`^([^#]*:)[ \t]*(?:\{[ \t]*\}|null|~)?[ \t]*(#[^\r\n]*)?\r?\n$`)

// open is the line before which an entry under the root is to be added, and its
// indentation.
func (s *sheet) open(root string) (at int, indent string, err error) {
	i := s.tree.index(root)
	if i < 0 {
		outer := ""
		if len(s.tree.members) > 0 {
			outer = spaces(s.tree.members[0].column - 1)
		}
		s.lines = append(s.lines, outer+yamlKey(root)+":"+s.eol)
		return len(s.lines), outer + "  ", nil
	}
	m := s.tree.members[i]
	if len(m.value.members) > 0 && !m.value.flow {
		indent = spaces(m.value.members[0].column - 1)
		return s.end(m.line, s.next(i), len(indent)), indent, nil
	}
	if !m.value.isEmpty() || m.value.isScalar() || m.line > len(s.lines) {
		return 0, "", fmt.Errorf("%s is not a mapping with a key on each line; write it so", root)
	}
	parts := emptyRoot.FindStringSubmatch(s.lines[m.line-1])
	if parts == nil {
		return 0, "", fmt.Errorf("%s is not written so that something can be added; write an empty line after it", root)
	}
	s.lines[m.line-1] = strings.TrimRight(parts[1]+" "+parts[2], " ") + s.eol
	return m.line, spaces(m.column + 1), nil
}

func spaces(n int) string { return strings.Repeat(" ", max(n, 0)) }

// next is the line on which the top-level member after the one at i begins, or the line
// after the last.
func (s *sheet) next(i int) int {
	if i+1 < len(s.tree.members) {
		return s.tree.members[i+1].line
	}
	return len(s.lines) + 1
}

// end is the number of lines up to the end of what begins on one line and ends before
// another: blank lines there, and comments that are indented less, belong to what follows.
func (s *sheet) end(from, before, indent int) int {
	end := min(before-1, len(s.lines))
	for ; end > from; end-- {
		line := strings.TrimLeft(s.lines[end-1], " ")
		comment := strings.HasPrefix(line, "#") && len(s.lines[end-1])-len(line) < indent
		mark := strings.HasPrefix(s.lines[end-1], "...")
		if strings.TrimSpace(line) != "" && !comment && !mark {
			break
		}
	}
	return end
}

// removeYAML takes an entry away from under the root.
func removeYAML(data []byte, root, name string) ([]byte, error) {
	s, err := newSheet(data)
	if err != nil {
		return nil, err
	}
	servers := s.tree.get(root)
	if servers.get(name) == nil {
		return data, nil
	}
	if servers.flow {
		return nil, fmt.Errorf("%s is not a mapping with a key on each line; write it so", root)
	}
	i, at := s.tree.index(root), servers.index(name)
	m, before := servers.members[at], s.next(i)
	if at+1 < len(servers.members) {
		before = servers.members[at+1].line
	}
	end := s.end(m.line, before, m.column)
	if end < m.line { // an alias stands for what is written elsewhere
		return nil, fmt.Errorf("%s cannot be taken out of %s without harm; do it by hand", brief(name), root)
	}
	want := s.tree.with(root, servers.with(name, nil))
	if len(servers.members) == 1 {
		parts := emptyRoot.FindStringSubmatch(s.lines[s.tree.members[i].line-1])
		if parts == nil {
			return nil, fmt.Errorf("%s cannot be taken out of %s without harm; do it by hand", brief(name), root)
		}
		s.lines[s.tree.members[i].line-1] = strings.TrimRight(parts[1]+" {} "+parts[2], " ") + s.eol
	}
	s.lines = slices.Delete(s.lines, m.line-1, end)
	return s.finish(want)
}

// finish joins the lines and makes sure that they say what they should.
func (s *sheet) finish(want *node) ([]byte, error) {
	out := []byte(strings.Join(s.lines, ""))
	changed, err := parseYAML(out)
	if err != nil || !changed.equal(want) {
		return nil, errors.New("the file cannot be changed without harm; change it by hand")
	}
	return out, nil
}
