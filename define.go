package toolyard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// Define makes a tool from a typed function. In is a struct; its JSON Schema is
// derived once from its fields and their tags, and is the validator, the manifest
// and the documentation:
//
//	type args struct {
//		Symbol   string  `json:"symbol" doc:"Perp symbol, such as BTC"`
//		Interval string  `json:"interval" enum:"1m,5m,1h"`
//		Lookback int     `json:"lookback" minimum:"1" maximum:"500" default:"100"`
//		Window   *window `json:"window"`
//	}
//
// The tags are doc and the schema keywords default, enum, minimum, maximum,
// exclusiveMinimum, exclusiveMaximum, multipleOf, minLength, maxLength, pattern,
// format, minItems, maxItems, uniqueItems. A field is required unless it is a
// pointer, has a default, or says omitempty or omitzero. Unknown arguments are
// refused. A type with a JSONSchema() json.RawMessage method speaks for itself.
//
// Out is anything that [ResultOf] takes. A struct, map or list also gives the tool an
// output schema, which every result must meet, and is always data: it is not mistaken for
// content, and what is nil in it is null.
//
// Define panics when the types or the Spec cannot make a tool: that is a mistake in
// the program, and it should not start.
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
	if spec.Output != nil || promises(out) {
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
		case output != nil && promises(reflect.TypeFor[Out]()):
			return StructuredResult(out)
		}
		return ResultOf(out)
	})
	if err != nil {
		panic("toolyard.Define: " + err.Error())
	}
	return t
}

// inputSchemaOr is the schema of the Spec, or the type's own.
func (s *Spec) inputSchemaOr(t reflect.Type) (*Schema, error) {
	if s.Input != nil {
		return s.inputSchema()
	}
	return schemaOf(t, false)
}

func (s *Spec) outputSchemaOr(t reflect.Type) (*Schema, error) {
	if s.Output != nil {
		return NewSchema(s.Output)
	}
	return schemaOf(t, true)
}

// decodeIssue says what a Go type refuses although the schema does not: a number that is
// too large for it, mostly.
func decodeIssue(err error) Issue {
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return Issue{Path: te.Field, Message: "does not fit: " + te.Value}
	}
	return Issue{Message: err.Error()}
}

// promises reports whether a result type has a shape worth a schema. Text, content
// and whole results do not.
func promises(out reflect.Type) bool {
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
