package clientconfig

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/config/yamltree"
)

// parseYAML parses one document. An empty document is an object with no members.
func parseYAML(data []byte) (*node, error) {
	if len(data) > maxYAML {
		return nil, fmt.Errorf("the file is larger than %d MiB", maxYAML>>20)
	}
	tree, err := yamltree.Parse(data)
	if problems, ok := errors.AsType[yamltree.Error](err); ok {
		return nil, yamlError(problems[0])
	}
	return convertYAML(tree), err
}

func yamlError(p yamltree.Problem) error {
	switch {
	case p.Syntax:
		return fmt.Errorf("the file is not valid YAML: line %d: %s", p.Line, brief(p.Message))
	case len(p.Path) == 0:
		return fmt.Errorf("line %d: %s", p.Line, p.Message)
	}
	return fmt.Errorf("line %d: %s: %s", p.Line, brief(strings.Join(p.Path, ".")), p.Message)
}

var yamlKinds = map[yamltree.Kind]kind{
	yamltree.Null: null, yamltree.Bool: boolean, yamltree.Number: number, yamltree.String: text,
	yamltree.Sequence: array, yamltree.Mapping: object,
}

func convertYAML(n *yamltree.Node) *node {
	if n == nil {
		return nil
	}
	out := &node{kind: yamlKinds[n.Kind], text: n.Text, line: n.Line, flow: n.Flow}
	for _, item := range n.Items {
		out.items = append(out.items, convertYAML(item))
	}
	for _, m := range n.Members {
		out.members = append(out.members, member{name: m.Name, value: convertYAML(m.Value), line: m.Line, column: m.Column})
	}
	return out
}

// yamlEntry is a named value in a mapping.
type yamlEntry struct {
	name  string
	value any // same types as in a field
}

func (e yamlEntry) field() field { return field{e.name, e.value} }

func (e yamlEntry) lines(indent string) []string {
	if fields, ok := e.value.([]field); ok {
		return append([]string{indent + yamlKey(e.name) + ":"}, yamlOf(fields, indent+"  ")...)
	}
	return yamlOf([]field{e.field()}, indent)
}

// addYAML adds a server under the root.
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

// sheet is a YAML file as lines. Edits change the lines, never the parsed tree.
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
		return nil, errors.New("the file is not a mapping in block style; write one key per line")
	}
	if bytes.Contains(bytes.ReplaceAll(data, []byte("\r\n"), nil), []byte("\r")) {
		return nil, errors.New("the file contains bare carriage returns; save it with LF line endings")
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

// insertYAML adds entries at the end of the mapping under a root. If the root is missing, it is
// created.
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

// open returns the line at which to insert an entry under the root, and its indentation.
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
		return 0, "", fmt.Errorf("%s is not a mapping in block style; write one key per line", root)
	}
	parts := emptyRoot.FindStringSubmatch(s.lines[m.line-1])
	if parts == nil {
		return 0, "", fmt.Errorf("cannot add an entry to %s; add an empty line after it", root)
	}
	s.lines[m.line-1] = strings.TrimRight(parts[1]+" "+parts[2], " ") + s.eol
	return m.line, spaces(m.column + 1), nil
}

func spaces(n int) string { return strings.Repeat(" ", max(n, 0)) }

// next returns the first line of the top-level member after member i, or the line after the last
// one.
func (s *sheet) next(i int) int {
	if i+1 < len(s.tree.members) {
		return s.tree.members[i+1].line
	}
	return len(s.lines) + 1
}

// end returns the last line of an entry that starts on line from and ends before line before.
// Trailing blank lines, and comments with less indentation, belong to the next entry.
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

// removeYAML removes an entry under the root.
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
		return nil, fmt.Errorf("%s is not a mapping in block style; write one key per line", root)
	}
	i, at := s.tree.index(root), servers.index(name)
	m, before := servers.members[at], s.next(i)
	if at+1 < len(servers.members) {
		before = servers.members[at+1].line
	}
	end := s.end(m.line, before, m.column)
	if end < m.line { // the value is an alias that is defined elsewhere
		return nil, fmt.Errorf("cannot safely remove %s from %s; remove it manually", brief(name), root)
	}
	want := s.tree.with(root, servers.with(name, nil))
	if len(servers.members) == 1 {
		parts := emptyRoot.FindStringSubmatch(s.lines[s.tree.members[i].line-1])
		if parts == nil {
			return nil, fmt.Errorf("cannot safely remove %s from %s; remove it manually", brief(name), root)
		}
		s.lines[s.tree.members[i].line-1] = strings.TrimRight(parts[1]+" {} "+parts[2], " ") + s.eol
	}
	s.lines = slices.Delete(s.lines, m.line-1, end)
	return s.finish(want)
}

// finish joins the lines and verifies that they parse to want.
func (s *sheet) finish(want *node) ([]byte, error) {
	out := []byte(strings.Join(s.lines, ""))
	changed, err := parseYAML(out)
	if err != nil || !changed.equal(want) {
		return nil, errors.New("the file cannot be edited safely; edit it manually")
	}
	return out, nil
}
