package clientconfig

import "slices"

// kind is the type of a node.
type kind int

const (
	null kind = iota
	boolean
	number
	text
	array
	object
)

// node is a JSON or YAML value and its position.
type node struct {
	kind    kind
	text    string // value of a scalar
	items   []*node
	members []member
	line    int
	flow    bool // in flow style, like all JSON
}

// member is an entry in an object.
type member struct {
	name         string
	value        *node
	line, column int
}

// get returns the value of a member, or nil. If a name occurs more than once, the last one counts.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for _, m := range slices.Backward(n.members) {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// index returns the index of the only member with a name, -1 if there is none, or -2 if there are
// several.
func (n *node) index(name string) int {
	at := -1
	for i, m := range n.members {
		if m.name == name && at >= 0 {
			return -2
		}
		if m.name == name {
			at = i
		}
	}
	return at
}

func (n *node) isScalar() bool { return n.kind == text || n.kind == number || n.kind == boolean }

// isEmpty reports whether a value is empty.
func (n *node) isEmpty() bool {
	switch n.kind {
	case array:
		return len(n.items) == 0
	case object:
		return len(n.members) == 0
	}
	return n.text == "" || n.text == "false"
}

// with returns the object with a member added or replaced. If value is nil, the member is removed.
func (n *node) with(name string, value *node) *node {
	changed := &node{kind: object}
	if n != nil {
		changed.members = slices.Clone(n.members)
	}
	at := changed.index(name)
	switch {
	case value == nil && at >= 0:
		changed.members = slices.Delete(changed.members, at, at+1)
	case value == nil:
	case at >= 0:
		changed.members[at].value = value
	default:
		changed.members = append(changed.members, member{name: name, value: value})
	}
	return changed
}

// equal reports whether two nodes have the same content in the same order, regardless of position.
func (n *node) equal(o *node) bool {
	if n == nil || o == nil {
		return n == o
	}
	return n.kind == o.kind && n.text == o.text &&
		slices.EqualFunc(n.items, o.items, (*node).equal) &&
		slices.EqualFunc(n.members, o.members, func(a, b member) bool {
			return a.name == b.name && a.value.equal(b.value)
		})
}
