package toolyard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Terms are what an operator says of a tool beside what the tool declares.
type Terms struct {
	Limit   Limit   // of two limits the stricter counts
	Price   Price   // if it is set or opts out, it counts instead of the tool's
	Default Price   // fills a gap: a tool that says nothing about its price
	Surface Surface // empty for the tool's own
	Hidden  *bool   // nil for the tool's own
	Latency Latency // empty for the tool's own

	Contexts    []string          // nil for the tool's own
	ContextArgs map[string]string // of Contexts; see [Spec]
}

// With is the tool under the terms: itself when nothing changes, otherwise a copy whose
// Spec is what counts.
func (t *Tool) With(terms Terms) *Tool {
	spec := t.Spec
	spec.Limit = t.Limit.Stricter(terms.Limit)
	spec.Surface = cmp.Or(terms.Surface, t.Surface)
	spec.Latency = cmp.Or(terms.Latency, t.Latency)
	if terms.Hidden != nil {
		spec.Hidden = *terms.Hidden
	}
	spec.Price = terms.price(&spec)
	if terms.Contexts != nil {
		spec.Contexts, spec.ContextArgs = terms.Contexts, terms.ContextArgs
	}
	if reflect.DeepEqual(spec, t.Spec) {
		return t
	}
	under := *t
	under.Spec, under.digest, under.declared = spec, spec.digest(), t.Declared()
	under.setCallerInput()
	return &under
}

// price is what a call costs under the terms. A default is not for a tool that is for
// answers only: no price counts there.
func (t Terms) price(s *Spec) Price {
	p := s.Price
	switch {
	case t.Price.said():
		p = t.Price
	case !p.said() && s.Surface != Answer:
		p = t.Default
	}
	p.Query = s.Price.Query
	return p
}

// said reports whether anybody has said something about the price.
func (p Price) said() bool { return p.Set || p.OptOut }

func (p Price) forSale() bool { return p.Set && !p.OptOut }

// Declared is the tool as its author made it, without any terms.
func (t *Tool) Declared() *Tool {
	if t.declared != nil {
		return t.declared
	}
	return t
}

// Stricter is a limit that keeps both. Advice is that of the first, and of the other where
// the first gives none.
func (l Limit) Stricter(other Limit) Limit {
	l.PerMinute = fewer(l.PerMinute, other.PerMinute)
	l.Concurrency = fewer(l.Concurrency, other.Concurrency)
	l.Cooldown = max(l.Cooldown, other.Cooldown)
	l.Bulk = l.Bulk || other.Bulk
	if len(l.BatchTools) == 0 {
		l.BatchTools = other.BatchTools
	}
	l.Notes = cmp.Or(l.Notes, other.Notes)
	return l
}

// fewer is the smaller of two numbers of calls; zero is no limit.
func fewer(a, b int) int {
	if a <= 0 || (b > 0 && b < a) {
		return b
	}
	return a
}

// Effective is what counts for a tool when all that nobody said is filled in.
type Effective struct {
	Surface         Surface        `json:"surface"`
	QueryEligible   bool           `json:"queryEligible"`
	Latency         Latency        `json:"latencyClass"`
	ExecuteEligible bool           `json:"executeEligible"`
	ExecuteUSD      *Money         `json:"executePriceUsd,omitempty"` // nil for a tool that is not for sale
	RateLimit       map[string]any `json:"rateLimit,omitempty"`       // in the form that tools publish it
}

// Effective is what counts for the tool. A tool that says nothing is for both surfaces, may
// be part of answers and is slow.
func (s *Spec) Effective() Effective {
	e := Effective{
		Surface: cmp.Or(s.Surface, Both), QueryEligible: !s.Hidden, Latency: cmp.Or(s.Latency, Slow),
		ExecuteEligible: s.eligible(Execute), RateLimit: s.Limit.meta(),
	}
	if usd := s.Price.USD; s.Price.forSale() {
		e.ExecuteUSD = &usd
	}
	return e
}

// Contradictions are the faults of what a tool says of itself: that nobody can reach it, a
// price that does not count, a context that has no place among its arguments.
func (s *Spec) Contradictions() (faults []string) {
	answer, execute := s.unfit(Answer), s.unfit(Execute)
	switch {
	case answer != "" && execute != "":
		faults = append(faults, "neither answers nor execution can use it: "+answer+", and "+execute)
	case s.Surface == Answer && s.Price.forSale():
		faults = append(faults, "it has a price, but it is for answers only, where no price counts")
	case s.Surface == Execute && !s.Hidden:
		faults = append(faults, "it is for execution only, but queryEligible is not false")
	}
	injected := s.Injected()
	for _, name := range slices.Sorted(maps.Keys(injected)) {
		if !declares(s.Input, name) {
			faults = append(faults, fmt.Sprintf("it needs the context %s, but its input schema does not declare the argument %s", injected[name], name))
		}
	}
	return faults
}

// declares reports whether a schema has a property, or might have it from a schema that it
// is composed of.
func declares(schema json.RawMessage, name string) bool {
	root, _ := members(schema)
	properties, _ := members(root["properties"])
	composed := slices.ContainsFunc([]string{"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf"}, func(key string) bool { return root[key] != nil })
	return properties[name] != nil || composed
}

// Provider hands over what a kind of context means for a caller: data, never credentials.
type ContextProvider interface {
	// Provide returns a JSON object. An error of type *Error goes to the caller as it is,
	// any other becomes Unavailable.
	Provide(ctx context.Context, caller Caller, asOf time.Time) (json.RawMessage, error)
}

// Injected returns the arguments that the platform fills in, each with the kind of context that
// it receives. ContextArgs names them. For other kinds the published convention applies:
// portfolio for one kind, KINDPortfolio for each of several.
func (s *Spec) Injected() map[string]string {
	if len(s.Contexts) == 0 {
		return nil
	}
	injected := make(map[string]string, len(s.Contexts))
	for _, kind := range s.contextKinds() {
		injected[s.contextArgument(kind)] = kind
	}
	return injected
}

// contextKinds returns the kinds of context that the tool requires, sorted, each once.
func (s *Spec) contextKinds() []string {
	return slices.Compact(slices.Sorted(slices.Values(s.Contexts)))
}

// contextArgument returns the argument that receives a kind of context.
func (s *Spec) contextArgument(kind string) string {
	if argument := s.ContextArgs[kind]; argument != "" {
		return argument
	}
	for _, other := range s.Contexts {
		if other != kind && s.ContextArgs[other] == "" {
			return kind + "Portfolio"
		}
	}
	return "portfolio"
}

// CallerInput returns the input schema for callers: without the injected arguments.
func (t *Tool) CallerInput() json.RawMessage { return t.shown }

func (t *Tool) setCallerInput() {
	t.shown = t.Input
	if injected := t.Injected(); len(injected) > 0 {
		t.shown = withoutProperties(t.Input, injected)
	}
}

// withoutProperties is a schema for objects as they are before the named properties are
// added: what it accepts, the schema accepts with good values for them. Definitions that it
// refers to are left as they are.
func withoutProperties(schema json.RawMessage, names map[string]string) json.RawMessage {
	list, ok := orderedMembers(schema)
	if !ok {
		return schema // true or false
	}
	h := hiding{names: names}
	kept := make([]member, 0, len(list))
	for _, m := range list {
		if m.value = h.keyword(m.key, m.value); m.value != nil {
			kept = append(kept, m)
		}
	}
	return appendObject(h.conclude(kept))
}

// hiding takes properties out of one schema.
type hiding struct {
	names    map[string]string
	required []string          // what a hidden property requires, since it will be there
	all      []json.RawMessage // schemas that count because a hidden property will be there
}

// keyword is the value of a keyword as it should be shown; nil for none.
func (h *hiding) keyword(key string, value json.RawMessage) json.RawMessage {
	switch key {
	case "properties":
		return h.properties(value)
	case "required":
		return h.shownNames(value)
	case "dependentRequired", "dependentSchemas", "dependencies":
		return h.dependencies(value)
	case "minProperties", "maxProperties":
		var n float64
		if json.Unmarshal(value, &n) == nil {
			return json.RawMessage(strconv.FormatFloat(max(0, n-float64(len(h.names))), 'f', -1, 64))
		}
	case "allOf", "anyOf", "oneOf":
		var parts []json.RawMessage
		if json.Unmarshal(value, &parts) == nil {
			for i := range parts {
				parts[i] = withoutProperties(parts[i], h.names)
			}
			return mustMarshal(parts)
		}
	case "if", "then", "else", "not":
		return withoutProperties(value, h.names)
	}
	return value
}

func (h *hiding) properties(value json.RawMessage) json.RawMessage {
	list, ok := orderedMembers(value)
	if !ok {
		return value
	}
	return appendObject(slices.DeleteFunc(list, func(m member) bool { return h.hides(m.key) }))
}

func (h *hiding) hides(name string) bool {
	_, hidden := h.names[name]
	return hidden
}

// shownNames are the names of a list that are not hidden; nil for none.
func (h *hiding) shownNames(value json.RawMessage) json.RawMessage {
	var names []string
	if json.Unmarshal(value, &names) != nil {
		return value
	}
	if names = slices.DeleteFunc(names, h.hides); len(names) == 0 {
		return nil
	}
	return mustMarshal(names)
}

// dependencies are what properties require when they are there. What a hidden one requires
// is always required.
func (h *hiding) dependencies(value json.RawMessage) json.RawMessage {
	list, ok := orderedMembers(value)
	if !ok {
		return value
	}
	var kept []member
	for _, m := range list {
		isList := kindOf(m.value) == '['
		if isList {
			m.value = h.shownNames(m.value)
		} else {
			m.value = withoutProperties(m.value, h.names)
		}
		switch {
		case m.value == nil:
		case !h.hides(m.key):
			kept = append(kept, m)
		case isList:
			var names []string
			_ = json.Unmarshal(m.value, &names) // it was written by shownNames, or adds nothing
			h.required = append(h.required, names...)
		default:
			h.all = append(h.all, m.value)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return appendObject(kept)
}

// conclude adds what the hidden properties require to the keywords of the schema.
func (h *hiding) conclude(keywords []member) []member {
	if len(h.required) > 0 {
		var names []string
		keywords = change(keywords, "required", func(old json.RawMessage) json.RawMessage {
			_ = json.Unmarshal(old, &names) // nothing, or a list that was checked
			names = append(names, h.required...)
			slices.Sort(names)
			return mustMarshal(slices.Compact(names))
		})
	}
	if len(h.all) > 0 {
		var parts []json.RawMessage
		keywords = change(keywords, "allOf", func(old json.RawMessage) json.RawMessage {
			_ = json.Unmarshal(old, &parts) // nothing, or a list that was checked
			return mustMarshal(append(parts, h.all...))
		})
	}
	return keywords
}

// member is a member of a JSON object.
type member struct {
	key   string
	value json.RawMessage
}

// change replaces the value of a member, or adds it.
func change(list []member, key string, to func(old json.RawMessage) json.RawMessage) []member {
	i := slices.IndexFunc(list, func(m member) bool { return m.key == key })
	if i < 0 {
		return append(list, member{key, to(nil)})
	}
	list[i].value = to(list[i].value)
	return list
}

// orderedMembers are the members of a JSON object in their order.
func orderedMembers(raw json.RawMessage) (list []member, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, false
		}
		m := member{key: key.(string)} // or it were no JSON
		if err := dec.Decode(&m.value); err != nil {
			return nil, false
		}
		list = append(list, m)
	}
	return list, true
}

func appendObject(list []member) json.RawMessage {
	b := []byte{'{'}
	for i, m := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(AppendJSONString(b, m.key), ':'), m.value...)
	}
	return append(b, '}')
}

// Bounds on what strangers have us tell a model.
const (
	maxBatchTools = 20
	maxNotes      = 500 // characters
)

// Guidance says in words how the tool should be called; nothing if there is nothing to say.
func (l Limit) Guidance() string {
	var parts []string
	if limits := l.words(); limits != "" {
		parts = append(parts, "Limits: "+limits+".")
	}
	if l.Bulk {
		parts = append(parts, "It takes many items in one call.")
	}
	if names := l.batchNames(); len(names) > 0 {
		parts = append(parts, "Instead of many single calls use "+strings.Join(names, ", ")+".")
	}
	if notes := strings.Join(strings.Fields(l.Notes), " "); notes != "" {
		parts = append(parts, "Note: "+untrusted.TruncateRunes(notes, maxNotes))
	}
	return strings.Join(parts, " ")
}

func (l Limit) words() string {
	var words []string
	if l.PerMinute > 0 {
		words = append(words, fmt.Sprintf("at most %d calls in a minute", l.PerMinute))
	}
	if l.Cooldown > 0 {
		words = append(words, fmt.Sprintf("%v from one call to the next", l.Cooldown))
	}
	if l.Concurrency > 0 {
		words = append(words, fmt.Sprintf("at most %d at once", l.Concurrency))
	}
	return strings.Join(words, ", ")
}

// batchNames are the recommended tools whose names can be those of tools.
func (l Limit) batchNames() (names []string) {
	for _, name := range l.BatchTools[:min(len(l.BatchTools), maxBatchTools)] {
		if checkToolName(name) == nil {
			names = append(names, name)
		}
	}
	return names
}
