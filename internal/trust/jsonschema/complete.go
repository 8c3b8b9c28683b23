package jsonschema

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	maxRounds   = 32        // maximum nesting of defaults
	maxDefaults = 256 << 10 // total bytes of defaults to fill in
)

// Complete validates a JSON value, fills in the schema's defaults, and rewrites whole numbers where
// the schema requires an integer (5.0 becomes 5). A value that is already complete is returned
// unchanged. It returns the same errors as [Schema.Validate].
func (s *Schema) Complete(ctx context.Context, raw []byte) (completed []byte, issues []Issue, err error) {
	e := s.begin(ctx, limitsFor(len(raw)))
	defer e.end()
	var text string
	stop := run(func() {
		if text, err = e.completed(s, string(raw)); err == nil {
			issues = append(e.twins, e.check(s)...)
		}
	})
	if stop != nil {
		err = stop
	}
	if err != nil || len(issues) > 0 {
		return nil, issues[:min(len(issues), maxIssues)], err
	}
	if len(text) == len(raw) && text == string(raw) {
		return raw, nil, nil
	}
	return []byte(text), nil, nil
}

// completed fills in defaults, including defaults within defaults.
func (e *evaluation) completed(s *Schema, text string) (string, error) {
	grown := 0
	for range maxRounds {
		if err := e.read(text); err != nil {
			return "", err
		}
		c := completion{evaluation: e}
		c.visit(s.root, 0)
		if e.twins = c.twins; len(c.edits) == 0 {
			return text, nil
		}
		before := len(text)
		if text = c.apply(text); len(text) > before {
			grown += len(text) - before
			e.steps += stepsPerByte * (len(text) - before)
		}
		if grown > maxDefaults {
			return "", &LimitError{grouped(maxDefaults) + " bytes of defaults"}
		}
	}
	return "", &LimitError{strconv.Itoa(maxRounds) + " nested defaults"}
}

// completion collects the edits that complete a value.
type completion struct {
	*evaluation
	path   []string // path to the current part of the value
	edits  []edit
	twins  []Issue
	done   map[meeting]bool
	filled map[missing]bool
	grown  map[uint32]bool // objects to which members were added
}

// missing is a member to add to an object.
type missing struct {
	node uint32
	name string
}

type edit struct {
	span
	text string
}

// visit completes a node according to the schemas that apply unconditionally.
func (c *completion) visit(s *schema, n uint32) {
	if c.spend(2); s == nil || s.always || s.never {
		return
	}
	if s.memo {
		at := meeting{schema: s, node: n}
		if c.done[at] {
			return
		}
		if c.done == nil {
			c.done = make(map[meeting]bool)
		}
		c.spend(4)
		c.allocate(64)
		c.done[at] = true
	}
	if c.depth++; c.depth > maxEvalDepth {
		panic(stopped{&LimitError{grouped(maxEvalDepth) + " nested subschemas"}})
	}
	c.visit(s.ref, n)
	for _, sub := range s.allOf {
		c.visit(sub, n)
	}
	switch c.value.nodes[n].kind {
	case kindObject:
		if s.object != nil {
			c.object(s.object, n)
		}
	case kindArray:
		if s.array != nil {
			c.array(s.array, n)
		}
	case kindNumber:
		c.number(s, n)
	}
	c.depth--
}

func (c *completion) array(r *arrayRules, n uint32) {
	if r.items == nil && r.prefix == nil {
		return
	}
	i := 0
	for item := n + 1; item < c.value.nodes[n].next; item = c.value.nodes[item].next {
		c.visit(r.item(i), item)
		i++
	}
}

func (c *completion) object(r *objectRules, n uint32) {
	nodes, found := c.value.nodes, 0
	for m := n + 1; m < nodes[n].next; m = nodes[m].next {
		c.spend(1)
		name := c.value.key(m)
		if p := r.properties[name]; p.schema != nil {
			if found++; p.schema.always {
				continue
			}
			c.path = append(c.path, name)
			c.visit(p.schema, m)
			c.path = c.path[:len(c.path)-1]
			continue
		}
		if r.additional != nil && r.additional.never {
			continue // validation rejects it
		}
		if twin, ok := r.folded[fold(name)]; ok && len(c.twins) < maxIssues {
			c.twins = append(c.twins, Issue{Path: append(slices.Clone(c.path), name), Message: "is unknown", Unknown: true, Known: []string{twin}})
		}
		if r.additional != nil {
			c.path = append(c.path, name)
			c.visit(r.additional, m)
			c.path = c.path[:len(c.path)-1]
		}
	}
	if found < len(r.names) {
		c.fill(r, n)
	}
}

// fill adds an object's missing defaults.
func (c *completion) fill(r *objectRules, n uint32) {
	for _, name := range r.defaults {
		at := missing{n, name}
		if _, ok := c.find(n, name); ok || c.filled[at] {
			continue
		}
		if c.filled == nil {
			c.filled, c.grown = make(map[missing]bool), make(map[uint32]bool)
		}
		member := text(name) + ":" + fallbackOf(r.properties[name].schema)
		if c.value.nodes[n].count > 0 || c.grown[n] {
			member = "," + member
		}
		c.filled[at], c.grown[n] = true, true
		c.spend(8)
		c.allocate(256 + len(member))
		end := c.value.nodes[n].text.end - 1
		c.edits = append(c.edits, edit{span{end, end}, member})
	}
}

// number rewrites 5.0 and 5e0 as 5 where the schema requires an integer.
func (c *completion) number(s *schema, n uint32) {
	at := c.value.nodes[n].text
	written := c.value.data[at.start:at.end]
	if s.types&typeNumber != typeInteger || !strings.ContainsAny(written, ".eE") {
		return
	}
	f, err := strconv.ParseFloat(written, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return
	}
	c.edits = append(c.edits, edit{at, strconv.FormatInt(int64(f), 10)})
}

// apply applies the edits to the text.
func (c *completion) apply(old string) string {
	slices.SortStableFunc(c.edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	size := len(old)
	for _, e := range c.edits {
		size += len(e.text)
	}
	c.allocate(size)
	var b strings.Builder
	b.Grow(size)
	at := uint32(0)
	for _, e := range c.edits {
		if e.start < at {
			continue // the same number was already edited for another schema
		}
		b.WriteString(old[at:e.start])
		b.WriteString(e.text)
		at = e.end
	}
	b.WriteString(old[at:])
	return b.String()
}
