package clientconfig

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// parseTOML parses a document. Members are sorted by name, and only tables have a line.
func parseTOML(data []byte) (*node, error) {
	data = bytes.TrimPrefix(data, bom)
	if len(data) > maxYAML {
		return nil, fmt.Errorf("the file is larger than %d MiB", maxYAML>>20)
	}
	if tooDeep(data) {
		return nil, fmt.Errorf("the file is nested more than %d levels deep", maxDepth)
	}
	var values map[string]any
	if _, err := toml.Decode(string(data), &values); err != nil {
		if problem, ok := errors.AsType[toml.ParseError](err); ok {
			return nil, fmt.Errorf("the file is not valid TOML: line %d: %s", problem.Position.Line, brief(problem.Message))
		}
		return nil, fmt.Errorf("the file is not valid TOML: %s", brief(err.Error()))
	}
	tree := convertTOML(values)
	for _, t := range tomlTables(slices.Collect(strings.Lines(string(data)))) {
		tree.setLine(t.path, t.line)
	}
	return tree, nil
}

// tooDeep reports whether brackets are nested too deeply. Brackets in strings count too, because
// detecting strings would be too expensive.
func tooDeep(data []byte) bool {
	depth := 0
	for _, c := range data {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		}
		if depth > maxDepth {
			return true
		}
	}
	return false
}

func convertTOML(value any) *node {
	switch value := value.(type) {
	case map[string]any:
		n := &node{kind: object}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			n.members = append(n.members, member{name: name, value: convertTOML(value[name])})
		}
		return n
	case []map[string]any:
		n := &node{kind: array}
		for _, item := range value {
			n.items = append(n.items, convertTOML(item))
		}
		return n
	case []any:
		n := &node{kind: array}
		for _, item := range value {
			n.items = append(n.items, convertTOML(item))
		}
		return n
	case string:
		return &node{kind: text, text: value}
	case bool:
		return &node{kind: boolean, text: fmt.Sprint(value)}
	}
	return &node{kind: number, text: fmt.Sprint(value)}
}

// setLine sets the line of the member at a path.
func (n *node) setLine(path []string, line int) {
	for ; n != nil && len(path) > 0; path = path[1:] {
		i := n.index(path[0])
		if i < 0 {
			return
		}
		if len(path) == 1 {
			n.members[i].line = line
		}
		n = n.members[i].value
	}
}

// tomlTable is the header of a table.
type tomlTable struct {
	path []string
	line int
}

// tomlTables returns the headers in a file. It may mistake a line in a multi-line value for a
// header, but edits are verified afterwards.
func tomlTables(lines []string) (tables []tomlTable) {
	for i, line := range lines {
		if !strings.HasPrefix(strings.TrimLeft(line, " \t"), "[") {
			continue
		}
		var ignored map[string]any
		meta, err := toml.Decode(line, &ignored)
		if keys := meta.Keys(); err == nil && len(keys) > 0 {
			tables = append(tables, tomlTable{keys[len(keys)-1], i + 1})
		}
	}
	return tables
}

// addTOML adds a server as a table below the root.
func addTOML(data []byte, root, name string, fields []field, s *Server) ([]byte, error) {
	tree, err := parseTOML(data)
	if err != nil {
		return nil, err
	}
	if present := tree.get(root).get(name); present != nil {
		if present.isServer(s) {
			return data, nil
		}
		if data, err = removeTOML(data, root, name); err != nil {
			return nil, err
		}
	}
	eol := "\n"
	if bytes.Contains(data, []byte("\r\n")) {
		eol = "\r\n"
	}
	var b strings.Builder
	b.Write(data)
	if content := bytes.TrimPrefix(data, bom); len(content) > 0 {
		if !bytes.HasSuffix(content, []byte("\n")) {
			b.WriteString(eol)
		}
		b.WriteString(eol)
	}
	fmt.Fprintf(&b, "[%s.%s]%s", tomlKey(root), tomlKey(name), eol)
	for _, f := range fields {
		fmt.Fprintf(&b, "%s = %s%s", tomlKey(f.key), tomlInline.encode(f.value), eol)
	}
	return finishTOML([]byte(b.String()), tree.with(root, tree.get(root).with(name, nodeOf(fields))))
}

// removeTOML removes a server's tables.
func removeTOML(data []byte, root, name string) ([]byte, error) {
	tree, err := parseTOML(data)
	if err != nil {
		return nil, err
	}
	if tree.get(root).get(name) == nil {
		return data, nil
	}
	lines := slices.Collect(strings.Lines(string(data)))
	tables := tomlTables(lines)
	for i, t := range slices.Backward(tables) {
		if len(t.path) < 2 || t.path[0] != root || t.path[1] != name {
			continue
		}
		end := len(lines)
		if i+1 < len(tables) {
			end = startOfTable(lines, tables[i+1].line)
		}
		begin := t.line - 1
		if end == len(lines) && begin > 0 && strings.TrimSpace(lines[begin-1]) == "" {
			begin--
		}
		lines = slices.Delete(lines, begin, end)
	}
	out := []byte(strings.Join(lines, ""))
	want := tree.with(root, tree.get(root).with(name, nil))
	if changed, err := parseTOML(out); err == nil && changed.get(root) == nil && len(want.get(root).members) == 0 {
		want = want.with(root, nil) // the root has no header of its own
	}
	return finishTOML(out, want)
}

// startOfTable returns the number of lines before a table, not counting the comments and blank
// lines directly above it.
func startOfTable(lines []string, header int) int {
	at := header - 1
	for at > 0 {
		line := strings.TrimSpace(lines[at-1])
		if line != "" && !strings.HasPrefix(line, "#") {
			break
		}
		at--
	}
	return at
}

// finishTOML verifies that an edited file parses to want.
func finishTOML(out []byte, want *node) ([]byte, error) {
	changed, err := parseTOML(out)
	if err != nil || !changed.equal(want.sorted()) {
		return nil, errors.New("the file cannot be edited safely; edit it manually")
	}
	return out, nil
}

// sorted returns the node with the members of all objects sorted by name.
func (n *node) sorted() *node {
	out := &node{kind: n.kind, text: n.text}
	for _, item := range n.items {
		out.items = append(out.items, item.sorted())
	}
	for _, m := range n.members {
		out.members = append(out.members, member{name: m.name, value: m.value.sorted()})
	}
	slices.SortFunc(out.members, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	return out
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func tomlKey(s string) string {
	if bareKey.MatchString(s) {
		return s
	}
	return quoteYAML(s)
}

// TOML strings have the same escapes as YAML strings.
var tomlInline = inline{text: quoteYAML, key: tomlKey, assign: " = ", open: "{ ", close: " }"}
