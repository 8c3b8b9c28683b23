package fakemodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/internal/config/yamltree"
)

// Script lists a model's turns. The server selects a conversation by the user's first message, and
// a turn by the number of turns that the request already contains, so it needs no state and any
// number of conversations can run at once.
type Script struct {
	Conversations []Conversation `json:"conversations"`
}

// Conversation is a list of turns.
type Conversation struct {
	Match string `json:"match"` // substring of the user's first message; empty for any
	Turns []Turn `json:"turns"`
}

// Turn is one of the model's responses. In Say and in the strings of arguments, {answer:2} stands
// for the second answer in the conversation and, if the answer is JSON, {answer:2/rate} for one of
// its members.
type Turn struct {
	Expect Expect `json:"expect"`
	Think  string `json:"think"` // thinking that the client must send back, with a signature
	Say    string `json:"say"`
	Call   []Call `json:"call"`
	Stop   string `json:"stop"`  // length, context, refused or malformed; empty for the usual reason
	Usage  *Usage `json:"usage"` // estimated if nil
	Fault  *Fault `json:"fault"`
	Quirks Quirks `json:"quirks"`
}

// Expect describes what a request must contain.
type Expect struct {
	Text    []string                   `json:"text"`    // substrings of the body
	Absent  []string                   `json:"absent"`  // substrings that the body must not contain
	JSON    map[string]json.RawMessage `json:"json"`    // expected values by JSON pointer
	Answers []string                   `json:"answers"` // substrings of the answers to the last turn's calls, in order
	Tools   []string                   `json:"tools"`   // names of declared functions
	NoTools *bool                      `json:"noTools"` // whether calls are off
}

// Call is a call that the model requests.
type Call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // an object; a string is sent unchanged, even if it is not JSON
}

// Usage contains the token counts that the server reports.
type Usage struct {
	Input     int64 `json:"input"` // includes Cached
	Cached    int64 `json:"cached"`
	Output    int64 `json:"output"` // includes Reasoning
	Reasoning int64 `json:"reasoning"`
}

// Fault is a simulated failure.
type Fault struct {
	Times   int               `json:"times"`   // how many times it occurs; zero for always
	Status  int               `json:"status"`  // responds with this status and an error
	Headers map[string]string `json:"headers"` // response headers
	Code    string            `json:"code"`    // the provider's error code
	Message string            `json:"message"`
	After   int               `json:"after"`  // number of events sent before Stream, Cut or Hang
	Stream  bool              `json:"stream"` // sends the error as an event
	Cut     bool              `json:"cut"`    // closes the connection
	Hang    bool              `json:"hang"`   // sends nothing more until the client disconnects
	Body    string            `json:"body"`   // sends this with status 200 instead of a stream
}

// Quirks are deviations found in servers that are compatible with Chat Completions.
type Quirks struct {
	Whole      bool `json:"whole"`      // sends each call in one chunk
	NoID       bool `json:"noId"`       // omits call IDs
	NoIndex    bool `json:"noIndex"`    // omits call indexes
	ZeroIndex  bool `json:"zeroIndex"`  // sends index 0 for all calls
	Stop       bool `json:"stop"`       // sends finish reason "stop" together with calls
	NoUsage    bool `json:"noUsage"`    // sends no token counts
	Object     bool `json:"object"`     // sends arguments as an object, not as a string
	Reasoning  bool `json:"reasoning"`  // sends thinking in reasoning_content
	EmptyArgs  bool `json:"emptyArgs"`  // sends "" if there are no arguments
	Signature  bool `json:"signature"`  // sends signatures in extra_content
	RepeatName bool `json:"repeatName"` // sends the ID and name in each chunk
}

// Parse reads a script in YAML.
func Parse(data []byte) (*Script, error) {
	root, err := yamltree.Parse(data)
	if err != nil {
		return nil, err
	}
	var s Script
	dec := json.NewDecoder(bytes.NewReader(jsonOf(root)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	if len(s.Conversations) == 0 {
		return nil, errors.New("script: there are no conversations")
	}
	return &s, nil
}

// jsonOf converts a tree to JSON, keeping the order of members.
func jsonOf(n *yamltree.Node) json.RawMessage {
	switch n.Kind {
	case yamltree.Mapping:
		var pairs []any
		for _, m := range n.Members {
			pairs = append(pairs, m.Name, jsonOf(m.Value))
		}
		return object(pairs...)
	case yamltree.Sequence:
		items := []json.RawMessage{}
		for _, item := range n.Items {
			items = append(items, jsonOf(item))
		}
		return marshal(items)
	}
	return marshal(n.Value)
}

// reply is a turn with all values filled in.
type reply struct {
	number int // number of the turn in the conversation
	think  string
	say    string
	calls  []replyCall
	stop   string
	usage  Usage
	quirks Quirks
}

type replyCall struct {
	number    int
	name      string
	arguments string
}

// render fills in the conversation's answers so far.
func (t *Turn) render(number int, answers []string, requestSize int) *reply {
	r := &reply{number: number, think: fill(t.Think, answers), say: fill(t.Say, answers), stop: t.Stop, quirks: t.Quirks}
	size := len(r.say)
	for i, c := range t.Call {
		var arguments string
		switch {
		case len(c.Arguments) == 0:
			arguments = "{}"
		case json.Unmarshal(c.Arguments, &arguments) != nil:
			arguments = fillJSON(c.Arguments, answers)
		}
		r.calls = append(r.calls, replyCall{number: i + 1, name: c.Name, arguments: arguments})
		size += len(arguments)
	}
	if t.Usage != nil {
		r.usage = *t.Usage
	} else {
		r.usage = Usage{Input: int64(requestSize / 4), Output: int64(size/4 + 1)}
	}
	return r
}

var placeholder = regexp.MustCompile(`\{answer:(\d+)(/[^}]*)?\}`)

// fill replaces placeholders with answers.
func fill(text string, answers []string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		parts := placeholder.FindStringSubmatch(found)
		n, err := strconv.Atoi(parts[1])
		if err != nil || n < 1 || n > len(answers) {
			return found
		}
		answer := answers[n-1]
		if parts[2] == "" {
			return answer
		}
		value, ok := pointer(json.RawMessage(answer), parts[2])
		if !ok {
			return found
		}
		var s string
		if json.Unmarshal(value, &s) == nil {
			return s
		}
		return string(value)
	})
}

// fillJSON replaces placeholders in the strings of a JSON value.
func fillJSON(value json.RawMessage, answers []string) string {
	return placeholder.ReplaceAllStringFunc(string(value), func(found string) string {
		quoted := string(marshal(fill(found, answers)))
		return strings.TrimSuffix(strings.TrimPrefix(quoted, `"`), `"`)
	})
}

// pointer returns the value at a JSON pointer.
func pointer(value json.RawMessage, path string) (json.RawMessage, bool) {
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		var members map[string]json.RawMessage
		var items []json.RawMessage
		switch {
		case json.Unmarshal(value, &members) == nil && members != nil:
			next, ok := members[name]
			if !ok {
				return nil, false
			}
			value = next
		case json.Unmarshal(value, &items) == nil:
			n, err := strconv.Atoi(name)
			if name == "-" {
				n, err = len(items)-1, nil // selects the last item
			}
			if err != nil || n < 0 || n >= len(items) {
				return nil, false
			}
			value = items[n]
		default:
			return nil, false
		}
	}
	return value, true
}

// check describes how a request deviates from the expectation, or returns "".
func (e *Expect) check(body []byte, c *conversation) string {
	for _, want := range e.Text {
		if !bytes.Contains(body, []byte(want)) {
			return fmt.Sprintf("the request does not contain %q", want)
		}
	}
	for _, unwanted := range e.Absent {
		if bytes.Contains(body, []byte(unwanted)) {
			return fmt.Sprintf("the request contains %q", unwanted)
		}
	}
	for path, want := range e.JSON {
		got, ok := pointer(body, path)
		if !ok || !equalJSON(got, want) {
			return fmt.Sprintf("%s is %s, want %s", path, got, want)
		}
	}
	for _, want := range e.Tools {
		if !c.tools[want] {
			return fmt.Sprintf("function %q is not declared", want)
		}
	}
	if e.NoTools != nil && *e.NoTools != c.noTools {
		return fmt.Sprintf("calls are off: %v, want %v", c.noTools, *e.NoTools)
	}
	last := c.lastAnswers()
	for i, want := range e.Answers {
		if i >= len(last) || !strings.Contains(last[i], want) {
			return fmt.Sprintf("the answers to the last calls are %q, want %q", last, e.Answers)
		}
	}
	return ""
}
