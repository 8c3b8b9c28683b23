package jsonschema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Issue is one reason why a value does not match a schema.
type Issue struct {
	Path     []string // path to the part of the value
	Message  string
	Unknown  bool     // the last path element is a name that the schema does not define
	Known    []string // names that the schema defines there
	Examples []string // examples of valid values
}

// maxIssues is the maximum number of reported issues. A malicious value can have a great many.
const maxIssues = 20

// explanation finds the reasons why a value does not match.
type explanation struct {
	*evaluation
	path   []string // path to the current part of the value
	issues []Issue
}

// report adds an issue at the current path.
func (e *explanation) report(s *schema, format string, args ...any) {
	e.add(Issue{Path: slices.Clone(e.path), Message: fmt.Sprintf(format, args...), Examples: s.examples})
}

// reportBelow adds an issue one step below the current path.
func (e *explanation) reportBelow(name, message string) {
	e.add(Issue{Path: append(slices.Clone(e.path), name), Message: message})
}

func (e *explanation) add(issue Issue) {
	if len(e.issues) < maxIssues {
		e.spend(8 + len(e.path))
		e.allocate(256 + 16*len(e.path))
		e.issues = append(e.issues, issue)
	}
}

// explainAt explains why a part of the value does not match, if that is the case.
func (e *explanation) explainAt(step string, s *schema, n uint32, sc *scope) {
	if len(e.issues) >= maxIssues || e.valid(s, n, sc, nil) {
		return
	}
	e.path = append(e.path, step)
	e.explain(s, n, sc)
	e.path = e.path[:len(e.path)-1]
}

// explainSame explains why the current part does not match another schema, if that is the case.
func (e *explanation) explainSame(s *schema, n uint32, sc *scope) {
	if s != nil && len(e.issues) < maxIssues && !e.valid(s, n, sc, nil) {
		e.explain(s, n, sc)
	}
}

// explain reports why a node does not match a schema. The caller has already checked that it does
// not match.
func (e *explanation) explain(s *schema, n uint32, sc *scope) {
	if e.spend(4); s.never {
		e.report(s, "is not allowed")
		return
	}
	if e.dynamic {
		sc = sc.enter(s.place.resource)
	}
	before := len(e.issues)
	if !e.explainSimple(s, n) {
		return
	}
	switch e.value.nodes[n].kind {
	case kindObject:
		if s.object != nil {
			e.explainObject(s, n, sc)
		}
	case kindArray:
		if s.array != nil {
			e.explainArray(s, n, sc)
		}
	}
	e.explainApplicators(s, n, sc)
	if len(e.issues) == before {
		e.explainUnevaluated(s, n, sc)
	}
	if len(e.issues) == before {
		e.report(s, "does not match the schema")
	}
}

// explainSimple explains the keywords that have no subschemas. It reports whether to check the
// others.
func (e *explanation) explainSimple(s *schema, n uint32) bool {
	v := e.value
	if s.types != allTypes && !e.hasType(s.types, n) {
		e.report(s, "must be %s, not %s", strings.Join(s.types.names(), " or "), e.typeName(n))
		return false
	}
	for _, set := range []*valueSet{s.constant, s.enum} {
		if set != nil && !set.has(&e.budget, v, n) {
			e.report(s, "%s", set.describe())
			return false
		}
	}
	switch v.nodes[n].kind {
	case kindString:
		e.explainText(s, v.str(n))
	case kindNumber:
		e.explainNumber(s, n)
	}
	return true
}

// typeName returns a node's type for use in messages.
func (e *explanation) typeName(n uint32) string {
	if e.value.nodes[n].kind == kindNumber {
		return "number"
	}
	return e.value.typeOf(&e.budget, n).names()[0]
}

const (
	maxShown     = 40  // maximum number of enum values in a message
	maxShownSize = 600 // maximum total bytes of these values
)

// describe lists the allowed values.
func (s *valueSet) describe() string {
	if len(s.list) == 1 {
		return "must be " + cut(s.list[0].data)
	}
	var b strings.Builder
	b.WriteString("must be one of ")
	for i, v := range s.list {
		if i >= maxShown || b.Len() > maxShownSize {
			fmt.Fprintf(&b, " and %s more", grouped(len(s.list)-i))
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(cut(v.data))
	}
	return b.String()
}

func (e *explanation) explainText(s *schema, text string) {
	if s.format != nil {
		if err := e.checkFormat(s.format, text); err != nil {
			e.report(s, "is not a valid %s: %s", s.format.name, err)
		}
	}
	r := s.text
	if r == nil {
		return
	}
	if length := e.length(text); length < r.min {
		e.report(s, "must have at least %s, not %d", plural(r.min, "character", "characters"), length)
	} else if r.max >= 0 && length > r.max {
		e.report(s, "must have at most %s, not %d", plural(r.max, "character", "characters"), length)
	}
	if r.pattern != nil && !r.pattern.match(&e.budget, text) {
		e.report(s, "must match %s", r.pattern.source)
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

func (e *explanation) explainNumber(s *schema, n uint32) {
	r := s.number
	if r == nil {
		return
	}
	d := e.value.decimal(&e.budget, n)
	if r.minimum != nil && d.compare(r.minimum.decimal) < 0 {
		e.report(s, "must be at least %s", r.minimum.text)
	}
	if r.maximum != nil && d.compare(r.maximum.decimal) > 0 {
		e.report(s, "must be at most %s", r.maximum.text)
	}
	if r.above != nil && d.compare(r.above.decimal) <= 0 {
		e.report(s, "must be more than %s", r.above.text)
	}
	if r.below != nil && d.compare(r.below.decimal) >= 0 {
		e.report(s, "must be less than %s", r.below.text)
	}
	if r.multipleOf != nil && !e.isMultiple(d, r.multipleOf) {
		e.report(s, "must be a multiple of %s", r.multipleOf.text)
	}
}

func (e *explanation) explainObject(s *schema, n uint32, sc *scope) {
	r, nodes := s.object, e.value.nodes
	if count := int(nodes[n].count); count < r.min {
		e.report(s, "must have at least %s, not %d", plural(r.min, "member", "members"), count)
	} else if r.max >= 0 && count > r.max {
		e.report(s, "must have at most %s, not %d", plural(r.max, "member", "members"), count)
	}
	for _, name := range r.required {
		if len(e.issues) >= maxIssues {
			return
		}
		if _, ok := e.find(n, name); !ok {
			e.reportBelow(name, "is required")
		}
	}
	for c := n + 1; c < nodes[n].next && len(e.issues) < maxIssues; c = nodes[c].next {
		e.explainMember(r, c, sc)
	}
	for _, d := range r.dependentRequired {
		if name, ok := e.missing(d, n); ok {
			e.reportBelow(name, "is required when "+cut(d.name)+" is given")
		}
	}
	for _, d := range r.dependentSchemas {
		if _, ok := e.find(n, d.name); ok {
			e.explainSame(d.schema, n, sc)
		}
	}
}

func (e *explanation) explainMember(r *objectRules, c uint32, sc *scope) {
	e.spend(2)
	name, evaluated := e.value.key(c), false
	if p := r.properties[name]; p.schema != nil {
		evaluated = true
		e.explainAt(name, p.schema, c, sc)
	}
	for _, p := range r.patterns {
		if p.pattern.match(&e.budget, name) {
			evaluated = true
			e.explainAt(name, p.schema, c, sc)
		}
	}
	switch {
	case evaluated || r.additional == nil:
	case r.additional.never:
		e.unknown(name, r.names)
	default:
		e.explainAt(name, r.additional, c, sc)
	}
	if r.propertyNames != nil {
		if named := e.nameOf(c); !e.valid(r.propertyNames, named, sc, nil) {
			e.reportBelow(name, "is not an allowed property name")
		}
	}
}

func (e *explanation) unknown(name string, known []string) {
	e.add(Issue{Path: append(slices.Clone(e.path), name), Message: "is unknown", Unknown: true, Known: known})
}

func (e *explanation) explainArray(s *schema, n uint32, sc *scope) {
	r, nodes := s.array, e.value.nodes
	count := int(nodes[n].count)
	if count < r.min {
		e.report(s, "must have at least %s, not %d", plural(r.min, "item", "items"), count)
	} else if r.max >= 0 && count > r.max {
		e.report(s, "must have at most %s, not %d", plural(r.max, "item", "items"), count)
	}
	i := 0
	for c := n + 1; c < nodes[n].next && len(e.issues) < maxIssues; c = nodes[c].next {
		item := r.item(i)
		if item == nil {
			break
		}
		if item.never && item == r.items {
			e.report(s, "must have at most %s, not %d", plural(len(r.prefix), "item", "items"), count)
			break
		}
		e.explainAt(strconv.Itoa(i), item, c, sc)
		i++
	}
	if r.contains != nil {
		if found := e.contains(r, n, sc, nil); found < r.leastContained() {
			e.report(s, "must contain at least %s, not %d", plural(r.leastContained(), "matching item", "matching items"), found)
		} else if r.maxContains >= 0 && found > r.maxContains {
			e.report(s, "must contain at most %s, not %d", plural(r.maxContains, "matching item", "matching items"), found)
		}
	}
	if r.unique {
		if i, j, found := e.value.duplicates(&e.budget, n); found {
			e.report(s, "must have unique items: items %d and %d are equal", i, j)
		}
	}
}

func (e *explanation) explainApplicators(s *schema, n uint32, sc *scope) {
	e.explainSame(s.ref, n, sc)
	if s.dynamicRef != nil {
		e.explainSame(s.dynamicRef.resolve(sc), n, sc)
	}
	for _, sub := range s.allOf {
		e.explainSame(sub, n, sc)
	}
	if s.anyOf != nil && !e.anyOf(s.anyOf, n, sc, nil) {
		e.explainUnion(s, s.anyOf, n, sc)
	}
	if s.oneOf != nil {
		switch first, second := e.oneOf(s.oneOf, n, sc, nil); {
		case first < 0:
			e.explainUnion(s, s.oneOf, n, sc)
		case second >= 0:
			e.report(s, "matches more than one of the %d alternatives, but must match exactly one", len(s.oneOf.branches))
		}
	}
	if s.not != nil && e.valid(s.not, n, sc, nil) {
		e.report(s, "is not allowed")
	}
	e.explainSame(e.branch(s, n, sc, nil), n, sc)
}

func (e *explanation) explainUnevaluated(s *schema, n uint32, sc *scope) {
	unevaluated := s.unevaluated(e.value.nodes[n].kind)
	if unevaluated == nil {
		return
	}
	own := e.newMarks(n, true)
	if !e.parts(s, n, sc, own) || !e.applicators(s, n, sc, own) {
		return
	}
	i := 0
	for c := n + 1; c < e.value.nodes[n].next; c = e.value.nodes[c].next {
		switch isObject := e.value.nodes[n].kind == kindObject; {
		case own.has(i):
		case isObject && unevaluated.never:
			e.unknown(e.value.key(c), e.knownNames(s, nil))
		case isObject:
			e.explainAt(e.value.key(c), unevaluated, c, sc)
		default:
			e.explainAt(strconv.Itoa(i), unevaluated, c, sc)
		}
		i++
	}
}

// knownNames returns the names of all properties defined by a schema and its parts.
func (e *explanation) knownNames(s *schema, list []string) []string {
	if e.spend(1); s.object != nil {
		list = append(list, s.object.names...)
	}
	if e.allocate(16 * len(list)); len(list) > 1_000 {
		return list
	}
	for _, sub := range s.sameValue() {
		list = e.knownNames(sub, list)
	}
	return list
}

// explainUnion explains why a value matches no branch. It explains the branch that was probably
// intended.
func (e *explanation) explainUnion(s *schema, u *union, n uint32, sc *scope) {
	if u.set != nil {
		e.report(s, "%s", u.set.describe())
		return
	}
	if u.tag != "" && e.value.nodes[n].kind == kindObject {
		e.explainTagged(s, u, n, sc)
		return
	}
	types, best, fitting := typeSet(0), -1, []*schema(nil)
	for _, b := range u.branches {
		t := b.target()
		types |= t.types
		if !e.hasType(t.types, n) {
			continue
		}
		score := e.score(t, n)
		if score > best {
			best, fitting = score, fitting[:0]
		}
		if score == best && len(fitting) < 3 {
			fitting = append(fitting, b)
		}
	}
	if len(fitting) == 0 {
		e.report(s, "must be %s, not %s", strings.Join(types.names(), " or "), e.typeName(n))
		return
	}
	for _, b := range fitting {
		e.explainSame(b, n, sc)
	}
}

// explainTagged explains the branches selected by the tag.
func (e *explanation) explainTagged(s *schema, u *union, n uint32, sc *scope) {
	c, ok := e.find(n, u.tag)
	if !ok {
		e.reportBelow(u.tag, "is required: "+u.describeTags())
		return
	}
	branches := []*schema(nil)
	if e.value.nodes[c].kind == kindString {
		branches = u.byTag[e.value.str(c)]
	}
	if len(branches) == 0 {
		e.reportBelow(u.tag, u.describeTags())
		return
	}
	for _, b := range branches {
		e.explainSame(b, n, sc)
	}
}

func (u *union) describeTags() string {
	var list []*value
	for _, b := range u.branches {
		p := b.target().object.properties[u.tag].schema
		set := p.constant
		if set == nil {
			set = p.enum
		}
		list = append(list, set.list...)
	}
	return (&valueSet{list: list}).describe()
}

// score estimates how likely it is that an object was meant for a schema.
func (e *explanation) score(s *schema, n uint32) (score int) {
	if s.object == nil || e.value.nodes[n].kind != kindObject {
		return 0
	}
	nodes := e.value.nodes
	for c := n + 1; c < nodes[n].next; c = nodes[c].next {
		e.spend(2)
		if p, ok := s.object.properties[e.value.key(c)]; ok {
			if score += 2; p.required {
				score++
			}
		}
	}
	return score
}
