package jsonschema

import "fmt"

const (
	maxExpansions = 10_000 // maximum number of subschemas that apply to one value
	maxChain      = 1_000  // maximum number of nested references among them
)

// analyze rejects schemas that refer to themselves for the same value, and prepares lookup tables
// for the evaluation.
func (c *compiler) analyze(root *schema) error {
	a := &analyzer{met: make(map[*schema]int)}
	for _, p := range c.library.places {
		s := p.schema
		if s == nil {
			continue
		}
		if _, err := a.expand(s, 0); err != nil {
			return err
		}
		s.memo = c.refs[s] > 1
		for _, u := range []*union{s.anyOf, s.oneOf} {
			if u != nil {
				u.prepare(u == s.oneOf)
			}
		}
		if s.object != nil {
			s.object.prepare()
		}
	}
	return nil
}

// analyzer counts the subschemas that apply to one value.
type analyzer struct {
	met map[*schema]int // open while it is being counted
}

const open = -1

func (a *analyzer) expand(s *schema, depth int) (int, error) {
	switch n := a.met[s]; {
	case n == open:
		return 0, fmt.Errorf("infinite reference loop at %s", cut(s.place.String()))
	case n > 0:
		return n, nil
	case depth > maxChain:
		return 0, fmt.Errorf("more than %s chained references at %s", grouped(maxChain), cut(s.place.String()))
	}
	a.met[s] = open
	n := 1
	for _, next := range s.sameValue() {
		more, err := a.expand(next, depth+1)
		if err != nil {
			return 0, err
		}
		if n += more; n > maxExpansions {
			return 0, fmt.Errorf("more than %s subschemas apply to one value at %s", grouped(maxExpansions), cut(s.place.String()))
		}
	}
	a.met[s] = n
	return n, nil
}

// sameValue returns the subschemas that apply to the same value.
func (s *schema) sameValue() (list []*schema) {
	add := func(more ...*schema) {
		for _, m := range more {
			if m != nil {
				list = append(list, m)
			}
		}
	}
	add(s.ref, s.not, s.ifs, s.then, s.otherwise)
	add(s.allOf...)
	if s.dynamicRef != nil {
		add(s.dynamicRef.target)
	}
	for _, u := range []*union{s.anyOf, s.oneOf} {
		if u != nil {
			add(u.branches...)
		}
	}
	if s.object != nil {
		for _, d := range s.object.dependentSchemas {
			add(d.schema)
		}
	}
	return list
}

func (r *objectRules) prepare() {
	for _, name := range r.names {
		if fallbackOf(r.properties[name].schema) != "" {
			r.defaults = append(r.defaults, name)
		}
	}
}

// fallbackOf returns the default of a schema or of the schema that it refers to.
func fallbackOf(s *schema) string {
	for range 10 {
		if s == nil || s.fallback != "" {
			break
		}
		s = s.ref
	}
	if s == nil {
		return ""
	}
	return s.fallback
}

// prepare looks for a way to select a branch without evaluating all branches.
func (u *union) prepare(once bool) {
	u.set = u.constants(once)
	if u.set != nil || len(u.branches) < 2 {
		return
	}
	first := u.branches[0].target()
	if first.object == nil {
		return
	}
	for _, name := range first.object.names {
		if byTag := u.tagged(name); byTag != nil {
			u.tag, u.byTag = name, byTag
			return
		}
	}
}

// constants returns the values if all branches of a union are constants, or nil. In oneOf, a
// duplicate value prevents this, because it would match two branches.
func (u *union) constants(once bool) *valueSet {
	var list []*value
	for _, b := range u.branches {
		s := b.target()
		set := s.constant
		if set == nil {
			set = s.enum
		} else if s.enum != nil {
			return nil
		}
		if set == nil || !s.onlyTypes() || set.types&^s.types != 0 {
			return nil
		}
		list = append(list, set.list...)
	}
	set := newValueSet(list)
	if once && len(set.texts)+len(set.rest) != len(list) {
		return nil
	}
	return set
}

// target follows references from schemas that contain nothing but a reference.
func (s *schema) target() *schema {
	for range 10 {
		pure := *s
		if pure.ref = nil; s.ref == nil || !pure.isEmpty() {
			break
		}
		s = s.ref
	}
	return s
}

// tagged groups branches by a property's constant strings. It returns nil if the property is not
// constant in every branch.
func (u *union) tagged(name string) map[string][]*schema {
	byTag := make(map[string][]*schema)
	for _, b := range u.branches {
		s := b.target()
		if s.object == nil {
			return nil
		}
		p := s.object.properties[name].schema
		if p == nil {
			return nil
		}
		set := p.constant
		if set == nil {
			set = p.enum
		}
		if set == nil || set.rest != nil {
			return nil
		}
		for text := range set.texts {
			byTag[text] = append(byTag[text], b)
		}
	}
	return byTag
}
