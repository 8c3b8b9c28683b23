package toolyard

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
)

// ContextProvider returns data about a caller, such as a CRM record or a portfolio. It must not
// return credentials.
type ContextProvider interface {
	// Provide returns a JSON object. An error of type *Error is sent to the caller unchanged; any
	// other error becomes Unavailable.
	Provide(ctx context.Context, caller Caller, asOf time.Time) (json.RawMessage, error)
}

// Injected returns the arguments that the platform fills in, each with the kind of context that it
// receives. Their names are taken from ContextArgs. Kinds with no entry follow the published
// convention: portfolio for a single kind, KINDPortfolio for each of several.
func (t *Terms) Injected() map[string]string {
	if len(t.Contexts) == 0 {
		return nil
	}
	injected := make(map[string]string, len(t.Contexts))
	for _, kind := range t.contextKinds() {
		injected[t.contextArgument(kind)] = kind
	}
	return injected
}

// contextKinds returns the kinds of context that the tool requires, sorted and without duplicates.
func (t *Terms) contextKinds() []string {
	return slices.Compact(slices.Sorted(slices.Values(t.Contexts)))
}

// contextArgument returns the argument that receives a kind of context.
func (t *Terms) contextArgument(kind string) string {
	if argument := t.ContextArgs[kind]; argument != "" {
		return argument
	}
	for _, other := range t.Contexts {
		if other != kind && t.ContextArgs[other] == "" {
			return kind + "Portfolio"
		}
	}
	return "portfolio"
}

// CallerInput returns the input schema that callers see, which omits the injected arguments.
func (t *Tool) CallerInput() json.RawMessage { return t.shown }

func (t *Tool) setCallerInput() {
	t.shown = t.Input
	if injected := t.Injected(); len(injected) > 0 {
		t.shown = withoutProperties(t.Input, injected)
	}
}

// withoutProperties returns a schema for arguments before the named properties are injected:
// arguments that it accepts satisfy the original schema once valid values are added. It does
// not change definitions that the schema refers to.
func withoutProperties(schema json.RawMessage, names map[string]string) json.RawMessage {
	list, ok := jsonobject.Members(schema)
	if !ok {
		return schema // the schema is true or false
	}
	r := propertyRemover{names: names}
	kept := make([]jsonobject.Member, 0, len(list))
	for _, m := range list {
		if m.Value = r.keyword(m.Key, m.Value); m.Value != nil {
			kept = append(kept, m)
		}
	}
	return jsonobject.Join(r.finish(kept))
}

// propertyRemover removes properties from one schema.
type propertyRemover struct {
	names    map[string]string
	required []string          // dependencies of the hidden properties
	all      []json.RawMessage // dependent schemas of the hidden properties
}

// keyword removes the hidden properties from a keyword's value. It returns nil if the keyword must
// be dropped.
func (r *propertyRemover) keyword(key string, value json.RawMessage) json.RawMessage {
	switch key {
	case "properties":
		return r.properties(value)
	case "required":
		return r.visibleNames(value)
	case "dependentRequired", "dependentSchemas", "dependencies":
		return r.dependencies(value)
	case "minProperties", "maxProperties":
		var n float64
		if json.Unmarshal(value, &n) == nil {
			return json.RawMessage(strconv.FormatFloat(max(0, n-float64(len(r.names))), 'f', -1, 64))
		}
	case "allOf", "anyOf", "oneOf":
		var parts []json.RawMessage
		if json.Unmarshal(value, &parts) == nil {
			for i := range parts {
				parts[i] = withoutProperties(parts[i], r.names)
			}
			return mustMarshal(parts)
		}
	case "if", "then", "else", "not":
		return withoutProperties(value, r.names)
	}
	return value
}

func (r *propertyRemover) properties(value json.RawMessage) json.RawMessage {
	list, ok := jsonobject.Members(value)
	if !ok {
		return value
	}
	return jsonobject.Join(slices.DeleteFunc(list, func(m jsonobject.Member) bool { return r.hides(m.Key) }))
}

func (r *propertyRemover) hides(name string) bool {
	_, hidden := r.names[name]
	return hidden
}

// visibleNames returns the names in a list that are not hidden, or nil if there are none.
func (r *propertyRemover) visibleNames(value json.RawMessage) json.RawMessage {
	var names []string
	if json.Unmarshal(value, &names) != nil {
		return value
	}
	if names = slices.DeleteFunc(names, r.hides); len(names) == 0 {
		return nil
	}
	return mustMarshal(names)
}

// dependencies removes the hidden properties from a dependent keyword. A hidden property is always
// present in the end, so its own dependencies become unconditional.
func (r *propertyRemover) dependencies(value json.RawMessage) json.RawMessage {
	list, ok := jsonobject.Members(value)
	if !ok {
		return value
	}
	var kept []jsonobject.Member
	for _, m := range list {
		isList := jsonobject.Kind(m.Value) == '['
		if isList {
			m.Value = r.visibleNames(m.Value)
		} else {
			m.Value = withoutProperties(m.Value, r.names)
		}
		switch {
		case m.Value == nil:
		case !r.hides(m.Key):
			kept = append(kept, m)
		case isList:
			var names []string
			_ = json.Unmarshal(m.Value, &names) // cannot fail: visibleNames encoded it
			r.required = append(r.required, names...)
		default:
			r.all = append(r.all, m.Value)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return jsonobject.Join(kept)
}

// finish adds the dependencies of the hidden properties to the schema's keywords.
func (r *propertyRemover) finish(keywords []jsonobject.Member) []jsonobject.Member {
	if len(r.required) > 0 {
		var names []string
		keywords = setMember(keywords, "required", func(old json.RawMessage) json.RawMessage {
			_ = json.Unmarshal(old, &names) // cannot fail: old is empty or a valid list
			names = append(names, r.required...)
			slices.Sort(names)
			return mustMarshal(slices.Compact(names))
		})
	}
	if len(r.all) > 0 {
		var parts []json.RawMessage
		keywords = setMember(keywords, "allOf", func(old json.RawMessage) json.RawMessage {
			_ = json.Unmarshal(old, &parts) // cannot fail: old is empty or a valid list
			return mustMarshal(append(parts, r.all...))
		})
	}
	return keywords
}

// setMember adds a member or replaces its value.
func setMember(list []jsonobject.Member, key string, to func(old json.RawMessage) json.RawMessage) []jsonobject.Member {
	i := slices.IndexFunc(list, func(m jsonobject.Member) bool { return m.Key == key })
	if i < 0 {
		return append(list, jsonobject.Member{Key: key, Value: to(nil)})
	}
	list[i].Value = to(list[i].Value)
	return list
}
