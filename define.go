package toolyard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// Define makes a tool from a typed function. In is a struct. Its JSON Schema is derived from its
// fields and their tags; it validates calls and documents the tool:
//
//	type args struct {
//		Symbol   string  `json:"symbol" doc:"Perp symbol, such as BTC"`
//		Interval string  `json:"interval" enum:"1m,5m,1h"`
//		Lookback int     `json:"lookback" minimum:"1" maximum:"500" default:"100"`
//		Window   *window `json:"window"`
//	}
//
// The tags are doc and the schema keywords default, enum, minimum, maximum, exclusiveMinimum,
// exclusiveMaximum, multipleOf, minLength, maxLength, pattern, format, minItems, maxItems,
// uniqueItems. A field is required unless it is a pointer, has a default, or has omitempty or
// omitzero. Unknown arguments are refused. A type with a JSONSchema() json.RawMessage method
// supplies its own schema.
//
// Out is any type that [ResultOf] accepts. A struct, map or slice also gives the tool an output
// schema, which every result must match. The value is always structured data, even if it looks like
// content, and its nil values become null.
//
// Define panics if the types or the Spec are invalid, because that is a bug in the program.
func Define[In, Out any](spec Spec, fn func(context.Context, *Call, In) (Out, error)) *Tool {
	in, out := reflect.TypeFor[In](), reflect.TypeFor[Out]()
	if in.Kind() != reflect.Struct && in.Kind() != reflect.Map {
		panic(fmt.Sprintf("toolyard.Define %s: arguments must be a struct, not %v", spec.Name, in))
	}
	input, err := spec.inputSchemaOr(in)
	if err != nil {
		panic(fmt.Sprintf("toolyard.Define %s: arguments: %v", spec.Name, err))
	}
	var output *Schema
	if spec.Output != nil || hasSchema(out) {
		if output, err = spec.outputSchemaOr(out); err != nil {
			panic(fmt.Sprintf("toolyard.Define %s: result: %v", spec.Name, err))
		}
	}
	t, err := newTool(spec, input, output, func(ctx context.Context, c *Call) (*Result, error) {
		var in In
		if err := json.Unmarshal(c.Args, &in); err != nil {
			return nil, &Error{Code: Invalid, Message: "Invalid arguments for " + spec.Name, Issues: []Issue{decodeIssue(err)}}
		}
		out, err := fn(ctx, c, in)
		switch {
		case err != nil:
			return nil, err
		case output != nil && hasSchema(reflect.TypeFor[Out]()):
			return structuredResult(out)
		}
		return ResultOf(out)
	})
	if err != nil {
		panic("toolyard.Define: " + err.Error())
	}
	return t
}

// inputSchemaOr returns the Spec's input schema or, if that is not set, the schema derived from t.
func (s *Spec) inputSchemaOr(t reflect.Type) (*Schema, error) {
	if s.Input != nil {
		return s.inputSchema()
	}
	return schemaOf(t, false)
}

func (s *Spec) outputSchemaOr(t reflect.Type) (*Schema, error) {
	if s.Output != nil {
		return compileSchema(s.Output)
	}
	return schemaOf(t, true)
}

// decodeIssue describes a value that the schema accepts but the Go type does not, such as a number
// that is too large.
func decodeIssue(err error) Issue {
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return Issue{Path: te.Field, Message: "does not match the type: " + te.Value}
	}
	return Issue{Message: err.Error()}
}

// hasSchema reports whether a result type gets an output schema. Text, content and whole
// results do not.
func hasSchema(out reflect.Type) bool {
	if slices.Contains([]reflect.Type{
		reflect.TypeFor[*Result](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[[]Content](),
	}, out) {
		return false
	}
	if out.Implements(reflect.TypeFor[Content]()) || out.Implements(reflect.TypeFor[error]()) {
		return false
	}
	if out.Kind() == reflect.Pointer {
		out = out.Elem()
	}
	switch out.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array:
		return true
	}
	return false
}
