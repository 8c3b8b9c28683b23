package toolyard

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
)

// ContextProvider returns data about a caller: a CRM record, a portfolio. It must not return
// credentials.
type ContextProvider interface {
	// Provide returns a JSON object. An error of type *Error is sent to the caller unchanged,
	// any other error becomes Unavailable.
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
	list, ok := jsonobject.Members(schema)
	if !ok {
		return schema // true or false
	}
	h := hiding{names: names}
	kept := make([]jsonobject.Member, 0, len(list))
	for _, m := range list {
		if m.Value = h.keyword(m.Key, m.Value); m.Value != nil {
			kept = append(kept, m)
		}
	}
	return jsonobject.Join(h.conclude(kept))
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
	list, ok := jsonobject.Members(value)
	if !ok {
		return value
	}
	return jsonobject.Join(slices.DeleteFunc(list, func(m jsonobject.Member) bool { return h.hides(m.Key) }))
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
	list, ok := jsonobject.Members(value)
	if !ok {
		return value
	}
	var kept []jsonobject.Member
	for _, m := range list {
		isList := jsonobject.Kind(m.Value) == '['
		if isList {
			m.Value = h.shownNames(m.Value)
		} else {
			m.Value = withoutProperties(m.Value, h.names)
		}
		switch {
		case m.Value == nil:
		case !h.hides(m.Key):
			kept = append(kept, m)
		case isList:
			var names []string
			_ = json.Unmarshal(m.Value, &names) // it was written by shownNames, or adds nothing
			h.required = append(h.required, names...)
		default:
			h.all = append(h.all, m.Value)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return jsonobject.Join(kept)
}

// conclude adds what the hidden properties require to the keywords of the schema.
func (h *hiding) conclude(keywords []jsonobject.Member) []jsonobject.Member {
	if len(h.required) > 0 {
		var names []string
		keywords = setMember(keywords, "required", func(old json.RawMessage) json.RawMessage {
			_ = json.Unmarshal(old, &names) // nothing, or a list that was checked
			names = append(names, h.required...)
			slices.Sort(names)
			return mustMarshal(slices.Compact(names))
		})
	}
	if len(h.all) > 0 {
		var parts []json.RawMessage
		keywords = setMember(keywords, "allOf", func(old json.RawMessage) json.RawMessage {
			_ = json.Unmarshal(old, &parts) // nothing, or a list that was checked
			return mustMarshal(append(parts, h.all...))
		})
	}
	return keywords
}

// change replaces the value of a member, or adds it.
func setMember(list []jsonobject.Member, key string, to func(old json.RawMessage) json.RawMessage) []jsonobject.Member {
	i := slices.IndexFunc(list, func(m jsonobject.Member) bool { return m.Key == key })
	if i < 0 {
		return append(list, jsonobject.Member{Key: key, Value: to(nil)})
	}
	list[i].Value = to(list[i].Value)
	return list
}
