package toolyard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/trust/jsonschema"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Schema is a JSON Schema (2020-12, or what its $schema says) that is ready for use: it
// validates JSON values and fills in their defaults, with a bounded amount of work.
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

// NewSchema compiles a schema. It fails when the schema is not valid, refers to another
// document, or is larger than any tool needs.
func NewSchema(raw json.RawMessage) (*Schema, error) {
	compiled, err := jsonschema.Compile(raw)
	if err != nil {
		return nil, err
	}
	o, _ := jsonobject.Map(raw)
	return &Schema{raw: raw, compiled: compiled, isObject: string(o["type"]) == `"object"`}, nil
}

// Complete returns the value with its defaults filled in and its whole numbers written
// as such (5.0 is 5), or what is wrong with it. A value that lacks nothing keeps its bytes.
// The work is bounded; a value that needs more is refused with an issue that names the
// limit. The error is that of ctx, when it ends first.
func (s *Schema) Complete(ctx context.Context, value json.RawMessage) (json.RawMessage, []Issue, error) {
	completed, found, err := s.compiled.Complete(ctx, value)
	issues, err := issuesOf(found, err)
	return completed, issues, err
}

// Check returns what is wrong with a value, within the same bounds as [Schema.Complete].
func (s *Schema) Check(ctx context.Context, raw json.RawMessage) ([]Issue, error) {
	return issuesOf(s.compiled.Validate(ctx, raw))
}

// issuesOf makes issues of what a validation found. An error of the value or of the budget
// is an issue, too; one of the context is not.
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
		issues = append(issues, NewIssue(f.Path, message))
	}
	slices.SortStableFunc(issues, func(a, b Issue) int { return cmp.Compare(a.Path, b.Path) })
	return slices.CompactFunc(issues, func(a, b Issue) bool { return a.Path == b.Path && a.Message == b.Message }), nil
}

// maxCompared is how many letters of names are compared to find a typo of one name. Both are
// a stranger's, and this is outside the budget of the validation.
const maxCompared = 20_000

// didYouMean names the property that an unknown one is probably a typo of.
func didYouMean(name string, known []string) string {
	letters := 0
	for _, k := range known {
		letters += len(k)
	}
	if letters > maxCompared || len(name) > 64 {
		return ""
	}
	if best := spelling.Nearest(name, known); best != "" {
		return fmt.Sprintf(" (did you mean %s?)", best)
	}
	return ""
}

// NewIssue is an issue with the value that a path leads to.
func NewIssue(location []string, message string) Issue {
	return Issue{Path: untrusted.Prefix(pathOf(location), 200), Message: untrusted.Prefix(message, 1000), Location: slices.Clone(location)}
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
