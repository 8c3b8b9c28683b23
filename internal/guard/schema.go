package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Bounds on the JSON Schema of a stranger.
const (
	maxSchema     = 256 << 10 // bytes
	maxNodes      = 20_000    // subschemas
	maxPatterns   = 200
	maxPattern    = 2_000   // bytes of one
	maxExpansions = 10_000  // subschemas that one value meets at once
	maxWay        = 1_000   // references in a row
	maxPaths      = 4 << 20 // bytes of the addresses of all subschemas
	maxSteps      = 1e5     // subschemas that one value meets with all its parts
)

// CheckSchema refuses a stranger's JSON Schema that could harm whoever validates with it:
// references that leave the document, references that lead back to themselves without
// consuming anything of the value, patterns that must be searched by trying, and more of
// anything than a tool needs.
//
// Depth is how deep a value may nest so that validating it stays cheap, 0 for as deep as
// it likes: a schema that refers to itself in several ways at once makes the work grow with
// every level.
func CheckSchema(raw json.RawMessage) (depth int, err error) {
	c, err := readSchema(raw)
	if err != nil {
		return 0, err
	}
	for _, at := range slices.Sorted(maps.Keys(c.places)) {
		if _, err := c.expand(at, nil); err != nil {
			return 0, err
		}
	}
	return c.depth()
}

// readSchema finds all subschemas of a schema.
func readSchema(raw json.RawMessage) (*schemaChecker, error) {
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("the schema is larger than %d KiB", maxSchema>>10)
	}
	if err := CheckJSON(raw); err != nil {
		return nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		return nil, err
	}
	if _, ok := root.(map[string]any); !ok {
		return nil, errors.New("the schema is not an object")
	}
	c := &schemaChecker{places: make(map[string]any), expansions: make(map[string]int), anchors: make(map[string]string), subs: make(map[string][]partSchema)}
	return c, c.walk(root, "")
}

// schemaChecker looks at one schema.
type schemaChecker struct {
	places     map[string]any // all subschemas, by JSON pointers
	anchors    map[string]string
	patterns   int
	paths      int // bytes of all addresses
	subs       map[string][]partSchema
	expansions map[string]int // what a value meets at a place, at once
}

// The keywords that hold subschemas: one, a list, or an object of them. Those for the same
// value are met at once; the others are for a part of it.
var (
	sameOne   = []string{"not", "if", "then", "else"}
	sameList  = []string{"allOf", "anyOf", "oneOf"}
	sameNamed = []string{"dependentSchemas"}
	partOne   = []string{"items", "additionalItems", "prefixItems", "contains", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames", "contentSchema"}
	partNamed = []string{"properties", "patternProperties", "$defs", "definitions"}
)

// walk visits all subschemas. Whatever is not known as a keyword is no schema, and no
// reference may lead there.
func (c *schemaChecker) walk(node any, at string) error {
	o, ok := node.(map[string]any)
	if _, truth := node.(bool); !ok && !truth {
		return fmt.Errorf("the schema has something else than a schema at %q", at)
	}
	if c.places[at] = node; len(c.places) > maxNodes {
		return fmt.Errorf("the schema has more than %d parts", maxNodes)
	}
	if err := c.keywords(o, at); err != nil {
		return err
	}
	if c.paths += len(at) * (1 + countParts(o)); c.paths > maxPaths {
		return errors.New("the schema has too many parts with long names")
	}
	for _, sub := range children(o, at, slices.Concat(sameOne, partOne), slices.Concat(sameList, []string{"items", "prefixItems"}), slices.Concat(sameNamed, partNamed)) {
		if err := c.walk(sub.node, sub.at); err != nil {
			return err
		}
	}
	return nil
}

// keywords checks what one subschema says itself.
func (c *schemaChecker) keywords(o map[string]any, at string) error {
	for _, key := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		if ref, has := o[key]; has {
			if text, ok := ref.(string); !ok || !strings.HasPrefix(text, "#") {
				return fmt.Errorf("the schema refers to something outside of itself at %q: %.100v", at, ref)
			}
		}
	}
	for _, key := range []string{"$id", "id"} {
		if id, has := o[key].(string); has && at != "" && !strings.HasPrefix(id, "#") {
			return fmt.Errorf("the schema has another schema inside, at %q", at)
		}
	}
	for _, key := range []string{"$anchor", "$dynamicAnchor"} {
		if name, ok := o[key].(string); ok {
			c.anchors[name] = at
		}
	}
	return c.checkPatterns(o, at)
}

func (c *schemaChecker) checkPatterns(o map[string]any, at string) error {
	var patterns []string
	if p, ok := o["pattern"].(string); ok {
		patterns = append(patterns, p)
	}
	if named, ok := o["patternProperties"].(map[string]any); ok {
		patterns = slices.AppendSeq(patterns, maps.Keys(named))
	}
	for _, p := range patterns {
		if c.patterns++; c.patterns > maxPatterns || len(p) > maxPattern {
			return fmt.Errorf("the schema has too many or too long patterns, at %q", at)
		}
		if _, err := regexp.Compile(escapedRune.ReplaceAllString(p, `\x{$1}`)); err != nil {
			return fmt.Errorf("the schema has a pattern that can only be searched by trying, at %q", at)
		}
	}
	return nil
}

// escapedRune is a character as JavaScript escapes it.
var escapedRune = regexp.MustCompile(`\\u([0-9A-Fa-f]{4})`)

// countParts is how many subschemas a schema has itself, at most.
func countParts(o map[string]any) (n int) {
	for _, value := range o {
		switch v := value.(type) {
		case map[string]any:
			n += 1 + len(v)
		case []any:
			n += len(v)
		}
	}
	return n
}

// subschema is a schema within a schema.
type subschema struct {
	node any
	at   string
}

// children are the subschemas of a schema under the given keywords.
func children(o map[string]any, at string, one, list, named []string) (subs []subschema) {
	for _, key := range one {
		if _, isList := o[key].([]any); o[key] != nil && !isList {
			subs = append(subs, subschema{o[key], at + "/" + key})
		}
	}
	for _, key := range list {
		items, _ := o[key].([]any)
		for i, item := range items {
			subs = append(subs, subschema{item, at + "/" + key + "/" + strconv.Itoa(i)})
		}
	}
	for _, key := range named {
		members, _ := o[key].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if _, isList := members[name].([]any); !isList { // dependencies of old drafts
				subs = append(subs, subschema{members[name], at + "/" + key + "/" + escape(name)})
			}
		}
	}
	return subs
}

func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// expand counts the subschemas that a value meets at a place at once, by all ways that
// consume nothing of it. A way that leads back is one that never ends.
func (c *schemaChecker) expand(at string, way []string) (int, error) {
	if n, ok := c.expansions[at]; ok {
		return n, nil
	}
	if len(way) > maxWay {
		return 0, fmt.Errorf("the schema refers from one part to the next more than %d times", maxWay)
	}
	if slices.Contains(way, at) {
		return 0, fmt.Errorf("the schema refers to itself without end at %q", at)
	}
	node, ok := c.places[at]
	if !ok {
		return 0, fmt.Errorf("the schema refers to %q, where there is no schema", at)
	}
	n := 1
	o, _ := node.(map[string]any)
	for _, next := range c.sameValue(o, at) {
		more, err := c.expand(next, append(way, at))
		if err != nil {
			return 0, err
		}
		if n += more; n > maxExpansions {
			return 0, fmt.Errorf("the schema means more than %d schemas at %q", maxExpansions, at)
		}
	}
	c.expansions[at] = n
	return n, nil
}

// sameValue are the places whose schemas the same value must meet.
func (c *schemaChecker) sameValue(o map[string]any, at string) (places []string) {
	for _, sub := range children(o, at, sameOne, sameList, sameNamed) {
		places = append(places, sub.at)
	}
	for _, key := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		if ref, ok := o[key].(string); ok {
			places = append(places, c.target(ref))
		}
	}
	return places
}

// target is the place that a reference within the document leads to.
func (c *schemaChecker) target(ref string) string {
	fragment := strings.TrimPrefix(ref, "#")
	if plain, err := url.PathUnescape(fragment); err == nil {
		fragment = plain
	}
	if at, ok := c.anchors[fragment]; ok {
		return at
	}
	return fragment
}
