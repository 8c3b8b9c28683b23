package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Compile compiles a schema. Errors contain the problem or the exceeded limit, and its position.
func Compile(raw []byte) (*Schema, error) {
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("the schema is %s bytes; the limit is %s", grouped(len(raw)), grouped(maxSchema))
	}
	b := newBudget(background, limits{1 << 40, 1 << 40})
	p := &parser{budget: &b, maxDepth: maxSchemaDepth}
	if err := p.parse(string(raw)); err != nil {
		return nil, fmt.Errorf("the schema is %w", err)
	}
	root, err := decode(raw)
	if err != nil {
		return nil, err
	}
	if !isSchema(root) {
		return nil, errors.New("the schema must be an object or a boolean")
	}
	draft, err := draftOf(root, 2020)
	if err != nil {
		return nil, err
	}
	if err := checkMeta(draft, &p.value); err != nil {
		return nil, err
	}
	return compile(ownURI, root)
}

// checkMeta validates a schema against the meta-schema of its draft.
func checkMeta(draft int, v *value) error {
	meta, err := metaSchema(draft)
	if err != nil {
		return err
	}
	issues, err := meta.validateValue(background, v, limitsFor(2*maxSchema))
	if err != nil {
		return fmt.Errorf("the schema could not be checked: %w", err)
	}
	if len(issues) == 0 {
		return nil
	}
	var at strings.Builder
	for _, step := range issues[0].Path {
		at.WriteString("/" + escape(step))
	}
	return fmt.Errorf("the schema is invalid at #%s: it %s", cut(at.String()), issues[0].Message)
}

var (
	metaLock     sync.Mutex
	metaCompiled = make(map[int]*Schema)
)

// metaSchema returns the meta-schema of a draft. It is compiled on first use.
func metaSchema(draft int) (*Schema, error) {
	metaLock.Lock()
	defer metaLock.Unlock()
	if s, ok := metaCompiled[draft]; ok {
		return s, nil
	}
	root, err := readMeta(metaFiles[draft])
	if err != nil {
		return nil, err
	}
	s, err := compile("https://json-schema.org/"+metaFiles[draft], root)
	if err == nil {
		metaCompiled[draft] = s
	}
	return s, err
}

// compiler compiles places to schemas.
type compiler struct {
	library *library
	queue   []*place
	refs    map[*schema]int // number of references to each schema
	insts   int             // number of instructions in all patterns
	dynamic bool
}

func compile(uri string, root any) (*Schema, error) {
	c := &compiler{library: newLibrary(), refs: make(map[*schema]int)}
	p, err := c.library.add(uri, root)
	if err != nil {
		return nil, err
	}
	s := &Schema{root: c.schemaAt(p)}
	c.refs[s.root]++
	for len(c.queue) > 0 {
		next := c.queue[len(c.queue)-1]
		c.queue = c.queue[:len(c.queue)-1]
		if err := c.compile(next); err != nil {
			return nil, err
		}
	}
	s.dynamic = c.dynamic
	return s, c.analyze(s.root)
}

// schemaAt returns the schema for a place. It may not be compiled yet.
func (c *compiler) schemaAt(p *place) *schema {
	if p.schema == nil {
		p.schema = &schema{place: p, types: allTypes}
		c.queue = append(c.queue, p)
	}
	return p.schema
}

// at returns the schema below a place, or nil.
func (c *compiler) at(p *place, path string) *schema {
	sub, ok := c.library.places[location{p.resource.doc, p.pointer + "/" + path}]
	if !ok {
		return nil
	}
	return c.schemaAt(sub)
}

func (c *compiler) compile(p *place) error {
	s := p.schema
	c.enterResource(p.resource)
	o, isObject := p.value.(map[string]any)
	if !isObject {
		s.always, s.never = p.value == true, p.value != true
		return nil
	}
	draft := p.resource.draft
	if ref, ok := o["$ref"].(string); ok {
		if err := c.reference(s, ref); err != nil || draft < 2019 {
			return err // old drafts ignore other keywords next to $ref
		}
	}
	if err := c.dynamicReference(s, o, draft); err != nil {
		return err
	}
	c.applicators(s, o, draft)
	if err := c.common(s, o, draft); err != nil {
		return err
	}
	if err := c.objects(s, o, draft); err != nil {
		return err
	}
	c.arrays(s, o, draft)
	if err := c.texts(s, o); err != nil {
		return err
	}
	if err := c.numbers(s, o, draft); err != nil {
		return err
	}
	s.always = s.isEmpty()
	return nil
}

// enterResource compiles a resource's dynamic anchors.
func (c *compiler) enterResource(r *resource) {
	if r.scope != nil || len(r.dynamic) == 0 {
		return
	}
	r.scope = make(map[string]*schema)
	for name, p := range r.dynamic {
		r.scope[name] = c.schemaAt(p)
		c.refs[r.scope[name]] += 2
	}
}

func (c *compiler) reference(s *schema, ref string) error {
	target, err := c.library.resolve(s.place, ref)
	if err != nil {
		return err
	}
	s.ref = c.schemaAt(target)
	c.refs[s.ref]++
	return nil
}

func (c *compiler) dynamicReference(s *schema, o map[string]any, draft int) error {
	keyword := map[int]string{2020: "$dynamicRef", 2019: "$recursiveRef"}[draft]
	ref, ok := o[keyword].(string)
	if !ok {
		return nil
	}
	target, err := c.library.resolve(s.place, ref)
	if err != nil {
		return err
	}
	d := &dynamicRef{target: c.schemaAt(target)}
	c.refs[d.target]++
	_, fragment, _ := strings.Cut(ref, "#")
	if draft == 2019 {
		fragment = recursiveAnchor
	}
	if target.resource.dynamic[fragment] == target {
		d.anchor, c.dynamic = fragment, true
	}
	s.dynamicRef = d
	return nil
}

// applicators compiles the keywords whose subschemas apply to the same value.
func (c *compiler) applicators(s *schema, o map[string]any, draft int) {
	s.allOf = c.list(s.place, o, "allOf")
	if branches := c.list(s.place, o, "anyOf"); len(branches) > 0 {
		s.anyOf = &union{branches: branches}
	}
	if branches := c.list(s.place, o, "oneOf"); len(branches) > 0 {
		s.oneOf = &union{branches: branches}
	}
	s.not = c.at(s.place, "not")
	if draft >= 7 {
		if s.ifs = c.at(s.place, "if"); s.ifs != nil {
			s.then, s.otherwise = c.at(s.place, "then"), c.at(s.place, "else")
		}
	}
}

func (c *compiler) list(p *place, o map[string]any, key string) (list []*schema) {
	entries, _ := o[key].([]any)
	for i := range entries {
		list = append(list, c.at(p, fmt.Sprintf("%s/%d", key, i)))
	}
	return list
}

// common compiles the keywords that apply to values of all types.
func (c *compiler) common(s *schema, o map[string]any, draft int) (err error) {
	switch t := o["type"].(type) {
	case string:
		s.types = typeNamed(t)
	case []any:
		s.types = 0
		for _, name := range t {
			s.types |= typeNamed(fmt.Sprint(name))
		}
	}
	if list, ok := o["enum"].([]any); ok {
		if s.enum, err = setOf(list); err != nil {
			return err
		}
	}
	if value, ok := o["const"]; ok && draft >= 6 {
		if s.constant, err = setOf([]any{value}); err != nil {
			return err
		}
	}
	if name, ok := o["format"].(string); ok {
		s.format = formats[name]
	}
	if value, ok := o["default"]; ok {
		s.fallback = text(value)
	}
	if list, ok := o["examples"].([]any); ok && draft >= 7 {
		for _, e := range list[:min(3, len(list))] {
			s.examples = append(s.examples, example(e))
		}
	}
	return nil
}

// setOf parses values in a schema.
func setOf(list []any) (*valueSet, error) {
	values := make([]*value, 0, len(list))
	for _, item := range list {
		b := newBudget(background, limits{1 << 40, 1 << 40})
		p := &parser{budget: &b, maxDepth: maxSchemaDepth}
		if err := p.parse(text(item)); err != nil {
			return nil, err
		}
		values = append(values, &p.value)
	}
	return newValueSet(values), nil
}

// text returns a schema value as JSON.
func text(value any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value) // cannot fail: the value was decoded from JSON
	return strings.TrimSuffix(b.String(), "\n")
}

// example formats an example for messages. It does not quote strings unless they look like numbers.
func example(value any) string {
	s, isText := value.(string)
	if !isText {
		return text(value)
	}
	if end, ok := scanNumber(s, 0); ok && end == len(s) {
		return text(value)
	}
	return s
}

func (c *compiler) objects(s *schema, o map[string]any, draft int) (err error) {
	r := &objectRules{min: integer(o, "minProperties"), max: integer(o, "maxProperties"), required: names(o["required"])}
	if draft == 4 && o["required"] != nil && r.required == nil {
		r.required = []string{}
	}
	c.properties(s.place, o, r)
	if r.patterns, err = c.patternProperties(s.place, o); err != nil {
		return err
	}
	r.additional = c.at(s.place, "additionalProperties")
	if draft >= 6 {
		r.propertyNames = c.at(s.place, "propertyNames")
	}
	c.dependencies(s.place, o, r, draft)
	if draft >= 2019 {
		r.unevaluated = c.at(s.place, "unevaluatedProperties")
	}
	if r.min >= 0 || r.max >= 0 || r.properties != nil || r.patterns != nil || r.additional != nil || r.propertyNames != nil ||
		r.dependentRequired != nil || r.dependentSchemas != nil || r.unevaluated != nil {
		s.object = r
	}
	return nil
}

func (c *compiler) properties(p *place, o map[string]any, r *objectRules) {
	named, _ := o["properties"].(map[string]any)
	if len(named) == 0 && len(r.required) == 0 {
		return
	}
	r.properties = make(map[string]property, len(named))
	r.folded = make(map[string]string, len(named))
	r.names = slices.Sorted(maps.Keys(named))
	for _, name := range r.names {
		r.properties[name] = property{schema: c.at(p, "properties/"+escape(name))}
		r.folded[fold(name)] = name
	}
	slices.Sort(r.required)
	r.required = slices.Compact(r.required)
	for _, name := range r.required {
		r.properties[name] = property{schema: r.properties[name].schema, required: true}
	}
}

// fold maps names that differ only by case to the same string.
func fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }

func (c *compiler) patternProperties(p *place, o map[string]any) (list []patternProperty, err error) {
	named, _ := o["patternProperties"].(map[string]any)
	for _, expression := range slices.Sorted(maps.Keys(named)) {
		re, err := c.pattern(p, expression)
		if err != nil {
			return nil, err
		}
		list = append(list, patternProperty{re, c.at(p, "patternProperties/"+escape(expression))})
	}
	return list, nil
}

func (c *compiler) dependencies(p *place, o map[string]any, r *objectRules, draft int) {
	keywords := []string{"dependencies"}
	if draft >= 2019 {
		keywords = append(keywords, "dependentRequired", "dependentSchemas")
	}
	for _, key := range keywords {
		named, _ := o[key].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(named)) {
			d := dependency{name: name}
			if list, ok := named[name].([]any); ok {
				d.required = names(list)
				r.dependentRequired = append(r.dependentRequired, d)
			} else if d.schema = c.at(p, key+"/"+escape(name)); d.schema != nil {
				r.dependentSchemas = append(r.dependentSchemas, d)
			}
		}
	}
}

func names(value any) (list []string) {
	entries, _ := value.([]any)
	for _, e := range entries {
		if name, ok := e.(string); ok {
			list = append(list, name)
		}
	}
	return list
}

func (c *compiler) arrays(s *schema, o map[string]any, draft int) {
	r := &arrayRules{min: integer(o, "minItems"), max: integer(o, "maxItems"), unique: o["uniqueItems"] == true, minContains: -1, maxContains: -1}
	switch _, isList := o["items"].([]any); {
	case draft >= 2020:
		r.prefix, r.items = c.list(s.place, o, "prefixItems"), c.at(s.place, "items")
	case isList:
		r.prefix, r.items = c.list(s.place, o, "items"), c.at(s.place, "additionalItems")
	default:
		r.items = c.at(s.place, "items")
	}
	if draft >= 6 {
		r.contains = c.at(s.place, "contains")
	}
	if draft >= 2019 {
		r.unevaluated = c.at(s.place, "unevaluatedItems")
		if r.contains != nil {
			r.minContains, r.maxContains = integer(o, "minContains"), integer(o, "maxContains")
		}
	}
	r.containsMarks = draft >= 2020
	if r.min >= 0 || r.max >= 0 || r.unique || r.prefix != nil || r.items != nil || r.contains != nil || r.unevaluated != nil {
		s.array = r
	}
}

func (c *compiler) texts(s *schema, o map[string]any) (err error) {
	r := &textRules{min: integer(o, "minLength"), max: integer(o, "maxLength")}
	if expression, ok := o["pattern"].(string); ok {
		if r.pattern, err = c.pattern(s.place, expression); err != nil {
			return err
		}
	}
	if r.min >= 0 || r.max >= 0 || r.pattern != nil {
		s.text = r
	}
	return nil
}

// pattern compiles a pattern in a schema.
func (c *compiler) pattern(p *place, expression string) (*pattern, error) {
	re, err := compilePattern(expression)
	if err != nil {
		return nil, fmt.Errorf("pattern %q at %s: %w", cut(expression), cut(p.String()), err)
	}
	if c.insts += re.cost; c.insts > maxInstructions {
		return nil, fmt.Errorf("the schema's patterns exceed the total size limit at %s", cut(p.String()))
	}
	return re, nil
}

func (c *compiler) numbers(s *schema, o map[string]any, draft int) error {
	r := &numberRules{minimum: number(o, "minimum"), maximum: number(o, "maximum"), multipleOf: number(o, "multipleOf")}
	if draft == 4 || o["exclusiveMinimum"] == true || o["exclusiveMaximum"] == true {
		if o["exclusiveMinimum"] == true {
			r.minimum, r.above = nil, r.minimum
		}
		if o["exclusiveMaximum"] == true {
			r.maximum, r.below = nil, r.maximum
		}
	} else {
		r.above, r.below = number(o, "exclusiveMinimum"), number(o, "exclusiveMaximum")
	}
	if m := r.multipleOf; m != nil && (m.isZero() || len(m.digits) > 100) {
		return fmt.Errorf("multipleOf at %s must have at most 100 digits and not be zero", cut(s.place.String()))
	}
	if *r != (numberRules{}) {
		s.number = r
	}
	return nil
}

func number(o map[string]any, key string) *bound {
	n, ok := o[key].(json.Number)
	if !ok {
		return nil
	}
	return &bound{parseDecimal(string(n)), string(n)}
}

// integer returns a count, or -1 if it is not set. Very large counts are clamped.
func integer(o map[string]any, key string) int {
	const huge = 1 << 40
	n, ok := o[key].(json.Number)
	if !ok {
		return -1
	}
	d := parseDecimal(string(n))
	switch {
	case !d.isInteger() || d.negative:
		return -1
	case d.compare(parseDecimal("1099511627776")) >= 0:
		return huge
	}
	count := int(d.small) //nolint:gosec // below 2^40
	for range d.exp {
		count *= 10
	}
	return count
}

// isEmpty reports whether every value matches.
func (s *schema) isEmpty() bool {
	return s.types == allTypes && s.onlyTypes() && s.constant == nil && s.enum == nil
}

// onlyTypes reports whether a schema has no rules other than types and values.
func (s *schema) onlyTypes() bool {
	return s.format == nil && s.ref == nil && s.dynamicRef == nil && s.not == nil && s.allOf == nil && s.anyOf == nil && s.oneOf == nil &&
		s.ifs == nil && s.object == nil && s.array == nil && s.text == nil && s.number == nil
}
