package toolyard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
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
	c := completion{left: maxSteps}
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

// maxSteps bounds the work of one completion, since a schema may refer to itself.
const maxSteps = 10_000

// completion walks over a value beside its schema and fills in what is missing.
type completion struct {
	left    int
	path    []string       // where it is
	seen    map[visit]bool // references that are being followed
	changed bool
	issues  []Issue
}

// visit is a schema at a depth of the value.
type visit struct {
	schema *jsonschema.Schema
	depth  int
}

// visit returns v with what s adds to it.
func (c *completion) visit(s *jsonschema.Schema, v any) any {
	if c.left--; s == nil || c.left <= 0 {
		return v
	}
	if s.Ref != nil || len(s.AllOf) > 0 {
		at := visit{s, len(c.path)}
		if c.seen[at] { // it refers to itself for the same value
			return v
		}
		if c.seen == nil {
			c.seen = make(map[visit]bool)
		}
		c.seen[at] = true
		defer delete(c.seen, at)
		v = c.visit(s.Ref, v)
		for _, sub := range s.AllOf {
			v = c.visit(sub, v)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		c.object(s, v)
	case []any:
		if items, ok := itemsOf(s); ok {
			for i := range v {
				v[i] = c.step(items, v[i], strconv.Itoa(i))
			}
		}
	case json.Number:
		if whole, ok := wholeNumber(s, v); ok {
			c.changed = true
			return whole
		}
	}
	return v
}

// step visits a part of a value.
func (c *completion) step(s *jsonschema.Schema, v any, name string) any {
	c.path = append(c.path, name)
	v = c.visit(s, v)
	c.path = c.path[:len(c.path)-1]
	return v
}

func (c *completion) object(s *jsonschema.Schema, v map[string]any) {
	for name, property := range s.Properties {
		if c.left--; c.left <= 0 {
			return
		}
		if _, ok := v[name]; !ok {
			d := defaultOf(property)
			if d == nil {
				continue
			}
			v[name], c.changed = clone(*d), true
		}
		v[name] = c.step(property, v[name], name)
	}
	rest, open := s.AdditionalProperties.(*jsonschema.Schema)
	if s.AdditionalProperties == false {
		return // the validator refuses what is not known
	}
	for name := range v {
		if _, known := s.Properties[name]; known {
			continue
		}
		if twin := foldedTwin(name, s.Properties); twin != "" && len(c.issues) < maxIssues {
			c.issues = append(c.issues, issueAt(append(slices.Clone(c.path), name), "is not known (did you mean "+twin+"?)"))
		}
		if open {
			v[name] = c.step(rest, v[name], name)
		}
	}
}

// foldedTwin is the property that a careless reader would take name for: Go's own decoder
// does not mind the case of keys.
func foldedTwin(name string, properties map[string]*jsonschema.Schema) string {
	for p := range properties {
		if strings.EqualFold(p, name) {
			return p
		}
	}
	return ""
}

// wholeNumber writes 5.0 and 5e0 as 5 where the schema wants an integer.
func wholeNumber(s *jsonschema.Schema, n json.Number) (json.Number, bool) {
	if !strings.ContainsAny(n.String(), ".eE") || s.Types == nil || !slices.Contains(s.Types.ToStrings(), "integer") {
		return "", false
	}
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return "", false
	}
	return json.Number(strconv.FormatInt(int64(f), 10)), true
}

// defaultOf is the default of a schema, or of what it refers to.
func defaultOf(s *jsonschema.Schema) *any {
	for range 10 {
		switch {
		case s == nil:
			return nil
		case s.Default != nil:
			return s.Default
		}
		s = s.Ref
	}
	return nil
}

// clone copies a default, so that filling in one call's arguments never changes the
// schema's own.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = clone(e)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = clone(e)
		}
		return l
	}
	return v
}

func itemsOf(s *jsonschema.Schema) (*jsonschema.Schema, bool) {
	if s.Items2020 != nil {
		return s.Items2020, true
	}
	items, ok := s.Items.(*jsonschema.Schema)
	return items, ok
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
			*issues = append(*issues, issueAt(append(e.InstanceLocation, name), "is required"))
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties[:min(len(k.Properties), maxIssues)] {
			*issues = append(*issues, issueAt(append(e.InstanceLocation, name), "is not known"+didYouMean(name, schemaAt(s, e.InstanceLocation))))
		}
	default:
		if len(e.Causes) == 0 {
			*issues = append(*issues, issueAt(e.InstanceLocation, describe(e.ErrorKind)+suchAs(schemaAt(s, e.InstanceLocation))))
		}
	}
	for _, cause := range e.Causes {
		flatten(cause, s, issues)
	}
}

func issueAt(location []string, message string) Issue {
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

// suchAs names the schema's own example of a good value.
func suchAs(s *jsonschema.Schema) string {
	if s == nil || len(s.Examples) == 0 {
		return ""
	}
	return fmt.Sprintf(", such as %v", s.Examples[0])
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

// Nearest returns the word that name is probably a misspelling of: the closest one,
// if no more than a third of its letters differ. It returns "" when none is close.
func Nearest(name string, words []string) string {
	if len(name) > maxToolName {
		return ""
	}
	best, bestDistance := "", len(name)/3+1
	for _, w := range slices.Sorted(slices.Values(words)) {
		if d := distance(strings.ToLower(name), strings.ToLower(w)); d < bestDistance || d == 0 {
			best, bestDistance = w, d
		}
	}
	return best
}

// distance is the number of letters to add, drop, change or swap to get from a to b.
func distance(a, b string) int {
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(prev[j]+cost, prev[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}
