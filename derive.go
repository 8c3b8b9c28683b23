package toolyard

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

var wellKnown = map[reflect.Type]string{
	reflect.TypeFor[time.Time]():       `{"type":"string","format":"date-time"}`,
	reflect.TypeFor[json.RawMessage](): `{}`,
	reflect.TypeFor[json.Number]():     `{"type":"number"}`,
	reflect.TypeFor[Money]():           `{"type":"string","pattern":"^-?[0-9]+(\\.[0-9]{1,9})?$"}`,
	reflect.TypeFor[[]byte]():          `{"type":"string","contentEncoding":"base64"}`,
}

// deriver derives the JSON Schemas of Go types. In an output schema, types that can be nil also
// accept null, because encoding/json encodes nil as null.
type deriver struct{ output bool }

// derive returns a type's schema, with properties in field order. inside lists the enclosing types,
// so that recursive types can be refused.
func (d deriver) derive(t reflect.Type, inside []reflect.Type) (json.RawMessage, error) {
	raw, err := d.deriveType(t, inside)
	if err != nil || !d.output || len(inside) == 0 {
		return raw, err
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return nullable(raw), nil
	}
	return raw, nil
}

// nullable returns a schema that also accepts null.
func nullable(schema json.RawMessage) json.RawMessage {
	s := string(schema)
	if s == "{}" || strings.HasPrefix(s, `{"type":[`) {
		return schema
	}
	if rest, ok := strings.CutPrefix(s, `{"type":"`); ok {
		kind, rest, _ := strings.Cut(rest, `"`)
		return json.RawMessage(`{"type":["` + kind + `","null"]` + rest)
	}
	return json.RawMessage(`{"anyOf":[` + s + `,{"type":"null"}]}`)
}

func (d deriver) deriveType(t reflect.Type, inside []reflect.Type) (json.RawMessage, error) {
	if raw, ok := wellKnown[t]; ok {
		return json.RawMessage(raw), nil
	}
	if s, ok := reflect.TypeAssert[interface{ JSONSchema() json.RawMessage }](reflect.New(t)); ok {
		return s.JSONSchema(), nil
	}
	if slices.Contains(inside, t) {
		return nil, fmt.Errorf("type %v is recursive; give it a JSONSchema method", t)
	}
	if isText(t) {
		return json.RawMessage(`{"type":"string"}`), nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.deriveType(t.Elem(), inside)
	case reflect.Interface:
		return json.RawMessage(`{}`), nil
	case reflect.Bool:
		return json.RawMessage(`{"type":"boolean"}`), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return json.RawMessage(`{"type":"integer"}`), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return json.RawMessage(`{"type":"integer","minimum":0}`), nil
	case reflect.Float32, reflect.Float64:
		return json.RawMessage(`{"type":"number"}`), nil
	case reflect.String:
		return json.RawMessage(`{"type":"string"}`), nil
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			return json.RawMessage(wellKnown[reflect.TypeFor[[]byte]()]), nil
		}
		items, err := d.derive(t.Elem(), append(inside, t))
		return json.RawMessage(`{"type":"array","items":` + string(items) + `}`), err
	case reflect.Map:
		values, err := d.derive(t.Elem(), append(inside, t))
		return json.RawMessage(`{"type":"object","additionalProperties":` + string(values) + `}`), err
	case reflect.Struct:
		return d.deriveStruct(t, append(inside, t))
	}
	return nil, fmt.Errorf("type %v has no JSON Schema", t)
}

// isText reports whether encoding/json encodes a type with MarshalText.
func isText(t reflect.Type) bool {
	text := reflect.TypeFor[encoding.TextMarshaler]()
	return t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && (t.Implements(text) || reflect.PointerTo(t).Implements(text))
}

func (d deriver) deriveStruct(t reflect.Type, inside []reflect.Type) (json.RawMessage, error) {
	var properties, required []string
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || len(f.Index) > 1 && !promoted(t, f) || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		s, err := d.deriveField(f, inside)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
		properties = append(properties, string(mustMarshal(name))+":"+s)
		if strings.Contains(options, "string") {
			return nil, fmt.Errorf("field %s: the \",string\" option in the json tag is not supported", name)
		}
		_, hasDefault := f.Tag.Lookup("default")
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		if !optional && (d.output || !hasDefault && f.Type.Kind() != reflect.Pointer) {
			required = append(required, string(mustMarshal(name)))
		}
	}
	s := `{"type":"object","properties":{` + strings.Join(properties, ",") + `}`
	if len(required) > 0 {
		s += `,"required":[` + strings.Join(required, ",") + `]`
	}
	return json.RawMessage(s + `,"additionalProperties":false}`), nil
}

// promoted reports whether a field of an embedded struct is promoted in JSON: no struct on the path
// may have a JSON name.
func promoted(t reflect.Type, f reflect.StructField) bool {
	for i := 1; i < len(f.Index); i++ {
		outer := t.FieldByIndex(f.Index[:i])
		if name, _, _ := strings.Cut(outer.Tag.Get("json"), ","); name != "" {
			return false
		}
	}
	return true
}

// keyword is a struct tag that becomes a schema keyword.
type keyword struct {
	name string
	kind byte   // kind of value: 's' string, 'n' number, 'b' boolean, 'v' a value of the field's type
	of   string // JSON type of the fields that the keyword applies to; empty for all
}

var keywords = []keyword{
	{"minimum", 'n', "number"},
	{"maximum", 'n', "number"},
	{"exclusiveMinimum", 'n', "number"},
	{"exclusiveMaximum", 'n', "number"},
	{"multipleOf", 'n', "number"},
	{"minLength", 'n', "string"},
	{"maxLength", 'n', "string"},
	{"pattern", 's', "string"},
	{"format", 's', "string"},
	{"minItems", 'n', "array"},
	{"maxItems", 'n', "array"},
	{"uniqueItems", 'b', "array"},
	{"default", 'v', ""},
}

// isFor reports whether the keyword applies to a schema.
func (k keyword) isFor(schema json.RawMessage) bool {
	var s struct{ Type any }
	_ = json.Unmarshal(schema, &s)
	kind := strings.ReplaceAll(fmt.Sprint(s.Type), "integer", "number")
	return k.of == "" || s.Type == nil || strings.Contains(kind, k.of)
}

func (d deriver) deriveField(f reflect.StructField, inside []reflect.Type) (string, error) {
	raw, err := d.derive(f.Type, inside)
	if err != nil {
		return "", err
	}
	s := strings.TrimSuffix(string(raw), "}")
	add := func(name, value string) {
		if !strings.HasSuffix(s, "{") {
			s += ","
		}
		s += `"` + name + `":` + value
	}
	if doc := f.Tag.Get("doc"); doc != "" {
		add("description", string(mustMarshal(doc)))
	}
	if enum := f.Tag.Get("enum"); enum != "" {
		values, err := enumValues(elemOf(f.Type), enum)
		if err != nil {
			return "", err
		}
		if elemOf(f.Type) == f.Type {
			add("enum", values)
		} else { // for a slice, the enum applies to the items
			s = strings.Replace(s, `"items":{`, `"items":{"enum":`+values+",", 1)
		}
	}
	for _, k := range keywords {
		tag, ok := f.Tag.Lookup(k.name)
		if !ok {
			continue
		}
		value, err := k.value(f.Type, tag)
		if err == nil && !k.isFor(raw) {
			err = fmt.Errorf("this tag is not supported on a field of this type")
		}
		if err != nil {
			return "", fmt.Errorf("tag %s:%q: %w", k.name, tag, err)
		}
		if k.name == "minimum" { // an unsigned field already has a minimum
			s = strings.Replace(s, `,"minimum":0`, "", 1)
		}
		add(k.name, value)
	}
	return s + "}", nil
}

// elemOf returns the element type of a slice, or t itself if it is not a slice.
func elemOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Slice && t != reflect.TypeFor[[]byte]() {
		return t.Elem()
	}
	return t
}

func enumValues(t reflect.Type, tag string) (string, error) {
	var values []string
	for v := range strings.SplitSeq(tag, ",") {
		value, err := literal(t, v)
		if err != nil {
			return "", fmt.Errorf("tag enum:%q: %w", tag, err)
		}
		values = append(values, value)
	}
	return "[" + strings.Join(values, ",") + "]", nil
}

func (k keyword) value(t reflect.Type, tag string) (string, error) {
	switch k.kind {
	case 's':
		return string(mustMarshal(tag)), nil
	case 'n':
		if _, err := strconv.ParseFloat(tag, 64); err != nil || !json.Valid([]byte(tag)) {
			return "", fmt.Errorf("not a number")
		}
		return tag, nil
	case 'b':
		b, err := strconv.ParseBool(tag)
		return strconv.FormatBool(b), err
	}
	return literal(t, tag)
}

// literal returns the JSON encoding of a tag's value for type t. For a string type, the tag is the
// string itself; for any other type, it is JSON.
func literal(t reflect.Type, text string) (string, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.String || reflect.New(t).Type().Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		text = string(mustMarshal(text))
	}
	if err := json.Unmarshal([]byte(text), reflect.New(t).Interface()); err != nil {
		return "", fmt.Errorf("not a value of type %v", t)
	}
	return text, nil
}
