package clientconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

var bom = []byte("\xef\xbb\xbf")

// parseJSON parses JSON with comments and trailing commas.
func parseJSON(data []byte) (*node, error) {
	d, err := newDocument(data)
	if err != nil {
		return nil, err
	}
	return d.node(&d.top), nil
}

// document is a JSON file with positions. Edits change the text, never the parsed tree.
type document struct {
	text  []byte // excluding a byte order mark
	top   hujson.Value
	lines []int // start of each line
}

func newDocument(data []byte) (*document, error) {
	d := &document{text: bytes.TrimPrefix(data, bom)}
	if err := checkJSON(d.text); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(d.text)) == 0 {
		d.text = []byte("{}\n")
	}
	top, err := hujson.Parse(d.text)
	if err != nil {
		return nil, fmt.Errorf("the file is not valid JSON: %s", brief(strings.TrimPrefix(err.Error(), "hujson: ")))
	}
	d.top, d.lines = top, []int{0}
	for i, c := range d.text {
		if c == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	return d, nil
}

// checkJSON enforces the limits before parsing.
func checkJSON(data []byte) error {
	if len(data) > maxJSON {
		return fmt.Errorf("the file is larger than %d MiB", maxJSON>>20)
	}
	if !utf8.Valid(data) {
		return errors.New("the file is not valid UTF-8; save it as UTF-8")
	}
	depth, nodes := 0, 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = endOfString(data, i)
		case '/':
			i = endOfComment(data, i)
		case '{', '[':
			depth++
			nodes++
		case '}', ']':
			depth--
		case ',':
			nodes++
		}
		if depth > maxDepth {
			return fmt.Errorf("the file is nested more than %d levels deep", maxDepth)
		}
	}
	if nodes > maxNodes {
		return errors.New("the file has too many values")
	}
	return nil
}

// endOfString returns the end of the string that starts at i, or the end of the data.
func endOfString(data []byte, i int) int {
	for i++; i < len(data) && data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i
}

// endOfComment returns the end of the comment that starts at i, or i if there is none.
func endOfComment(data []byte, i int) int {
	end, skip := "", 0
	switch {
	case bytes.HasPrefix(data[i:], []byte("//")):
		end = "\n"
	case bytes.HasPrefix(data[i:], []byte("/*")):
		end, skip = "*/", 1
	default:
		return i
	}
	n := bytes.Index(data[i+2:], []byte(end))
	if n < 0 {
		return len(data)
	}
	return i + 2 + n + skip
}

func (d *document) line(offset int) int {
	return sort.SearchInts(d.lines, offset+1)
}

func (d *document) node(v *hujson.Value) *node {
	n := &node{line: d.line(v.StartOffset), flow: true}
	switch value := v.Value.(type) {
	case *hujson.Object:
		n.kind = object
		for i := range value.Members {
			m := &value.Members[i]
			n.members = append(n.members, member{name: stringOf(m.Name), value: d.node(&m.Value), line: d.line(m.Name.StartOffset)})
		}
	case *hujson.Array:
		n.kind = array
		for i := range value.Elements {
			n.items = append(n.items, d.node(&value.Elements[i]))
		}
	case hujson.Literal:
		n.kind = map[hujson.Kind]kind{'"': text, '0': number, 't': boolean, 'f': boolean}[value.Kind()]
		if n.kind != null {
			n.text = value.String()
		}
	}
	return n
}

func stringOf(v hujson.Value) string {
	if literal, ok := v.Value.(hujson.Literal); ok {
		return literal.String()
	}
	return ""
}

// edit replaces part of a text.
type edit struct {
	from, to int
	text     string
}

func apply(data []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(out, data[at:e.from]...)
		out = append(out, e.text...)
		at = e.to
	}
	return append(out, data[at:]...)
}

// child returns the index of a member of an object, or -1.
func child(v *hujson.Value, name string) (*hujson.Object, int, error) {
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, 0, errors.New("the file is not a JSON object")
	}
	at := -1
	for i := range obj.Members {
		if stringOf(obj.Members[i].Name) != name {
			continue
		}
		if at >= 0 {
			return nil, 0, fmt.Errorf("duplicate key %s: remove one", brief(name))
		}
		at = i
	}
	return obj, at, nil
}

// addJSON adds a server under the root.
func addJSON(data []byte, root, name string, fields []field, s *Server) ([]byte, error) {
	d, err := newDocument(data)
	if err != nil {
		return nil, err
	}
	tree, value := d.node(&d.top), jsonOf(fields)
	if present := tree.get(root).get(name); present != nil && present.isServer(s) {
		return data, nil
	}
	edits, err := d.put(root, name, value)
	if err != nil {
		return nil, err
	}
	want := tree.with(root, tree.get(root).with(name, nodeOf(fields)))
	return d.finish(data, edits, want)
}

// put returns the edits that set a value under the root.
func (d *document) put(root, name string, value []byte) ([]edit, error) {
	top, at, err := child(&d.top, root)
	if err != nil {
		return nil, err
	}
	unit := "  "
	if len(top.Members) > 0 {
		unit = indentation(top.Members[0].Name.BeforeExtra, unit)
	}
	inline := len(top.Members) > 0 && !bytes.Contains(d.text[:d.top.EndOffset], []byte("\n"))
	w := jsonWriter{unit: unit, inline: inline}
	if at < 0 {
		servers := slices.Concat([]byte("{"), quoteJSON(name), []byte(":"), value, []byte("}"))
		return w.insert(&d.top, "", root, servers), nil
	}
	rootValue := &top.Members[at].Value
	servers, at, err := child(rootValue, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", root, err)
	}
	if at < 0 {
		return w.insert(rootValue, unit, name, value), nil
	}
	present := &servers.Members[at]
	indent := indentation(present.Name.BeforeExtra, unit+unit)
	return []edit{{present.Value.StartOffset, present.Value.EndOffset, w.format(value, indent)}}, nil
}

// indentation returns the white space at the start of a line.
func indentation(before hujson.Extra, otherwise string) string {
	_, after, found := cutLast(string(before), "\n")
	if !found || strings.Trim(after, " \t") != "" {
		return otherwise
	}
	return after
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// jsonWriter writes JSON in the file's formatting style.
type jsonWriter struct {
	unit   string // one step of indentation
	inline bool   // everything on one line
}

// format indents a value. The first line must already be indented.
func (w jsonWriter) format(value []byte, indent string) string {
	if w.inline {
		return string(value)
	}
	var b bytes.Buffer
	_ = json.Indent(&b, value, indent, w.unit) // it was marshalled
	return b.String()
}

// insert returns the edits that append a member to an object. outer is the object's indentation.
func (w jsonWriter) insert(at *hujson.Value, outer, name string, value []byte) []edit {
	obj, _ := at.Value.(*hujson.Object)
	brace := at.EndOffset - 1
	tail := string(obj.AfterExtra)
	end := brace - len(tail) + len(strings.TrimRight(tail, " \t\r\n"))
	if len(obj.Members) == 0 {
		return w.insertFirst(tail, end, outer, name, value)
	}
	first, last := &obj.Members[0].Name, &obj.Members[len(obj.Members)-1].Value
	w.inline = !strings.Contains(string(first.BeforeExtra)+tail, "\n")
	indent := indentation(first.BeforeExtra, outer+w.unit)
	text := w.separator(indent) + string(quoteJSON(name)) + ": " + w.format(value, indent)
	if last.AfterExtra != nil { // has a trailing comma
		return []edit{{end, end, text + ","}}
	}
	return []edit{{last.EndOffset, last.EndOffset, ","}, {end, end, text}}
}

func (w jsonWriter) separator(indent string) string {
	if w.inline {
		return " "
	}
	return "\n" + indent
}

func (w jsonWriter) insertFirst(tail string, end int, outer, name string, value []byte) []edit {
	w.inline = w.inline && !strings.Contains(tail, "\n")
	if w.inline {
		return []edit{{end, end, string(quoteJSON(name)) + ": " + w.format(value, "")}}
	}
	indent := outer + w.unit
	text := w.separator(indent) + string(quoteJSON(name)) + ": " + w.format(value, indent)
	if !strings.Contains(tail[len(strings.TrimRight(tail, " \t\r\n")):], "\n") {
		text += w.separator(outer)
	}
	return []edit{{end, end, text}}
}

// removeJSON removes a server under the root.
func removeJSON(data []byte, root, name string) ([]byte, error) {
	d, err := newDocument(data)
	if err != nil {
		return nil, err
	}
	tree := d.node(&d.top)
	top, at, err := child(&d.top, root)
	if err != nil {
		return nil, err
	}
	if at < 0 || tree.get(root).get(name) == nil {
		return data, nil
	}
	rootValue := &top.Members[at].Value
	servers, at, err := child(rootValue, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", root, err)
	}
	edits := d.cut(rootValue, servers, at)
	return d.finish(data, edits, tree.with(root, tree.get(root).with(name, nil)))
}

// cut returns the edits that remove a member and its comma. Comments around it stay.
func (d *document) cut(at *hujson.Value, obj *hujson.Object, i int) []edit {
	m := &obj.Members[i]
	last := i == len(obj.Members)-1
	blank := func(extra hujson.Extra) bool { return strings.TrimSpace(string(extra)) == "" }
	if len(obj.Members) == 1 && blank(m.Name.BeforeExtra) && blank(m.Value.AfterExtra) && blank(obj.AfterExtra) {
		return []edit{{at.StartOffset + 1, at.EndOffset - 1, ""}}
	}
	before := strings.TrimRight(string(m.Name.BeforeExtra), " \t\r\n")
	edits := []edit{{m.Name.StartOffset - len(m.Name.BeforeExtra) + len(before), m.Value.EndOffset, ""}}
	comma := m.Value.EndOffset + len(m.Value.AfterExtra)
	rest := d.text[m.Value.EndOffset:]
	switch {
	case !last || m.Value.AfterExtra != nil:
		edits = append(edits, edit{comma, comma + 1, ""})
		rest = d.text[comma+1:]
	case i > 0:
		previous := &obj.Members[i-1].Value
		comma = previous.EndOffset + len(previous.AfterExtra)
		edits = append(edits, edit{comma, comma + 1, ""})
	}
	if before != "" && !bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r"), []byte("\n")) {
		edits[0].from = m.Name.StartOffset // the comment before it may need its line ending
	}
	return edits
}

// finish applies the edits with the file's line endings, and verifies that the result parses to
// want.
func (d *document) finish(data []byte, edits []edit, want *node) ([]byte, error) {
	if bytes.Contains(d.text, []byte("\r\n")) {
		for i := range edits {
			edits[i].text = strings.ReplaceAll(edits[i].text, "\n", "\r\n")
		}
	}
	out := apply(d.text, edits)
	changed, err := parseJSON(out)
	if err != nil || !changed.equal(want) {
		return nil, errors.New("the file cannot be edited safely; edit it manually")
	}
	if bytes.HasPrefix(data, bom) {
		out = slices.Concat(bom, out)
	}
	return out, nil
}

// isServer reports whether a node describes a server that is reached in the same way.
func (n *node) isServer(s *Server) bool {
	r := reader{}
	present := r.readServer(member{name: s.Name, value: n})
	return present != nil && len(r.warnings) == 0 && present.same(s)
}
