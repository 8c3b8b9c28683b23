package toolyard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Schema is a JSON Schema (2020-12, or what its $schema says) that is ready for use: it
// validates JSON values and fills in their defaults.
type Schema struct {
	raw      json.RawMessage
	compiled *jsonschema.Schema
	isObject bool // the root says "type": "object"
}

// SchemaFor derives the schema of a Go type, as [Define] does for arguments. It panics if
// the type has none.
func SchemaFor[T any]() *Schema {
	s, err := schemaOf(reflect.TypeFor[T](), false)
	if err != nil {
		panic("toolyard.SchemaFor: " + err.Error())
	}
	return s
}

// derived holds the schemas of types, which never change.
var derived sync.Map // derivation → *Schema

type derivation struct {
	reflect.Type
	output bool
}

func schemaOf(t reflect.Type, output bool) (*Schema, error) {
	key := derivation{t, output}
	if s, ok := derived.Load(key); ok {
		return s.(*Schema), nil
	}
	raw, err := deriver{output}.derive(t, nil)
	if err != nil {
		return nil, err
	}
	s, err := NewSchema(raw)
	if err == nil {
		derived.Store(key, s)
	}
	return s, err
}

// JSON is the schema's own text.
func (s *Schema) JSON() json.RawMessage { return s.raw }

// noLoader refuses every reference that leaves the schema's own document.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("$ref to another document (%s) is not followed", url)
}

// NewSchema compiles a schema. It fails when the schema is not valid or refers to another
// document.
func NewSchema(raw json.RawMessage) (*Schema, error) {
	doc, err := decode(raw)
	if err != nil {
		return nil, err
	}
	const url = "tool:///schema"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(url)
	if err != nil {
		return nil, err
	}
	s := &Schema{raw: raw, compiled: compiled}
	if o, ok := doc.(map[string]any); ok {
		s.isObject = o["type"] == "object"
	}
	return s, nil
}

// decode reads one JSON value with its numbers as they are written.
func decode(raw json.RawMessage) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the value")
	}
	return v, nil
}

// Complete returns the value with its defaults filled in and its whole numbers written
// as such (5.0 is 5), or what is wrong with it. A value that lacks nothing keeps its bytes.
func (s *Schema) Complete(value json.RawMessage) (json.RawMessage, []Issue) {
	v, err := decode(value)
	if err != nil {
		return nil, []Issue{{Message: "not JSON: " + err.Error()}}
	}
	c := completion{left: maxSteps + 2*len(value)}
	v = c.visit(s.compiled, v)
	if c.left <= 0 {
		return nil, []Issue{{Message: "the schema refers to itself too often to fill in its defaults"}}
	}
	if issues := append(c.issues, s.issues(v)...); len(issues) > 0 {
		return nil, issues
	}
	if c.changed {
		value = mustMarshal(v)
	}
	return value, nil
}

// Check returns what is wrong with a value.
func (s *Schema) Check(raw json.RawMessage) []Issue {
	v, err := decode(raw)
	if err != nil {
		return []Issue{{Message: "not JSON: " + err.Error()}}
	}
	return s.issues(v)
}

var english = message.NewPrinter(language.English)

// issues validates v and flattens what the validator says into one issue a fault.
func (s *Schema) issues(v any) []Issue {
	err := s.compiled.Validate(v)
	if err == nil {
		return nil
	}
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return []Issue{{Message: err.Error()}}
	}
	var issues []Issue
	flatten(ve, s.compiled, &issues)
	slices.SortStableFunc(issues, func(a, b Issue) int { return cmp.Compare(a.Path, b.Path) })
	return slices.CompactFunc(issues, func(a, b Issue) bool { return a.Path == b.Path && a.Message == b.Message })
}

// maxIssues is how many faults are told at once. Nobody mends more, and a hostile value
// can have very many.
const maxIssues = 20

func flatten(e *jsonschema.ValidationError, s *jsonschema.Schema, issues *[]Issue) {
	if len(*issues) >= maxIssues {
		return
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing[:min(len(k.Missing), maxIssues)] {
			*issues = append(*issues, NewIssue(append(e.InstanceLocation, name), "is required"))
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties[:min(len(k.Properties), maxIssues)] {
			*issues = append(*issues, NewIssue(append(e.InstanceLocation, name), "is not known"+didYouMean(name, schemaAt(s, e.InstanceLocation))))
		}
	default:
		if len(e.Causes) == 0 {
			*issues = append(*issues, NewIssue(e.InstanceLocation, describe(e.ErrorKind)+suchAs(schemaAt(s, e.InstanceLocation))))
		}
	}
	for _, cause := range e.Causes {
		flatten(cause, s, issues)
	}
}

// NewIssue is an issue with the value that a path leads to.
func NewIssue(location []string, message string) Issue {
	return Issue{Path: cutText(pathOf(location), 200), Message: cutText(message, 1000), Steps: slices.Clone(location)}
}

// describe says what a value should be, in words that a model can act on.
func describe(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be %s, not %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		var words []string
		for _, w := range k.Want {
			words = append(words, string(mustMarshal(w)))
		}
		return "must be one of " + strings.Join(words, ", ")
	case *kind.Minimum:
		return "must be at least " + k.Want.RatString()
	case *kind.Maximum:
		return "must be at most " + k.Want.RatString()
	case *kind.Pattern:
		return "must match " + k.Want
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, not %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, not %d", k.Want, k.Got)
	}
	return k.LocalizedString(english)
}

// schemaAt follows a location of the value into the schema, and returns nil where the
// schema does not say.
func schemaAt(s *jsonschema.Schema, location []string) *jsonschema.Schema {
	for _, step := range location {
		next, ok := s.Properties[step]
		if !ok {
			if next, ok = s.AdditionalProperties.(*jsonschema.Schema); !ok {
				if next, ok = itemsOf(s); !ok {
					return nil
				}
			}
		}
		s = next
	}
	return s
}

// didYouMean names the property that an unknown one is probably a typo of.
func didYouMean(name string, s *jsonschema.Schema) string {
	if s == nil {
		return ""
	}
	known := make([]string, 0, len(s.Properties))
	for p := range s.Properties {
		known = append(known, p)
	}
	if best := Nearest(name, known); best != "" {
		return fmt.Sprintf(" (did you mean %s?)", best)
	}
	return ""
}

// suchAs names the schema's own examples of good values.
func suchAs(s *jsonschema.Schema) string {
	if s == nil || len(s.Examples) == 0 {
		return ""
	}
	var examples []string
	for _, e := range s.Examples[:min(3, len(s.Examples))] {
		text := fmt.Sprint(e)
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			if _, isText := e.(string); isText {
				text = strconv.Quote(text) // or it would be taken for a number
			}
		}
		examples = append(examples, text)
	}
	return ", such as " + strings.Join(examples, " or ")
}

// pathOf writes a location as people do: options.depth, items[2].name.
func pathOf(location []string) string {
	var b strings.Builder
	for _, step := range location {
		if _, err := strconv.Atoi(step); err == nil {
			b.WriteString("[" + step + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(step)
	}
	return b.String()
}
