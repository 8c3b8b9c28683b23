package export

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// maxBranches is the maximum number of a schema's branches that are read, at any depth.
const maxBranches = 256

// object is a decoded schema.
type object map[string]json.RawMessage

// flatten applies the rules to a schema's root. If the schema already satisfies them, it is
// returned unchanged.
func flatten(schema json.RawMessage, r rules) (json.RawMessage, error) {
	var root object
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, err
	}
	refused := slices.ContainsFunc(r.refused, func(word string) bool { return root[word] != nil })
	bare := r.properties && root["properties"] == nil
	if root == nil || (!refused && !bare) {
		return schema, nil
	}
	if refused {
		f := &flattener{root: root, left: maxBranches}
		found := f.read(root, 0)
		for _, word := range r.refused {
			delete(root, word)
		}
		if err := root.take(found); err != nil {
			return nil, err
		}
	}
	if r.properties && root["properties"] == nil {
		root["properties"] = json.RawMessage("{}")
	}
	return encode(root)
}

// take sets the properties and the required names of the root.
func (o object) take(found shape) error {
	if string(o["additionalProperties"]) != "false" && len(found.properties) > 0 {
		raw, err := found.encode()
		if err != nil {
			return err
		}
		o["properties"] = raw
	}
	own := o.properties()
	required := slices.DeleteFunc(found.required, func(name string) bool { return own[name] == nil })
	if len(required) == 0 {
		return nil
	}
	raw, err := encode(required)
	o["required"] = raw
	return err
}

// properties returns the schema's own properties, excluding those of its branches.
func (o object) properties() map[string]json.RawMessage {
	var list map[string]json.RawMessage
	_ = json.Unmarshal(o["properties"], &list) // nil if there are none
	return list
}

// shape is the set of properties that a schema accepts.
type shape struct {
	properties map[string][]json.RawMessage // alternatives for each property
	required   []string                     // sorted
}

// encode encodes the properties.
func (s shape) encode() (json.RawMessage, error) {
	properties := make(map[string]any, len(s.properties))
	for name, schemas := range s.properties {
		if len(schemas) == 1 {
			properties[name] = schemas[0]
			continue
		}
		properties[name] = map[string]any{"anyOf": schemas}
	}
	return encode(properties)
}

type flattener struct {
	root object
	left int // branches that may still be read
}

// maxNesting is the maximum depth of nested branches.
const maxNesting = 4

// read returns the shape of a schema including all of its branches.
func (f *flattener) read(o object, depth int) shape {
	s := shape{properties: make(map[string][]json.RawMessage)}
	for name, schema := range o.properties() {
		s.properties[name] = []json.RawMessage{schema}
	}
	_ = json.Unmarshal(o["required"], &s.required) // nil if there are none
	slices.Sort(s.required)
	if depth == maxNesting {
		return s
	}
	for _, branch := range f.branches(o["allOf"]) {
		s = both(s, f.read(branch, depth+1))
	}
	for _, word := range []string{"oneOf", "anyOf"} {
		if branches := f.branches(o[word]); len(branches) > 0 {
			one := f.read(branches[0], depth+1)
			for _, branch := range branches[1:] {
				one = either(one, f.read(branch, depth+1))
			}
			s = both(s, one)
		}
	}
	return s
}

// branches decodes a list of schemas, up to the remaining number of branches.
func (f *flattener) branches(raw json.RawMessage) []object {
	var list []json.RawMessage
	_ = json.Unmarshal(raw, &list) // empty if raw is not a list
	var out []object
	for _, raw := range list {
		if f.left == 0 {
			break
		}
		f.left--
		var branch object
		_ = json.Unmarshal(raw, &branch) // true and false have no properties
		out = append(out, f.follow(branch))
	}
	return out
}

// follow returns the definition that a branch refers to, or the branch itself.
func (f *flattener) follow(branch object) object {
	var ref string
	_ = json.Unmarshal(branch["$ref"], &ref) // empty if there is no reference
	for _, place := range []string{"$defs", "definitions"} {
		name, ok := strings.CutPrefix(ref, "#/"+place+"/")
		if !ok {
			continue
		}
		var definitions map[string]object
		_ = json.Unmarshal(f.root[place], &definitions) // nil if there are none
		if o, ok := definitions[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]; ok {
			return o
		}
	}
	return branch
}

// both returns the shape of values that match both schemas.
func both(a, b shape) shape {
	properties := maps.Clone(b.properties)
	maps.Copy(properties, a.properties)
	required := slices.Sorted(slices.Values(slices.Concat(a.required, b.required)))
	return shape{properties, slices.Compact(required)}
}

// either returns the shape of values that match at least one of two schemas.
func either(a, b shape) shape {
	properties := maps.Clone(a.properties)
	for name, schemas := range b.properties {
		for _, schema := range schemas {
			same := func(other json.RawMessage) bool { return bytes.Equal(schema, other) }
			if !slices.ContainsFunc(properties[name], same) {
				properties[name] = append(slices.Clip(properties[name]), schema)
			}
		}
	}
	required := slices.DeleteFunc(slices.Clone(a.required), func(name string) bool {
		return !slices.Contains(b.required, name)
	})
	return shape{properties, required}
}
