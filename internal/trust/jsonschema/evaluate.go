package jsonschema

import (
	"maps"
	"unicode/utf8"
)

// evaluation is one validation of a value. The first pass only determines whether the value
// matches, and allocates very little. If it does not match, [explanation] finds the reasons.
//
// A schema that refers to itself in several ways can be evaluated very often for the same part of a
// value. Expensive results are cached, so that the amount of work is at most proportional to the
// size of the schema times the size of the value.
type evaluation struct {
	budget
	value   *value
	dynamic bool
	depth   int
	known   map[meeting]bool
	scopes  scope
	twins   []Issue // names that differ from defined names only by case
}

// meeting identifies the evaluation of a schema for a part of the value.
type meeting struct {
	schema *schema
	node   uint32
	scope  *scope
}

// worthKnowing is the minimum number of steps for a result to be cached.
const worthKnowing = 32

// scope contains the dynamic anchors of the enclosing resources. For each name, the outermost
// anchor counts.
type scope struct {
	anchors map[string]*schema
	inner   map[*resource]*scope
}

// enter returns the scope inside a resource.
func (sc *scope) enter(r *resource) *scope {
	if len(r.scope) == 0 {
		return sc
	}
	if inner, ok := sc.inner[r]; ok {
		return inner
	}
	inner := sc
	for name, s := range r.scope {
		if _, ok := sc.anchors[name]; ok {
			continue
		}
		if inner == sc {
			inner = &scope{anchors: make(map[string]*schema, len(sc.anchors)+1)}
			maps.Copy(inner.anchors, sc.anchors)
		}
		inner.anchors[name] = s
	}
	if sc.inner == nil {
		sc.inner = make(map[*resource]*scope)
	}
	sc.inner[r] = inner
	return inner
}

// marks records the evaluated members or items of a node. A nil *marks means that they are not
// needed.
type marks struct {
	all  bool
	bits []uint64
}

func (m *marks) set(i int) {
	if m != nil {
		m.bits[i>>6] |= 1 << (i & 63)
	}
}

func (m *marks) has(i int) bool { return m.all || m.bits[i>>6]&(1<<(i&63)) != 0 }

func (m *marks) setAll() {
	if m != nil {
		m.all = true
	}
}

func (m *marks) merge(o *marks) {
	m.all = m.all || o.all
	for i := range m.bits {
		m.bits[i] |= o.bits[i]
	}
}

// newMarks returns marks for a node, or nil if they are not needed.
func (e *evaluation) newMarks(n uint32, needed bool) *marks {
	if !needed {
		return nil
	}
	words := int(e.value.nodes[n].count+63) / 64
	e.spend(4 + words)
	e.allocate(48 + 8*words)
	return &marks{bits: make([]uint64, words)}
}

// valid reports whether the node matches the schema, and marks the parts it has evaluated.
func (e *evaluation) valid(s *schema, n uint32, sc *scope, seen *marks) bool {
	e.spend(2)
	if s.always || s.never {
		return s.always
	}
	if e.dynamic {
		sc = sc.enter(s.place.resource)
	}
	remember := s.memo && seen == nil
	if remember {
		if ok, known := e.known[meeting{s, n, sc}]; known {
			return ok
		}
	}
	before := e.steps
	if e.depth++; e.depth > maxEvalDepth {
		panic(stopped{&LimitError{grouped(maxEvalDepth) + " nested subschemas"}})
	}
	ok := e.evaluate(s, n, sc, seen)
	e.depth--
	if remember && before-e.steps > worthKnowing {
		if e.known == nil {
			e.known = make(map[meeting]bool)
		}
		e.spend(4)
		e.allocate(64)
		e.known[meeting{s, n, sc}] = ok
	}
	return ok
}

func (e *evaluation) evaluate(s *schema, n uint32, sc *scope, seen *marks) bool {
	own, kind := seen, e.value.nodes[n].kind
	unevaluated := s.unevaluated(kind)
	if unevaluated != nil {
		own = e.newMarks(n, true)
	}
	if !e.simple(s, n) || !e.parts(s, n, sc, own) || !e.applicators(s, n, sc, own) {
		return false
	}
	if unevaluated == nil {
		return true
	}
	i := 0
	for c := n + 1; c < e.value.nodes[n].next; c = e.value.nodes[c].next {
		if !own.has(i) && !e.valid(unevaluated, c, sc, nil) {
			return false
		}
		i++
	}
	seen.setAll()
	return true
}

// unevaluated returns the schema for unevaluated members or items.
func (s *schema) unevaluated(k kind) *schema {
	switch {
	case k == kindObject && s.object != nil:
		return s.object.unevaluated
	case k == kindArray && s.array != nil:
		return s.array.unevaluated
	}
	return nil
}

// simple checks the keywords that have no subschemas.
func (e *evaluation) simple(s *schema, n uint32) bool {
	v := e.value
	if s.types != allTypes && !e.hasType(s.types, n) {
		return false
	}
	if s.constant != nil && !s.constant.has(&e.budget, v, n) || s.enum != nil && !s.enum.has(&e.budget, v, n) {
		return false
	}
	switch v.nodes[n].kind {
	case kindString:
		if s.format != nil && e.checkFormat(s.format, v.str(n)) != nil {
			return false
		}
		return s.text == nil || e.text(s.text, v.str(n))
	case kindNumber:
		return s.number == nil || e.number(s.number, n)
	}
	return true
}

func (e *evaluation) hasType(types typeSet, n uint32) bool {
	if e.value.nodes[n].kind == kindNumber && types&typeNumber != typeInteger {
		return types&typeNumber != 0
	}
	return types&e.value.typeOf(&e.budget, n) != 0
}

func (e *evaluation) checkFormat(f *format, s string) error {
	e.spend(8 + len(s)/4*f.cost)
	return f.check(s)
}

func (e *evaluation) text(r *textRules, s string) bool {
	if r.min >= 0 || r.max >= 0 {
		if length := e.length(s); length < r.min || r.max >= 0 && length > r.max {
			return false
		}
	}
	return r.pattern == nil || r.pattern.match(&e.budget, s)
}

func (e *evaluation) length(s string) int {
	e.spend(len(s) / 32)
	return utf8.RuneCountInString(s)
}

func (e *evaluation) number(r *numberRules, n uint32) bool {
	d := e.value.decimal(&e.budget, n)
	return (r.minimum == nil || d.compare(r.minimum.decimal) >= 0) &&
		(r.maximum == nil || d.compare(r.maximum.decimal) <= 0) &&
		(r.above == nil || d.compare(r.above.decimal) > 0) &&
		(r.below == nil || d.compare(r.below.decimal) < 0) &&
		(r.multipleOf == nil || e.isMultiple(d, r.multipleOf))
}

func (e *evaluation) isMultiple(d decimal, m *bound) bool {
	if d.exp != m.exp || d.digits != "" || m.digits != "" {
		e.spend(100 + 8*len(m.digits) + len(d.digits))
		e.allocate(256 + len(d.digits))
	}
	return d.isMultipleOf(m.decimal)
}

// parts checks the members of an object and the items of an array.
func (e *evaluation) parts(s *schema, n uint32, sc *scope, seen *marks) bool {
	switch e.value.nodes[n].kind {
	case kindObject:
		return s.object == nil || e.object(s.object, n, sc, seen)
	case kindArray:
		return s.array == nil || e.array(s.array, n, sc, seen)
	}
	return true
}

func (e *evaluation) object(r *objectRules, n uint32, sc *scope, seen *marks) bool {
	nodes := e.value.nodes
	count := int(nodes[n].count)
	if count < r.min || r.max >= 0 && count > r.max || count < len(r.required) {
		return false
	}
	found, i := 0, 0
	for c := n + 1; c < nodes[n].next; c = nodes[c].next {
		required, ok := e.member(r, c, i, sc, seen)
		if !ok {
			return false
		}
		if required {
			found++
		}
		i++
	}
	return found == len(r.required) && e.dependencies(r, n, sc, seen)
}

// member checks member i of an object.
func (e *evaluation) member(r *objectRules, c uint32, i int, sc *scope, seen *marks) (required, ok bool) {
	name, evaluated := e.value.key(c), false
	e.spend(2 + len(name)/32)
	p := r.properties[name]
	if p.schema != nil {
		evaluated = true
		if !e.valid(p.schema, c, sc, nil) {
			return false, false
		}
	}
	for j := range r.patterns {
		if r.patterns[j].pattern.match(&e.budget, name) {
			evaluated = true
			if !e.valid(r.patterns[j].schema, c, sc, nil) {
				return false, false
			}
		}
	}
	if !evaluated && r.additional != nil {
		evaluated = true
		if !e.valid(r.additional, c, sc, nil) {
			return false, false
		}
	}
	if r.propertyNames != nil && !e.valid(r.propertyNames, e.nameOf(c), sc, nil) {
		return false, false
	}
	if evaluated {
		seen.set(i)
	}
	return p.required, true
}

// nameOf returns a node for a member's name.
func (e *evaluation) nameOf(c uint32) uint32 {
	v := e.value
	self := uint32(len(v.nodes)) //nolint:gosec // a text has less than 2^31 bytes
	name := node{kind: kindString, text: v.nodes[c].key, next: self + 1}
	if v.nodes[c].flags&keyEscaped != 0 {
		name.flags = textEscaped
	}
	e.allocate(64)
	v.nodes = append(v.nodes, name)
	return self
}

// find returns an object's member by name.
func (e *evaluation) find(n uint32, name string) (uint32, bool) {
	nodes := e.value.nodes
	for c := n + 1; c < nodes[n].next; c = nodes[c].next {
		e.spend(1)
		if e.value.key(c) == name {
			return c, true
		}
	}
	return 0, false
}

func (e *evaluation) dependencies(r *objectRules, n uint32, sc *scope, seen *marks) bool {
	for _, d := range r.dependentRequired {
		if name, _ := e.missing(d, n); name != "" {
			return false
		}
	}
	for _, d := range r.dependentSchemas {
		if _, ok := e.find(n, d.name); ok && !e.valid(d.schema, n, sc, seen) {
			return false
		}
	}
	return true
}

// missing returns the first name that a dependency requires and the object does not have.
func (e *evaluation) missing(d dependency, n uint32) (string, bool) {
	if _, ok := e.find(n, d.name); !ok {
		return "", false
	}
	for _, name := range d.required {
		if _, ok := e.find(n, name); !ok {
			return name, true
		}
	}
	return "", false
}

func (e *evaluation) array(r *arrayRules, n uint32, sc *scope, seen *marks) bool {
	nodes := e.value.nodes
	count := int(nodes[n].count)
	if count < r.min || r.max >= 0 && count > r.max {
		return false
	}
	if r.prefix != nil || r.items != nil {
		i := 0
		for c := n + 1; c < nodes[n].next; c = nodes[c].next {
			s := r.item(i)
			if s == nil {
				break
			}
			if !e.valid(s, c, sc, nil) {
				return false
			}
			seen.set(i)
			i++
		}
	}
	if r.contains != nil {
		if found := e.contains(r, n, sc, seen); found < r.leastContained() || r.maxContains >= 0 && found > r.maxContains {
			return false
		}
	}
	if r.unique {
		if _, _, found := e.value.duplicates(&e.budget, n); found {
			return false
		}
	}
	return true
}

// item returns the schema for an item, or nil.
func (r *arrayRules) item(i int) *schema {
	if i < len(r.prefix) {
		return r.prefix[i]
	}
	return r.items
}

func (r *arrayRules) leastContained() int {
	if r.minContains >= 0 {
		return r.minContains
	}
	return 1
}

func (e *evaluation) contains(r *arrayRules, n uint32, sc *scope, seen *marks) (found int) {
	nodes, i := e.value.nodes, 0
	for c := n + 1; c < nodes[n].next; c = nodes[c].next {
		if e.valid(r.contains, c, sc, nil) {
			found++
			if r.containsMarks {
				seen.set(i)
			} else if r.maxContains < 0 && found >= r.leastContained() {
				break
			}
		}
		i++
	}
	return found
}

// applicators checks the keywords whose subschemas apply to the same value.
func (e *evaluation) applicators(s *schema, n uint32, sc *scope, seen *marks) bool {
	if s.ref != nil && !e.valid(s.ref, n, sc, seen) {
		return false
	}
	if s.dynamicRef != nil && !e.valid(s.dynamicRef.resolve(sc), n, sc, seen) {
		return false
	}
	for _, sub := range s.allOf {
		if !e.valid(sub, n, sc, seen) {
			return false
		}
	}
	if s.anyOf != nil && !e.anyOf(s.anyOf, n, sc, seen) {
		return false
	}
	if s.oneOf != nil {
		if first, second := e.oneOf(s.oneOf, n, sc, seen); first < 0 || second >= 0 {
			return false
		}
	}
	if s.not != nil && e.valid(s.not, n, sc, nil) {
		return false
	}
	if branch := e.branch(s, n, sc, seen); branch != nil {
		return e.valid(branch, n, sc, seen)
	}
	return true
}

func (d *dynamicRef) resolve(sc *scope) *schema {
	if d.anchor != "" {
		if s, ok := sc.anchors[d.anchor]; ok {
			return s
		}
	}
	return d.target
}

// try is like valid, but records marks only if the value matches.
func (e *evaluation) try(s *schema, n uint32, sc *scope, seen *marks) bool {
	own := e.newMarks(n, seen != nil)
	if !e.valid(s, n, sc, own) {
		return false
	}
	if seen != nil {
		seen.merge(own)
	}
	return true
}

// branch returns the schema selected by if, or nil.
func (e *evaluation) branch(s *schema, n uint32, sc *scope, seen *marks) *schema {
	switch {
	case s.ifs == nil || s.then == nil && s.otherwise == nil && seen == nil:
		return nil
	case e.try(s.ifs, n, sc, seen):
		return s.then
	}
	return s.otherwise
}

// candidates returns the branches of a union that the value may match. If there is a tag, no
// evaluation is needed.
func (e *evaluation) candidates(u *union, n uint32) []*schema {
	if u.tag == "" || e.value.nodes[n].kind != kindObject {
		return u.branches
	}
	c, ok := e.find(n, u.tag)
	switch {
	case !ok:
		return u.branches
	case e.value.nodes[c].kind != kindString:
		return nil
	}
	return u.byTag[e.value.str(c)]
}

func (e *evaluation) anyOf(u *union, n uint32, sc *scope, seen *marks) bool {
	if u.set != nil {
		e.spend(1)
		return u.set.has(&e.budget, e.value, n)
	}
	matched := false
	for _, s := range e.candidates(u, n) {
		if e.try(s, n, sc, seen) {
			if matched = true; seen == nil {
				break // otherwise every matching branch may add marks
			}
		}
	}
	return matched
}

// oneOf returns the first two branches that the value matches, or -1.
func (e *evaluation) oneOf(u *union, n uint32, sc *scope, seen *marks) (first, second int) {
	first, second = -1, -1
	if u.set != nil {
		if e.spend(1); u.set.has(&e.budget, e.value, n) {
			first = 0
		}
		return first, second
	}
	for i, s := range e.candidates(u, n) {
		if !e.try(s, n, sc, seen) {
			continue
		}
		if first >= 0 {
			return first, i
		}
		first = i
	}
	return first, second
}
