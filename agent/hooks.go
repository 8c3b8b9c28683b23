package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent/model"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Hooks are author-defined functions that an agent calls: Create before the first turn, and Next
// after each turn. They can restrict what the agent may do, but never extend it.
type Hooks interface {
	// Has reports whether there is a hook with that name.
	Has(name string) bool
	// Call calls a hook and returns its return value as JSON, or null if there is none.
	Call(ctx context.Context, c *toolyard.Call, name string, argument json.RawMessage) (json.RawMessage, error)
}

// Names of the hooks.
const (
	createHook = "Create"
	nextHook   = "Next"
)

const (
	maxHook     = 256 << 10 // in bytes, in each direction
	maxMessages = 200       // messages that a hook may return
	maxPath     = 4         // number of agents that may handle one query
)

// Message is a message in the form that hooks receive.
type Message struct {
	Role       string     `json:"role"` // user, assistant or tool
	Content    string     `json:"content"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// ToolCall is a call that the model requested.
type ToolCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// payload is the argument of Next.
type payload struct {
	Messages   []Message          `json:"messages"`
	Completion completion         `json:"completion"`
	Tools      []toolCallResponse `json:"tools"`
	Error      string             `json:"error,omitempty"`
}

type completion struct {
	Content   string      `json:"content"`
	ToolCalls []ToolCall  `json:"tool_calls"`
	Usage     model.Usage `json:"usage"`
}

// toolCallResponse is a call and its result, in the payload of Next.
type toolCallResponse struct {
	ToolCallID string          `json:"toolcall_id"`
	Server     string          `json:"server"`
	Tool       string          `json:"tool"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Result     json.RawMessage `json:"result,omitempty"`
	Error      string          `json:"error,omitempty"`
}

// decision is what a hook returns.
type decision struct {
	Messages    []Message       `json:"messages"`
	Servers     *[]serverPick   `json:"mcp_servers"`
	Temperature *float64        `json:"temperature"`
	MaxTokens   *int            `json:"max_tokens"`
	Metadata    json.RawMessage `json:"metadata"`
	Delegate    *struct {
		Agent    string    `json:"agent_id"`
		Messages []Message `json:"messages"`
	} `json:"delegate"`
	Data json.RawMessage `json:"data"`
}

// serverPick selects a server's tools. If Tools is empty, it selects all of them.
type serverPick struct {
	ID        string   `json:"server_id"`
	Tools     []string `json:"tools"`
	Resources []string `json:"resources"` // ignored, because agents do not read resources
}

// ask calls a hook and decodes its decision. Nil means to continue.
func (c *conversation) ask(ctx context.Context, hook string, argument any) (*decision, error) {
	h := c.agent.opts.Hooks
	if h == nil || !h.Has(hook) {
		return nil, nil
	}
	raw, err := jsonobject.Marshal(argument)
	if err == nil && len(raw) > maxHook {
		err = fmt.Errorf("the argument is %d bytes; the limit is %d", len(raw), maxHook)
	}
	var returned json.RawMessage
	if err == nil {
		returned, err = h.Call(ctx, c.call, hook, raw)
	}
	if err != nil {
		return nil, c.hookError(ctx, hook, err)
	}
	if returned = bytes.TrimSpace(returned); len(returned) == 0 || string(returned) == "null" {
		return nil, nil
	}
	if len(returned) > maxHook {
		return nil, c.hookError(ctx, hook, fmt.Errorf("the hook returned %d bytes; the limit is %d", len(returned), maxHook))
	}
	d, decoder := &decision{}, json.NewDecoder(bytes.NewReader(returned))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(d); err != nil {
		return nil, c.hookError(ctx, hook, fmt.Errorf("the hook returned an invalid value: %w", err))
	}
	return d, nil
}

// hookError returns the error that ends a query after a hook failed. It logs the author's mistake;
// the caller sees only that the agent failed.
func (c *conversation) hookError(ctx context.Context, hook string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.root.opts.Log.ErrorContext(ctx, "agent hook failed", "agent", c.agent.opts.Name, "hook", hook, "query", c.call.ID, "error", err)
	return &toolyard.Error{Code: toolyard.Failed, Message: "Agent " + c.agent.opts.Name + " failed because of an error in its " + hook + " hook.", Err: err}
}

// narrow applies Create's decision. It fails if the decision would extend anything.
func (c *conversation) narrow(d *decision) error {
	if d.Messages != nil {
		messages, err := conversationOf(d.Messages)
		if err != nil {
			return err
		}
		c.messages = messages
	}
	c.temperature = d.Temperature
	if d.MaxTokens != nil {
		if *d.MaxTokens < 1 {
			return errors.New("max_tokens must be at least 1")
		}
		c.maxOutput = min(c.maxOutput, *d.MaxTokens)
	}
	if d.Servers == nil {
		return nil
	}
	var kept []Tool
	tools := c.offer.tools()
	for _, pick := range *d.Servers {
		ofServer := slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool { return t.Server != pick.ID })
		if len(ofServer) == 0 {
			return fmt.Errorf("mcp_servers: the gate offers no tools from server %q", untrusted.Prefix(pick.ID, 64))
		}
		if len(pick.Tools) == 0 {
			kept = append(kept, ofServer...)
		}
		for _, name := range pick.Tools {
			i := slices.IndexFunc(ofServer, func(t Tool) bool { return t.Tool.Name == name })
			if i < 0 {
				return fmt.Errorf("mcp_servers: the gate does not offer tool %q from server %q", untrusted.Prefix(name, 64), pick.ID)
			}
			kept = append(kept, ofServer[i])
		}
	}
	c.offer.narrowTo(kept)
	return nil
}

// next asks the Next hook what to do after a turn.
func (c *conversation) next(ctx context.Context, turn *model.Turn, results []*callResult) (*final, *handover, error) {
	if c.agent.opts.Hooks == nil {
		return nil, nil, nil
	}
	p := payload{Messages: chat(c.messages), Completion: completion{turn.Text, toolCalls(turn), turn.Usage}, Tools: []toolCallResponse{}}
	for _, r := range results {
		one := toolCallResponse{ToolCallID: r.ID, Tool: r.Name, Arguments: r.Arguments, Result: r.value}
		if tool := r.target.Tool.Tool; tool != nil {
			one.Server, one.Tool, one.Arguments = tool.Server, tool.Name, r.target.Args
		}
		if r.err != nil {
			one.Error = fmt.Sprintf("%s: %s", r.err.Code, r.err.Message)
			p.Error = one.Error
		}
		p.Tools = append(p.Tools, one)
	}
	p.shrink()
	d, err := c.ask(ctx, nextHook, p)
	if err != nil || d == nil {
		return nil, nil, err
	}
	if d.Messages != nil || d.Servers != nil || d.Temperature != nil || d.MaxTokens != nil {
		return nil, nil, c.hookError(ctx, nextHook, errors.New("the hook returned a field that only Create can set"))
	}
	return c.decide(ctx, nextHook, d)
}

// shrink removes results from the payload, starting with the oldest messages, until it is small
// enough.
func (p *payload) shrink() {
	size := func() int {
		raw, _ := jsonobject.Marshal(p) // cannot fail
		return len(raw)
	}
	for i := 0; i < len(p.Messages) && size() > maxHook*3/4; i++ {
		if p.Messages[i].Role == "tool" {
			p.Messages[i].Content = untrusted.Truncate(p.Messages[i].Content, 200)
		}
	}
	for i := range p.Tools {
		if len(p.Tools[i].Result) > maxHook/(2*len(p.Tools)) {
			p.Tools[i].Result = nil
			p.Tools[i].Error = strings.TrimSpace(p.Tools[i].Error + " The result is too large for the hook.")
		}
	}
}

// decide carries out a decision to delegate or to end the query.
func (c *conversation) decide(ctx context.Context, hook string, d *decision) (*final, *handover, error) {
	switch {
	case d.Delegate != nil:
		to, err := c.delegate(d)
		if err != nil {
			return nil, nil, c.hookError(ctx, hook, err)
		}
		return nil, to, nil
	case d.Data != nil && string(d.Data) != "null":
		c.stop = StopHook
		text, ok := jsonobject.String(d.Data)
		if !ok {
			text = string(d.Data)
		}
		return &final{text: text, data: d.Data}, nil, nil
	}
	return nil, nil, nil
}

func (c *conversation) delegate(d *decision) (*handover, error) {
	name := untrusted.Prefix(d.Delegate.Agent, 64)
	var to *Agent
	if c.agent.opts.Delegate != nil {
		to = c.agent.opts.Delegate(d.Delegate.Agent)
	}
	switch {
	case to == nil:
		return nil, fmt.Errorf("the hook delegated to %q, which is not one of the agent's delegates", name)
	case slices.Contains(c.path, name):
		return nil, fmt.Errorf("the hook delegated to %q, which has already handled the query: %s", name, strings.Join(c.path, ", "))
	case len(c.path) >= maxPath:
		return nil, fmt.Errorf("the hook delegated to %q, but at most %d agents can handle a query", name, maxPath)
	case to.writes() && !c.root.writes():
		return nil, fmt.Errorf("the hook delegated to %q, which can write, but this query is read-only", name)
	}
	messages, err := conversationOf(d.Delegate.Messages)
	return &handover{to, messages}, err
}

// chat converts messages to the form that hooks receive.
func chat(messages []model.Message) []Message {
	list := []Message{}
	for _, m := range messages {
		if m.Text != "" {
			list = append(list, Message{Role: "user", Content: m.Text})
		}
		if m.Turn != nil {
			list = append(list, Message{Role: "assistant", Content: m.Turn.Text, ToolCalls: toolCalls(m.Turn)})
		}
		for _, a := range m.Answers {
			list = append(list, Message{Role: "tool", Content: a.Text, ToolCallID: a.ID})
		}
	}
	return list
}

func toolCalls(t *model.Turn) []ToolCall {
	list := []ToolCall{}
	for _, call := range t.Calls {
		list = append(list, ToolCall{call.ID, call.Name, call.Arguments})
	}
	return list
}

// conversationOf converts a hook's messages into a conversation. Calls and their results become
// text, because their identifiers belong to another conversation.
func conversationOf(list []Message) (messages []model.Message, err error) {
	if len(list) == 0 || len(list) > maxMessages {
		return nil, fmt.Errorf("messages must contain 1 to %d entries", maxMessages)
	}
	for i, m := range list {
		switch {
		case m.Role == "user" && m.Content != "":
			messages = append(messages, model.Message{Text: m.Content})
		case m.Role == "assistant" && m.Content != "":
			messages = append(messages, model.Message{Turn: &model.Turn{Text: m.Content, Stop: model.StopEnd}})
		case m.Role == "tool" && m.Content != "":
			messages = append(messages, model.Message{Text: "Result of an earlier call: " + m.Content})
		case m.Role != "user" && m.Role != "assistant" && m.Role != "tool":
			return nil, fmt.Errorf("messages[%d]: the role must be user, assistant or tool, not %q", i, untrusted.Prefix(m.Role, 32))
		}
	}
	if len(messages) == 0 || messages[len(messages)-1].Turn != nil {
		messages = append(messages, model.Message{Text: "Go on."})
	}
	return messages, nil
}
