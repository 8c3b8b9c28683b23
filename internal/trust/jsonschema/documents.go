package jsonschema

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

//go:embed meta
var metaSchemas embed.FS

// Limits on a schema.
const (
	maxSchema      = 256 << 10 // bytes
	maxSchemaDepth = 64
	maxNodes       = 20_000 // subschemas
	maxProperties  = 2_000  // per object
	maxBranches    = 1_000  // per anyOf, oneOf or allOf whose branches are not all constants
	maxConstants   = 10_000 // per enum, or per union of constants
	maxPatterns    = 200
	maxPaths       = 4 << 20 // total bytes of the pointers to all subschemas
)

// document is a JSON document that contains schemas.
type document struct {
	uri  string
	root any
}

// resource is a schema that has its own identifier, and the anchors in it.
type resource struct {
	doc     *document
	pointer string // position in the document
	uri     string
	draft   int
	anchors map[string]*place
	dynamic map[string]*place // dynamic anchors
	scope   map[string]*schema
}

// recursiveAnchor is the name of the dynamic anchor that represents $recursiveAnchor.
const recursiveAnchor = "\x00recursive"

// place is the position of a subschema.
type place struct {
	resource *resource
	pointer  string // position in the document
	value    any
	schema   *schema // nil until compiled
}

func (p *place) String() string { return "#" + p.pointer }

// location identifies a place.
type location struct {
	doc     *document
	pointer string
}

// library contains all subschemas of a schema and of the meta-schemas that it refers to.
type library struct {
	places    map[location]*place
	resources map[string]*resource // by URI
	nodes     int
	patterns  int
	paths     int
}

const ownURI = "tool:///schema"

func newLibrary() *library {
	return &library{places: make(map[location]*place), resources: make(map[string]*resource)}
}

// add adds a document.
func (l *library) add(uri string, root any) (*place, error) {
	doc := &document{uri, root}
	draft, err := draftOf(root, 2020)
	if err != nil {
		return nil, err
	}
	res := &resource{doc: doc, uri: uri, draft: draft, anchors: make(map[string]*place), dynamic: make(map[string]*place)}
	l.resources[uri] = res
	if err := l.collect(res, "", root); err != nil {
		return nil, err
	}
	return l.places[location{doc, ""}], nil
}

var drafts = map[string]int{
	"json-schema.org/schema":               2020,
	"json-schema.org/draft/2020-12/schema": 2020,
	"json-schema.org/draft/2019-09/schema": 2019,
	"json-schema.org/draft-07/schema":      7,
	"json-schema.org/draft-06/schema":      6,
	"json-schema.org/draft-04/schema":      4,
}

// metaFiles maps drafts to their meta-schemas.
var metaFiles = map[int]string{
	2020: "draft/2020-12/schema", 2019: "draft/2019-09/schema", 7: "draft-07/schema", 6: "draft-06/schema", 4: "draft-04/schema",
}

// draftOf returns the draft that a schema declares.
func draftOf(root any, otherwise int) (int, error) {
	o, _ := root.(map[string]any)
	said, ok := o["$schema"].(string)
	if !ok {
		return otherwise, nil
	}
	name := strings.TrimSuffix(said, "#")
	for _, scheme := range []string{"https://", "http://"} {
		if draft, ok := drafts[strings.TrimPrefix(name, scheme)]; ok && strings.HasPrefix(name, scheme) {
			return draft, nil
		}
	}
	return 0, fmt.Errorf("unknown $schema %q: use https://json-schema.org/draft/2020-12/schema, or omit it", cut(said))
}

// Keywords whose value is a schema, a list of schemas, or an object of schemas.
var (
	holdsOne = []string{
		"not", "if", "then", "else", "items", "additionalItems", "contains", "additionalProperties", "unevaluatedProperties",
		"unevaluatedItems", "propertyNames", "contentSchema",
	}
	holdsList  = []string{"allOf", "anyOf", "oneOf", "items", "prefixItems"}
	holdsNamed = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)

// collect finds a schema's subschemas. The values of unknown keywords are not schemas unless a
// reference points to them.
func (l *library) collect(res *resource, pointer string, value any) error {
	if l.nodes++; l.nodes > maxNodes {
		return fmt.Errorf("the schema has more than %s subschemas", grouped(maxNodes))
	}
	o, isObject := value.(map[string]any)
	if pointer != "" {
		var err error
		if res, err = l.inner(res, pointer, o); err != nil {
			return err
		}
	} else if id := res.id(o); id != "" {
		if err := l.identify(res, res.uri, id); err != nil {
			return err
		}
	}
	p := &place{resource: res, pointer: pointer, value: value}
	l.places[location{res.doc, pointer}] = p
	if !isObject {
		return nil
	}
	if l.paths += len(pointer); l.paths > maxPaths {
		return fmt.Errorf("the schema has too many subschemas with long names at #%s", cut(pointer))
	}
	if err := l.checkWidth(p, o); err != nil {
		return err
	}
	res.name(p, o)
	return l.collectAll(res, pointer, o)
}

// inner returns a subschema's resource. If the subschema has an identifier, it is a new resource.
func (l *library) inner(res *resource, pointer string, o map[string]any) (*resource, error) {
	id := res.id(o)
	if id == "" {
		return res, nil
	}
	draft, err := draftOf(o, res.draft)
	if err != nil {
		return nil, err
	}
	own := &resource{doc: res.doc, pointer: pointer, draft: draft, anchors: make(map[string]*place), dynamic: make(map[string]*place)}
	return own, l.identify(own, res.uri, id)
}

// id returns a schema's identifier without its fragment.
func (r *resource) id(o map[string]any) string {
	keyword := "$id"
	if r.draft == 4 {
		keyword = "id"
	}
	if _, refers := o["$ref"]; refers && r.draft < 2019 {
		return "" // other keywords next to $ref are ignored
	}
	id, _ := o[keyword].(string)
	id, _, _ = strings.Cut(id, "#")
	return id
}

// identify sets a resource's URI.
func (l *library) identify(res *resource, base, id string) error {
	uri, err := join(base, id)
	if err != nil {
		return fmt.Errorf("identifier %q at #%s is not a URI", cut(id), cut(res.pointer))
	}
	if other, ok := l.resources[uri]; ok && other != res {
		return fmt.Errorf("two schemas have the identifier %q", cut(uri))
	}
	res.uri = uri
	l.resources[uri] = res
	return nil
}

// join resolves a reference without its fragment.
func join(base, ref string) (string, error) {
	u, err := url.Parse(ref)
	if err != nil {
		return "", err
	}
	b, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	u = b.ResolveReference(u)
	u.Fragment, u.RawFragment = "", ""
	return u.String(), nil
}

// name registers a subschema's anchors.
func (r *resource) name(p *place, o map[string]any) {
	if r.draft < 2019 {
		keyword := map[bool]string{true: "id", false: "$id"}[r.draft == 4]
		if id, _ := o[keyword].(string); strings.HasPrefix(id, "#") {
			r.anchors[id[1:]] = p
		}
		return
	}
	if anchor, ok := o["$anchor"].(string); ok {
		r.anchors[anchor] = p
	}
	if anchor, ok := o["$dynamicAnchor"].(string); ok && r.draft >= 2020 {
		r.anchors[anchor], r.dynamic[anchor] = p, p
	}
	if o["$recursiveAnchor"] == true && r.draft == 2019 && p.pointer == r.pointer {
		r.dynamic[recursiveAnchor] = p
	}
}

// collectAll finds the subschemas below a schema.
func (l *library) collectAll(res *resource, pointer string, o map[string]any) error {
	for _, key := range holdsOne {
		if value, ok := o[key]; ok && isSchema(value) {
			if err := l.collect(res, pointer+"/"+key, value); err != nil {
				return err
			}
		}
	}
	for _, key := range holdsList {
		list, _ := o[key].([]any)
		for i, value := range list {
			if err := l.collect(res, pointer+"/"+key+"/"+strconv.Itoa(i), value); err != nil {
				return err
			}
		}
	}
	for _, key := range holdsNamed {
		named, _ := o[key].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if !isSchema(named[name]) {
				continue // a list of names in dependencies
			}
			if err := l.collect(res, pointer+"/"+key+"/"+escape(name), named[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

func isSchema(value any) bool {
	switch value.(type) {
	case bool, map[string]any:
		return true
	}
	return false
}

// checkWidth checks the limits on a subschema's keywords.
func (l *library) checkWidth(p *place, o map[string]any) error {
	for _, key := range holdsNamed {
		if named, _ := o[key].(map[string]any); len(named) > maxProperties {
			return fmt.Errorf("the schema has %s members in %s at %s; the limit is %s", grouped(len(named)), key, cut(p.String()), grouped(maxProperties))
		}
	}
	for _, key := range append(holdsList, "enum", "required") {
		list, _ := o[key].([]any)
		most := maxBranches
		if key == "enum" || key == "required" || areConstants(list) {
			most = maxConstants
		}
		if len(list) > most {
			return fmt.Errorf("the schema has %s entries in %s at %s; the limit is %s", grouped(len(list)), key, cut(p.String()), grouped(most))
		}
	}
	named, _ := o["patternProperties"].(map[string]any)
	if l.patterns += len(named); o["pattern"] != nil {
		l.patterns++
	}
	if l.patterns > maxPatterns {
		return fmt.Errorf("the schema has more than %d patterns", maxPatterns)
	}
	return nil
}

// areConstants reports whether all branches of a union are constants.
func areConstants(list []any) bool {
	for _, branch := range list {
		o, _ := branch.(map[string]any)
		if _, ok := o["const"]; !ok {
			return false
		}
	}
	return true
}

// resolve returns a reference's target.
func (l *library) resolve(from *place, ref string) (*place, error) {
	uri, fragment, _ := strings.Cut(ref, "#")
	res := from.resource
	if uri != "" {
		absolute, err := join(res.uri, uri)
		if err != nil {
			return nil, fmt.Errorf("reference %q at %s is not a URI", cut(ref), from)
		}
		if res, err = l.resourceAt(absolute); err != nil {
			return nil, fmt.Errorf("reference %q at %s: %w", cut(ref), cut(from.String()), err)
		}
	}
	if plain, err := url.PathUnescape(fragment); err == nil {
		fragment = plain
	}
	if fragment != "" && fragment[0] != '/' {
		if p, ok := res.anchors[fragment]; ok {
			return p, nil
		}
		return nil, fmt.Errorf("the schema refers to %q at %s, but there is no schema there", cut(ref), cut(from.String()))
	}
	return l.placeAt(res, fragment, from, ref)
}

// placeAt returns the place at a pointer in a resource. If the place was not known to be a schema,
// it is added.
func (l *library) placeAt(res *resource, fragment string, from *place, ref string) (*place, error) {
	pointer := res.pointer + fragment
	if p, ok := l.places[location{res.doc, pointer}]; ok {
		return p, nil
	}
	value, base, ok := l.lookup(res, fragment)
	if !ok || !isSchema(value) {
		return nil, fmt.Errorf("the schema refers to %q at %s, but there is no schema there", cut(ref), cut(from.String()))
	}
	if err := l.collect(base, pointer, value); err != nil {
		return nil, err
	}
	return l.places[location{res.doc, pointer}], nil
}

// lookup follows a pointer and returns the value and its resource.
func (l *library) lookup(res *resource, fragment string) (any, *resource, bool) {
	at, pointer := l.places[location{res.doc, res.pointer}].value, res.pointer
	for token := range strings.SplitSeq(strings.TrimPrefix(fragment, "/"), "/") {
		pointer += "/" + token
		switch v := at.(type) {
		case map[string]any:
			next, ok := v[unescapePointer(token)]
			if !ok {
				return nil, nil, false
			}
			at = next
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return nil, nil, false
			}
			at = v[i]
		default:
			return nil, nil, false
		}
		if p, ok := l.places[location{res.doc, pointer}]; ok {
			res = p.resource
		}
	}
	return at, res, true
}

// resourceAt finds a resource in the document, or loads a meta-schema.
func (l *library) resourceAt(uri string) (*resource, error) {
	if res, ok := l.resources[uri]; ok {
		return res, nil
	}
	for _, scheme := range []string{"https://", "http://"} {
		if name, ok := strings.CutPrefix(uri, scheme+"json-schema.org/"); ok {
			root, err := readMeta(name)
			if err != nil {
				break
			}
			p, err := l.add(uri, root)
			if err != nil {
				return nil, err
			}
			return p.resource, nil
		}
	}
	return nil, errors.New("references to other documents are not supported")
}

func readMeta(name string) (root any, err error) {
	data, err := metaSchemas.ReadFile("meta/" + name + ".json")
	if err != nil {
		return nil, err
	}
	return decode(data)
}

// decode parses a validated document.
func decode(data []byte) (root any, err error) {
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	err = dec.Decode(&root)
	return root, err
}

func escape(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func unescapePointer(token string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
}
