// Package yamltree parses YAML into a tree that records the position of each value. It resolves
// aliases and limits the amount of work per file.
package yamltree

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Limits on a file. Without them, aliases could multiply its size.
const (
	MaxDepth    = 64
	maxNodes    = 100_000
	maxBrackets = 256 // open at the same time, including those in strings and comments
)

// Kind is the type of a node.
type Kind int

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	String
	Sequence
	Mapping
)

// Node is a value and its position.
type Node struct {
	Kind         Kind
	Text         string // text of a scalar
	Value        any    // value of a scalar: a string, bool, int64, uint64 or float64
	Items        []*Node
	Members      []Member
	Flow         bool // written in brackets or braces
	Line, Column int
}

// Member is an entry in a mapping, with the position of its key.
type Member struct {
	Name         string
	Value        *Node
	Line, Column int
}

// Problem is a part of the file that cannot be read.
type Problem struct {
	Syntax       bool     // the file is not YAML
	Path         []string // path to the value
	Line, Column int
	Message      string
}

// Error is returned for a file that cannot be read.
type Error []Problem

func (e Error) Error() string {
	lines := make([]string, len(e))
	for i, p := range e {
		lines[i] = fmt.Sprintf("line %d: %s", p.Line, p.Message)
	}
	return strings.Join(lines, "\n")
}

// Parse parses one document. An empty document is a mapping with no members. The error is an
// [Error].
func Parse(data []byte) (*Node, error) {
	if err := precheck(data); err != "" {
		return nil, Error{{Line: 1, Column: 1, Message: err}}
	}
	// The parser counts a Windows line ending as two lines.
	unix := bytes.ReplaceAll(bytes.TrimPrefix(data, []byte("\uFEFF")), []byte("\r\n"), []byte("\n"))
	file, err := parser.ParseBytes(unix, 0)
	if err != nil {
		return nil, syntaxError(err)
	}
	w := walker{anchors: make(map[string]ast.Node)}
	top := &Node{Kind: Mapping, Line: 1, Column: 1}
	for i, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.NullType:
		case i > 0:
			w.fail(doc.Body, nil, "only one YAML document is supported")
		default:
			top = w.node(doc.Body, nil, 0)
		}
	}
	if len(w.problems) > 0 {
		return nil, w.problems
	}
	return top, nil
}

func syntaxError(err error) Error {
	p := Problem{Syntax: true, Line: 1, Column: 1, Message: err.Error()}
	if ye, ok := errors.AsType[yaml.Error](err); ok {
		p.Message = ye.GetMessage()
		if t := ye.GetToken(); t != nil && t.Position != nil {
			p.Line, p.Column = t.Position.Line, t.Position.Column
		}
	}
	return Error{p}
}

// precheck rejects input that would make the parser itself expensive.
func precheck(data []byte) string {
	if !utf8.Valid(data) {
		return "the file is not valid UTF-8; save it as UTF-8"
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
		if open > maxBrackets || (dashes > MaxDepth && c != '-') {
			return fmt.Sprintf("the file is nested more than %d levels deep", MaxDepth)
		}
	}
	return ""
}

// walker converts a syntax tree.
type walker struct {
	anchors  map[string]ast.Node
	nodes    int
	problems Error
}

func (w *walker) fail(n ast.Node, path []string, message string) *Node {
	line, column := position(n)
	w.problems = append(w.problems, Problem{Path: slices.Clone(path), Line: line, Column: column, Message: message})
	return &Node{Line: line, Column: column}
}

func position(n ast.Node) (line, column int) {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line, t.Position.Column
	}
	return 1, 1
}

func (w *walker) node(n ast.Node, path []string, depth int) *Node {
	if w.nodes++; depth > MaxDepth || w.nodes > maxNodes {
		if w.nodes > maxNodes+1 { // already reported
			return &Node{}
		}
		w.nodes = maxNodes + 1
		return w.fail(n, nil, "the file has too many values or is nested too deeply")
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return w.mapping(n, n.Values, n.IsFlowStyle, path, depth)
	case *ast.MappingValueNode:
		return w.mapping(n, []*ast.MappingValueNode{n}, n.IsFlowStyle, path, depth)
	case *ast.SequenceNode:
		list := at(n, &Node{Kind: Sequence, Flow: n.IsFlowStyle})
		for i, item := range n.Values {
			list.Items = append(list.Items, w.node(item, append(slices.Clip(path), strconv.Itoa(i)), depth+1))
		}
		return list
	case *ast.AnchorNode:
		w.anchors[n.Name.GetToken().Value] = n.Value
		return w.node(n.Value, path, depth+1)
	case *ast.AliasNode:
		if target, ok := w.anchors[n.Value.GetToken().Value]; ok {
			return w.node(target, path, depth+1)
		}
		return w.fail(n, path, "refers to an unknown anchor")
	}
	if scalar := scalarOf(n); scalar != nil {
		return at(n, scalar)
	}
	return w.fail(n, path, "unsupported YAML")
}

func at(n ast.Node, node *Node) *Node {
	node.Line, node.Column = position(n)
	return node
}

// scalarOf returns a scalar, or nil if the node is not a scalar.
func scalarOf(n ast.Node) *Node {
	switch n := n.(type) {
	case *ast.StringNode:
		return &Node{Kind: String, Text: n.Value, Value: n.Value}
	case *ast.LiteralNode:
		return &Node{Kind: String, Text: n.Value.Value, Value: n.Value.Value}
	case *ast.NullNode:
		return &Node{Kind: Null}
	case *ast.BoolNode:
		return &Node{Kind: Bool, Text: strconv.FormatBool(n.Value), Value: n.Value}
	case *ast.IntegerNode:
		return &Node{Kind: Number, Text: n.GetToken().Value, Value: n.Value}
	case *ast.FloatNode:
		return &Node{Kind: Number, Text: n.GetToken().Value, Value: n.Value}
	case *ast.InfinityNode:
		return &Node{Kind: Number, Text: n.GetToken().Value, Value: n.Value}
	case *ast.NanNode:
		return &Node{Kind: Number, Text: n.GetToken().Value, Value: math.NaN()}
	}
	return nil
}

func (w *walker) mapping(n ast.Node, values []*ast.MappingValueNode, flow bool, path []string, depth int) *Node {
	m := at(n, &Node{Kind: Mapping, Flow: flow})
	seen := make(map[string]bool, len(values))
	for _, v := range values {
		name, ok := keyOf(v.Key)
		if !ok || v.Value == nil {
			w.fail(n, path, "unsupported key type")
			continue
		}
		at := append(slices.Clip(path), name)
		if seen[name] {
			w.fail(v.Key, at, "duplicate key")
			continue
		}
		seen[name] = true
		line, column := position(v.Key)
		m.Members = append(m.Members, Member{Name: name, Value: w.node(v.Value, at, depth+1), Line: line, Column: column})
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
