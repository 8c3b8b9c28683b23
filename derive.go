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

// derive writes the JSON Schema of a Go type, fields in their order. It knows which types
// it is inside of, since a type that contains itself
// has no finite schema here.
func derive(t reflect.Type, inside []reflect.Type) (json.RawMessage, error) {
	if raw, ok := wellKnown[t]; ok {
		return json.RawMessage(raw), nil
	}
	if s, ok := reflect.TypeAssert[interface{ JSONSchema() json.RawMessage }](reflect.New(t)); ok {
		return s.JSONSchema(), nil
	}
	if slices.Contains(inside, t) {
		return nil, fmt.Errorf("type %v contains itself; give it a JSONSchema method", t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return derive(t.Elem(), inside)
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
		items, err := derive(t.Elem(), append(inside, t))
		return json.RawMessage(`{"type":"array","items":` + string(items) + `}`), err
	case reflect.Map:
		values, err := derive(t.Elem(), append(inside, t))
		return json.RawMessage(`{"type":"object","additionalProperties":` + string(values) + `}`), err
	case reflect.Struct:
		if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
			return json.RawMessage(`{"type":"string"}`), nil
		}
		return deriveStruct(t, append(inside, t))
	}
	return nil, fmt.Errorf("type %v has no JSON Schema", t)
}

func deriveStruct(t reflect.Type, inside []reflect.Type) (json.RawMessage, error) {
	var properties, required []string
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || len(f.Index) > 1 && !promoted(t, f) || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		s, err := deriveField(f, inside)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", name, err)
		}
		properties = append(properties, string(mustMarshal(name))+":"+s)
		optional := f.Type.Kind() == reflect.Pointer || f.Tag.Get("default") != "" ||
			strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		if !optional {
			required = append(required, string(mustMarshal(name)))
		}
	}
	s := `{"type":"object","properties":{` + strings.Join(properties, ",") + `}`
	if len(required) > 0 {
		s += `,"required":[` + strings.Join(required, ",") + `]`
	}
	return json.RawMessage(s + `,"additionalProperties":false}`), nil
}

// promoted reports whether an embedded struct's field is promoted all the way in
// JSON too: every struct it passes through is embedded without a name of its own.
func promoted(t reflect.Type, f reflect.StructField) bool {
	for i := 1; i < len(f.Index); i++ {
		outer := t.FieldByIndex(f.Index[:i])
		if name, _, _ := strings.Cut(outer.Tag.Get("json"), ","); name != "" {
			return false
		}
	}
	return true
}

// keyword is a struct tag that becomes a schema keyword, with what its value is.
type keyword struct {
	name string
	kind byte // 's' text, 'n' number, 'b' true or false, 'v' a value of the field's type
}

var keywords = []keyword{
	{"minimum", 'n'},
	{"maximum", 'n'},
	{"exclusiveMinimum", 'n'},
	{"exclusiveMaximum", 'n'},
	{"multipleOf", 'n'},
	{"minLength", 'n'},
	{"maxLength", 'n'},
	{"pattern", 's'},
	{"format", 's'},
	{"minItems", 'n'},
	{"maxItems", 'n'},
	{"uniqueItems", 'b'},
	{"default", 'v'},
}

func deriveField(f reflect.StructField, inside []reflect.Type) (string, error) {
	raw, err := derive(f.Type, inside)
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
		} else { // the items of a list are what the words are for
			s = strings.Replace(s, `"items":{`, `"items":{"enum":`+values+",", 1)
		}
	}
	for _, k := range keywords {
		tag, ok := f.Tag.Lookup(k.name)
		if !ok {
			continue
		}
		value, err := k.value(f.Type, tag)
		if err != nil {
			return "", fmt.Errorf("tag %s:%q: %w", k.name, tag, err)
		}
		if k.name == "minimum" { // an unsigned field has one already
			s = strings.Replace(s, `,"minimum":0`, "", 1)
		}
		add(k.name, value)
	}
	return s + "}", nil
}

// elemOf is the type of a list's items, and any other type itself.
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

// literal is the JSON for a tag's text as a value of type t: a bare word for a
// string, JSON for everything else.
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
