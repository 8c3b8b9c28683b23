package export

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// maxBranches is how many branches of a schema are read, however they nest.
const maxBranches = 256

// object is a schema that is being taken apart.
type object map[string]json.RawMessage

// flatten writes a schema as the rules want its root. A schema that keeps to them keeps its
// bytes.
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

// take makes what was found the properties of the root, and what it requires.
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

// properties are those that the schema itself names.
func (o object) properties() map[string]json.RawMessage {
	var list map[string]json.RawMessage
	_ = json.Unmarshal(o["properties"], &list) // without any, there is nothing to read
	return list
}

// shape is what is known of the values that a schema takes.
type shape struct {
	properties map[string][]json.RawMessage // each has one of these schemas
	required   []string                     // sorted
}

// encode writes the properties.
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

// flattener reads the branches of a schema.
type flattener struct {
	root object
	left int // branches
}

// maxNesting is how deep branches of branches are read.
const maxNesting = 4

// read is the shape of a schema with all of its branches.
func (f *flattener) read(o object, depth int) shape {
	s := shape{properties: make(map[string][]json.RawMessage)}
	for name, schema := range o.properties() {
		s.properties[name] = []json.RawMessage{schema}
	}
	_ = json.Unmarshal(o["required"], &s.required) // as above
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

// branches are the schemas of a list, as long as there are some left to read.
func (f *flattener) branches(raw json.RawMessage) []object {
	var list []json.RawMessage
	_ = json.Unmarshal(raw, &list) // no list, no branches
	var out []object
	for _, raw := range list {
		if f.left == 0 {
			break
		}
		f.left--
		var branch object
		_ = json.Unmarshal(raw, &branch) // true and false say nothing of properties
		out = append(out, f.follow(branch))
	}
	return out
}

// follow returns the definition that a branch refers to, or the branch.
func (f *flattener) follow(branch object) object {
	var ref string
	_ = json.Unmarshal(branch["$ref"], &ref) // without one, there is nothing to follow
	for _, place := range []string{"$defs", "definitions"} {
		name, ok := strings.CutPrefix(ref, "#/"+place+"/")
		if !ok {
			continue
		}
		var definitions map[string]object
		_ = json.Unmarshal(f.root[place], &definitions) // as above
		if o, ok := definitions[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]; ok {
			return o
		}
	}
	return branch
}

// both is the shape of what fits two schemas.
func both(a, b shape) shape {
	properties := maps.Clone(b.properties)
	maps.Copy(properties, a.properties)
	required := slices.Sorted(slices.Values(slices.Concat(a.required, b.required)))
	return shape{properties, slices.Compact(required)}
}

// either is the shape of what fits one of two schemas.
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
