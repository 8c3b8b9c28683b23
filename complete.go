package toolyard

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxSteps bounds the work of one completion beside what its size explains, since a schema
// may refer to itself.
const maxSteps = 10_000

// completion walks over a value beside its schema and fills in what is missing.
type completion struct {
	left    int
	path    []string       // where it is
	seen    map[visit]bool // references that are being followed
	changed bool
	issues  []Issue
}

// visit is a schema at a depth of the value.
type visit struct {
	schema *jsonschema.Schema
	depth  int
}

// visit returns v with what s adds to it.
func (c *completion) visit(s *jsonschema.Schema, v any) any {
	if c.left--; s == nil || c.left <= 0 {
		return v
	}
	if s.Ref != nil || len(s.AllOf) > 0 {
		at := visit{s, len(c.path)}
		if c.seen[at] { // it refers to itself for the same value
			return v
		}
		if c.seen == nil {
			c.seen = make(map[visit]bool)
		}
		c.seen[at] = true
		defer delete(c.seen, at)
		v = c.visit(s.Ref, v)
		for _, sub := range s.AllOf {
			v = c.visit(sub, v)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		c.object(s, v)
	case []any:
		if items, ok := itemsOf(s); ok {
			for i := range v {
				v[i] = c.step(items, v[i], strconv.Itoa(i))
			}
		}
	case json.Number:
		if whole, ok := wholeNumber(s, v); ok {
			c.changed = true
			return whole
		}
	}
	return v
}

// step visits a part of a value.
func (c *completion) step(s *jsonschema.Schema, v any, name string) any {
	c.path = append(c.path, name)
	v = c.visit(s, v)
	c.path = c.path[:len(c.path)-1]
	return v
}

func (c *completion) object(s *jsonschema.Schema, v map[string]any) {
	for name, property := range s.Properties {
		if c.left--; c.left <= 0 {
			return
		}
		if _, ok := v[name]; !ok {
			d := defaultOf(property)
			if d == nil {
				continue
			}
			v[name], c.changed = clone(*d), true
		}
		v[name] = c.step(property, v[name], name)
	}
	rest, open := s.AdditionalProperties.(*jsonschema.Schema)
	if s.AdditionalProperties == false {
		return // the validator refuses what is not known
	}
	for name := range v {
		if _, known := s.Properties[name]; known {
			continue
		}
		if twin := foldedTwin(name, s.Properties); twin != "" && len(c.issues) < maxIssues {
			c.issues = append(c.issues, NewIssue(append(slices.Clone(c.path), name), "is not known (did you mean "+twin+"?)"))
		}
		if open {
			v[name] = c.step(rest, v[name], name)
		}
	}
}

// foldedTwin is the property that a careless reader would take name for: Go's own decoder
// does not mind the case of keys.
func foldedTwin(name string, properties map[string]*jsonschema.Schema) string {
	for p := range properties {
		if strings.EqualFold(p, name) {
			return p
		}
	}
	return ""
}

// wholeNumber writes 5.0 and 5e0 as 5 where the schema wants an integer.
func wholeNumber(s *jsonschema.Schema, n json.Number) (json.Number, bool) {
	if !strings.ContainsAny(n.String(), ".eE") || s.Types == nil || !slices.Contains(s.Types.ToStrings(), "integer") {
		return "", false
	}
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return "", false
	}
	return json.Number(strconv.FormatInt(int64(f), 10)), true
}

// defaultOf is the default of a schema, or of what it refers to.
func defaultOf(s *jsonschema.Schema) *any {
	for range 10 {
		switch {
		case s == nil:
			return nil
		case s.Default != nil:
			return s.Default
		}
		s = s.Ref
	}
	return nil
}

// clone copies a default, so that filling in one call's arguments never changes the
// schema's own.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = clone(e)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = clone(e)
		}
		return l
	}
	return v
}

func itemsOf(s *jsonschema.Schema) (*jsonschema.Schema, bool) {
	if s.Items2020 != nil {
		return s.Items2020, true
	}
	items, ok := s.Items.(*jsonschema.Schema)
	return items, ok
}
