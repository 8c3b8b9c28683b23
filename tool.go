package toolyard

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
)

// Spec defines a tool, except for its handler.
type Spec struct {
	Name        string // unique within its source
	Title       string // shown to people
	Description string // shown to the model
	Summary     string // shown in the catalog; defaults to Description
	Hint        string // additional advice on when to use the tool
	Category    string

	// Server is the ID of the MCP server that the tool comes from. Tools in Go and TypeScript have
	// none.
	Server string
	// Origin is where the tool is defined: a package, a file or a server. It is shown in problems
	// and in the catalog.
	Origin string
	// File is the file that the tool is reloaded from when it changes, if any.
	File string

	// Effects is ReadOnly for a tool that changes nothing. Gates in mode Read offer only such
	// tools.
	Effects Effects

	// Input and Output are JSON Schemas (2020-12). If they are nil, Define derives them from
	// its types. Results are checked against Output if it is set.
	Input, Output json.RawMessage

	Terms

	Meta map[string]json.RawMessage // sent to clients unchanged
	// Extra contains further members of the MCP definition, which are sent to clients unchanged:
	// annotations, icons, and members that Toolyard does not recognize.
	Extra map[string]json.RawMessage
}

// Terms are the part of a [Spec] that controls the use of the tool. The operator can override
// them.
type Terms struct {
	Limit Limit
	// Quotas are the operator's limits. They apply in addition to Limit, because their scopes
	// differ; see Limit.Per.
	Quotas    []Limit
	Price     Price
	Timeout   time.Duration // zero for the yard's default
	MaxArgs   int           // size of the arguments in bytes; zero for the yard's default
	MaxResult int           // size of the result in bytes; zero for the yard's default

	// Surface is where the tool is offered; empty means both.
	Surface Surface
	// HiddenFromAnswers excludes the tool from gates for answers (queryEligible: false).
	HiddenFromAnswers bool
	// Latency is the response time that callers can expect: instant, fast, slow or streaming. Empty
	// means slow.
	Latency string

	// Labels classify the data that the tool handles: private (it returns the caller's data),
	// untrusted (it returns text that strangers can write) and egress (it sends data out). Nil
	// means the source's default.
	Labels []string

	// Contexts lists the kinds of context that the platform injects into the arguments.
	Contexts []string
	// ContextArgs maps a kind of context to the argument that receives it: {"crm": "customer"}. A
	// kind with no entry follows the convention of [Terms.Injected].
	ContextArgs map[string]string
}

// Limit limits how often a tool can be called, and holds its author's advice. Zero means no
// limit.
type Limit struct {
	PerMinute   int
	Cooldown    time.Duration // minimum time between the starts of two calls
	Concurrency int
	Per         string   // "account" or "caller" if each one gets the full limit; empty if all callers share it
	Bulk        bool     // whether the tool accepts many items in one call
	BatchTools  []string // tools to use instead of many separate calls
	Notes       string
}

// Limited reports whether a limit is set.
func (l Limit) Limited() bool { return l.PerMinute > 0 || l.Cooldown > 0 || l.Concurrency > 0 }

// Surface is the purpose for which a tool is offered: composing answers, execution paid per call,
// or both.
type Surface string

// The surfaces. Empty means both.
const (
	Answer  Surface = "answer"
	Execute Surface = "execute"
)

// Price is the price of a call. The zero value declares no price, so the operator's default
// applies. If Set is true and USD is zero, calls are free.
type Price struct {
	Set    bool // whether USD is a price
	OptOut bool // whether the tool is never for sale
	USD    Money
	Query  Money // pricing.queryUsd, which is sent to clients but never charged
}

// Tool is a Spec with a handler. It is created by [Define] or [NewTool] and is immutable.
type Tool struct {
	Spec
	input, output *Schema
	shown         json.RawMessage // the input schema that callers see
	handler       Handler
	digest        [sha256.Size]byte
	declared      *Tool // the tool before With; nil if With was not used
}

// NewTool makes a tool from the schemas in spec and a handler for raw arguments. The call path
// validates the arguments against Input before the handler runs, and the result against Output.
func NewTool(spec Spec, h Handler) (*Tool, error) {
	if len(spec.Input) == 0 {
		spec.Input = json.RawMessage(`{"type":"object"}`)
	}
	input, err := spec.inputSchema()
	if err != nil {
		return nil, fmt.Errorf("tool %s: input schema: %w", spec.Name, err)
	}
	var output *Schema
	if len(spec.Output) > 0 {
		if output, err = compileSchema(spec.Output); err != nil {
			return nil, fmt.Errorf("tool %s: output schema: %w", spec.Name, err)
		}
	}
	return newTool(spec, input, output, h)
}

// openKeywords are the keywords that let a schema accept more than its listed properties.
var openKeywords = []string{
	"additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames",
	"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies",
}

// inputSchema compiles the input schema. If a local tool's schema lists properties and has none of
// the openKeywords, it gets "additionalProperties": false, so that a misspelled argument is
// refused, not ignored. MCP servers' schemas are not changed.
func (s *Spec) inputSchema() (*Schema, error) {
	list, _ := jsonobject.Members(s.Input)
	declared := make(map[string]json.RawMessage, len(list))
	for _, m := range list {
		declared[m.Key] = m.Value
	}
	properties, ok := jsonobject.Map(declared["properties"])
	for name := range s.Injected() {
		ok = ok && properties[name] != nil
	}
	for _, keyword := range openKeywords {
		ok = ok && declared[keyword] == nil
	}
	if !ok || s.Server != "" || !json.Valid(s.Input) {
		return compileSchema(s.Input)
	}
	return compileSchema(jsonobject.Join(append(list, jsonobject.Member{Key: "additionalProperties", Value: json.RawMessage("false")})))
}

func newTool(spec Spec, input, output *Schema, h Handler) (*Tool, error) {
	if err := spec.check(); err != nil {
		return nil, fmt.Errorf("tool %s: %w", spec.Name, err)
	}
	if !input.isObject {
		return nil, fmt.Errorf(`tool %s: input schema: the root must have "type": "object"`, spec.Name)
	}
	if h == nil {
		return nil, fmt.Errorf("tool %s: the handler is nil", spec.Name)
	}
	spec.Input = input.raw
	if output != nil {
		spec.Output = output.raw
	}
	t := &Tool{Spec: spec, input: input, output: output, handler: h, digest: spec.digest()}
	t.setCallerInput()
	return t, nil
}

func (s *Spec) check() error {
	if err := ident.CheckToolName(s.Name); err != nil {
		return err
	}
	if s.Server != "" {
		if err := ident.CheckServerID(s.Server); err != nil {
			return err
		}
	}
	if !slices.Contains([]Effects{"", ReadOnly, writes}, s.Effects) {
		return fmt.Errorf("unknown effects %.80q; use read or write", s.Effects)
	}
	if s.Server == "" && s.Category == ident.ExternalCategory {
		return fmt.Errorf("category %s is reserved for MCP server tools", ident.ExternalCategory)
	}
	if s.Server == "" {
		if err := s.checkMeta(); err != nil {
			return err
		}
	}
	if err := s.checkContexts(); err != nil {
		return err
	}
	if err := s.Limit.check(); err != nil {
		return err
	}
	if !slices.Contains([]Surface{"", Answer, Execute, ident.SurfaceBoth}, s.Surface) {
		return fmt.Errorf("unknown surface %q", s.Surface)
	}
	if s.Latency != "" && !slices.Contains(latencies, s.Latency) {
		return fmt.Errorf("unknown latency class %q", s.Latency)
	}
	for _, label := range s.Labels {
		if !slices.Contains([]string{"private", "untrusted", "egress"}, label) {
			return fmt.Errorf("unknown label %.80q; use private, untrusted or egress", label)
		}
	}
	for _, members := range []map[string]json.RawMessage{s.Meta, s.Extra} {
		for key, value := range members {
			if !json.Valid(value) {
				return fmt.Errorf("_meta.%s is not valid JSON", key)
			}
		}
	}
	return nil
}

// digest returns a hash of everything about the tool that a client can see.
func (s *Spec) digest() [sha256.Size]byte {
	h := sha256.New()
	enc := json.NewEncoder(h)
	_ = enc.Encode([]any{
		s.Server, s.Name, s.Title, s.Description, s.Summary, s.Hint, s.Category, s.Origin, s.File, s.Effects,
		s.Input, s.Output, s.AllMeta(), s.Surface, s.HiddenFromAnswers, s.Latency, s.Price, s.Limit, s.Extra, s.Timeout, s.MaxArgs, s.MaxResult,
	}) // writing to a hash never fails, and all values can be encoded
	return [sha256.Size]byte(h.Sum(nil))
}

// Digest identifies everything about the tool that a client can see. Tools with equal digests
// have equal definitions.
func (t *Tool) Digest() [sha256.Size]byte { return t.digest }

// With returns a copy of the tool with the terms changed by edit, or the tool itself if nothing
// changes.
func (t *Tool) With(edit func(*Terms)) *Tool {
	spec := t.Spec
	edit(&spec.Terms)
	if reflect.DeepEqual(spec, t.Spec) {
		return t
	}
	changed := *t
	changed.Spec, changed.digest, changed.declared = spec, spec.digest(), t.Declared()
	changed.setCallerInput()
	return &changed
}

// Declared returns the tool as its author defined it, before any [Tool.With].
func (t *Tool) Declared() *Tool {
	if t.declared != nil {
		return t.declared
	}
	return t
}

// Validate applies the input schema's defaults to args and validates the result. Empty arguments
// count as {}. It returns an Error with the code Invalid and a list of issues, or the error of ctx.
// Arguments that are too complex to validate are invalid.
func (t *Tool) Validate(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	args, issues, err := t.input.Complete(ctx, args)
	if err != nil {
		return nil, err
	}
	if len(issues) > 0 {
		return nil, &Error{Code: Invalid, Message: "Invalid arguments for " + t.Name, Issues: issues}
	}
	return args, nil
}

// writes is declared by a tool that changes something. It has the same effect as no declaration,
// but the metadata differs.
const writes Effects = "write"

// IsReadOnly reports whether the tool declares that it changes nothing.
func (s *Spec) IsReadOnly() bool { return s.Effects == ReadOnly }

// Modes returns the modes in which the tool declares that it can be called, or nil if it
// declares no effects.
func (s *Spec) Modes() []Mode {
	switch s.Effects {
	case ReadOnly:
		return []Mode{Read, Write}
	case writes:
		return []Mode{Write}
	}
	return nil
}

// AllowedIn reports whether the tool can be called in the mode.
func (t *Tool) AllowedIn(m Mode) bool { return m == Write || m == Read && t.IsReadOnly() }

// ResultOf converts the tool's return value like the function [ResultOf]. If the tool has an
// output schema, the value is structured data, even if it looks like content.
func (t *Tool) ResultOf(v any) (*Result, error) {
	if t.output != nil {
		return structuredResult(v)
	}
	return ResultOf(v)
}

// Run calls the tool's handler and checks the result. It applies no policy: it neither
// validates the arguments nor checks whether the caller may call the tool.
func (t *Tool) Run(ctx context.Context, c *Call) (*Result, error) {
	res, err := t.handler(ctx, c)
	if asks, ok := errors.AsType[*inputRequest](err); ok {
		return asks.result, nil
	}
	if err != nil {
		return nil, err
	}
	if res == nil {
		res = &Result{}
	}
	if err := res.check(); err != nil {
		return nil, &Error{Code: InvalidOutput, Message: "Cannot encode the result of " + t.Name + ": " + err.Error()}
	}
	if err := t.checkOutput(ctx, c, res); err != nil {
		return nil, err
	}
	return res, nil
}

// checkOutput validates a result against the output schema. It does not validate a result over the
// size limit.
func (t *Tool) checkOutput(ctx context.Context, c *Call, res *Result) error {
	if t.output == nil || res.IsError || res.unfinished {
		return nil
	}
	if c.MaxResult > 0 && len(res.Structured) > c.MaxResult {
		return Errorf(ResultTooLarge, "The tool ran, but its result is %d bytes; the limit is %d.", res.Size(), c.MaxResult)
	}
	issues := []Issue{{Message: "the structured content is missing"}}
	if len(res.Structured) > 0 {
		var err error
		if issues, err = t.output.Check(ctx, res.Structured); err != nil {
			return err
		}
	}
	if len(issues) > 0 {
		return &Error{Code: InvalidOutput, Message: "The result of " + t.Name + " does not match its output schema", Issues: issues}
	}
	return nil
}
