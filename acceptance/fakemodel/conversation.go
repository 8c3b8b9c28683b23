package fakemodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// conversation is a request in any wire format.
type conversation struct {
	tools    map[string]bool
	noTools  bool
	messages []message
}

// message is the user's text, a turn that the client sent back, or answers to calls.
type message struct {
	text    string
	turn    []json.RawMessage
	calls   []string // IDs of the turn's calls
	answers []answer
}

type answer struct{ id, text string }

func texts(list []answer) (out []string) {
	for _, a := range list {
		out = append(out, a.text)
	}
	return out
}

// firstText returns the user's first message.
func (c *conversation) firstText() string {
	for _, m := range c.messages {
		if m.text != "" {
			return m.text
		}
	}
	return ""
}

// lastAnswers returns the answers to the last calls.
func (c *conversation) lastAnswers() (list []string) {
	for _, m := range c.messages {
		if m.turn != nil {
			list = nil
		}
		list = append(list, texts(m.answers)...)
	}
	return list
}

// check requires one answer for each call, after the turn and before anything else.
func (c *conversation) check() error {
	var open []string
	if len(c.messages) == 0 || c.messages[0].turn != nil {
		return errors.New("the conversation must begin with a message of the user")
	}
	for i, m := range c.messages {
		for _, a := range m.answers {
			at := slices.Index(open, a.id)
			if at < 0 {
				return fmt.Errorf("message %d answers call %q, which is not open", i, a.id)
			}
			open = slices.Delete(open, at, at+1)
		}
		if len(open) > 0 && (m.text != "" || m.turn != nil) {
			return fmt.Errorf("message %d: the calls %q have no answers", i, open)
		}
		for _, id := range m.calls {
			if slices.Contains(open, id) {
				return fmt.Errorf("message %d has two calls with the ID %q", i, id)
			}
			open = append(open, id)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("the calls %q have no answers", open)
	}
	if c.messages[len(c.messages)-1].turn != nil {
		return errors.New("the conversation ends with a turn of the model")
	}
	return nil
}

var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// declare adds a function.
func (c *conversation) declare(name string, schema json.RawMessage) error {
	if c.tools == nil {
		c.tools = map[string]bool{}
	}
	if !functionName.MatchString(name) {
		return fmt.Errorf("%q is not a function name", name)
	}
	if c.tools[name] {
		return fmt.Errorf("function %q is declared twice", name)
	}
	c.tools[name] = true
	var s struct {
		Type       string          `json:"type"`
		Properties json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil || s.Type != "object" || s.Properties == nil {
		return fmt.Errorf("the schema of %q is not an object with properties: %s", name, schema)
	}
	return nil
}

// onlyFields refuses members that a provider does not support.
func onlyFields(what string, body map[string]json.RawMessage, known ...string) error {
	for name := range body {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s: unknown field %q", what, name)
		}
	}
	return nil
}

// decode strictly decodes part of a request.
func decode(what string, data json.RawMessage, into any, known ...string) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if err := onlyFields(what, members, known...); err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// compare compares a turn's parts with the parts that were sent. If exact is false, equal reports
// whether two parts mean the same to the provider.
func compare(got, sent []json.RawMessage, exact bool, equal func(got, sent json.RawMessage) bool) string {
	if len(got) != len(sent) {
		return fmt.Sprintf("it has %d parts, %d were sent: %s", len(got), len(sent), marshal(got))
	}
	for i := range got {
		if exact && string(got[i]) != string(sent[i]) || !equal(got[i], sent[i]) {
			return fmt.Sprintf("part %d is %s, sent was %s", i+1, got[i], sent[i])
		}
	}
	return ""
}

// equalMembers reports whether two objects agree in the named members.
func equalMembers(a, b json.RawMessage, names ...string) bool {
	var x, y map[string]json.RawMessage
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	for _, name := range names {
		if x[name] == nil && y[name] == nil {
			continue
		}
		if !equalJSON(x[name], y[name]) {
			return false
		}
	}
	return true
}

// requireTrue returns an error unless a member is true.
func requireTrue(body map[string]json.RawMessage, name string) error {
	if string(body[name]) != "true" {
		return fmt.Errorf("%s must be true", name)
	}
	return nil
}

// requirePositive returns an error unless a member is a positive integer.
func requirePositive(body map[string]json.RawMessage, name string) error {
	var n int64
	if json.Unmarshal(body[name], &n) != nil || n <= 0 {
		return fmt.Errorf("%s must be a positive integer", name)
	}
	return nil
}

// requireText returns an error unless a member is a non-empty string.
func requireText(body map[string]json.RawMessage, name string) error {
	var s string
	if json.Unmarshal(body[name], &s) != nil || s == "" {
		return fmt.Errorf("%s must be a non-empty string", name)
	}
	return nil
}
