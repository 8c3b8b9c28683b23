package toolyard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/trust/jsonschema"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Schema is a compiled JSON Schema (2020-12, unless $schema declares another draft). It validates
// JSON values and fills in their defaults, with a bounded amount of work.
type Schema struct {
	raw      json.RawMessage
	compiled *jsonschema.Schema
	isObject bool // whether the root has "type": "object"
}

// SchemaFor derives the schema of a Go type, as [Define] does for arguments. It panics if the
// type has no schema.
func SchemaFor[T any]() *Schema {
	s, err := schemaOf(reflect.TypeFor[T](), false)
	if err != nil {
		panic("toolyard.SchemaFor: " + err.Error())
	}
	return s
}

// derived caches the schemas of Go types.
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
	s, err := compileSchema(raw)
	if err == nil {
		derived.Store(key, s)
	}
	return s, err
}

// JSON returns the source of the schema.
func (s *Schema) JSON() json.RawMessage { return s.raw }

// UnmarshalJSON compiles a schema. It returns an error if the schema is invalid, refers to another
// document or is too large.
func (s *Schema) UnmarshalJSON(raw []byte) error {
	compiled, err := compileSchema(slices.Clone(raw))
	if err == nil {
		*s = *compiled
	}
	return err
}

func compileSchema(raw json.RawMessage) (*Schema, error) {
	compiled, err := jsonschema.Compile(raw)
	if err != nil {
		return nil, err
	}
	o, _ := jsonobject.Map(raw)
	return &Schema{raw: raw, compiled: compiled, isObject: string(o["type"]) == `"object"`}, nil
}

// Complete returns the value with its defaults set and its integers normalized (5.0 becomes 5), or
// the issues if it is invalid. It returns the same bytes if nothing changes. A value that takes too
// much work to validate is invalid, with an issue that states the limit. The only possible error is
// that of ctx.
func (s *Schema) Complete(ctx context.Context, value json.RawMessage) (json.RawMessage, []Issue, error) {
	completed, found, err := s.compiled.Complete(ctx, value)
	issues, err := issuesOf(found, err)
	return completed, issues, err
}

// Check returns a value's issues, within the same limits as [Schema.Complete].
func (s *Schema) Check(ctx context.Context, raw json.RawMessage) ([]Issue, error) {
	return issuesOf(s.compiled.Validate(ctx, raw))
}

// issuesOf converts the outcome of a validation. A syntax error or an exhausted budget becomes an
// issue; a context error does not.
func issuesOf(found []jsonschema.Issue, err error) ([]Issue, error) {
	if syntax, ok := errors.AsType[*jsonschema.SyntaxError](err); ok {
		return []Issue{{Message: syntax.Error()}}, nil
	}
	if limit, ok := errors.AsType[*jsonschema.LimitError](err); ok {
		return []Issue{{Message: limit.Error()}}, nil
	}
	if err != nil || len(found) == 0 {
		return nil, err
	}
	issues := make([]Issue, 0, len(found))
	for _, f := range found {
		message := f.Message
		if len(f.Examples) > 0 {
			message += ", such as " + strings.Join(f.Examples, " or ")
		}
		if f.Unknown {
			message += didYouMean(f.Path[len(f.Path)-1], f.Known)
		}
		issues = append(issues, newIssue(f.Path, message))
	}
	slices.SortStableFunc(issues, func(a, b Issue) int { return cmp.Compare(a.Path, b.Path) })
	return slices.CompactFunc(issues, func(a, b Issue) bool { return a.Path == b.Path && a.Message == b.Message }), nil
}

// maxCompared limits how many letters are compared to find a misspelled name. Both names are
// untrusted, and the budget of the validation does not cover the comparison.
const maxCompared = 20_000

// didYouMean suggests the property that an unknown one is probably a misspelling of.
func didYouMean(name string, known []string) string {
	letters := 0
	for _, k := range known {
		letters += len(k)
	}
	if letters > maxCompared || len(name) > 64 {
		return ""
	}
	return spelling.DidYouMean(name, known)
}

// newIssue returns an issue for the value at a location.
func newIssue(location []string, message string) Issue {
	return Issue{Path: untrusted.Prefix(jsonschema.FormatPath(location), 200), Message: untrusted.Prefix(message, 1000), Location: slices.Clone(location)}
}
