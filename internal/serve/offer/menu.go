package offer

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// Menu resolves a model's request at a gate: a tool or meta-tool by name. MCP clients and agents
// share it.
type Menu struct {
	View    *gates.View
	Index   func() *Index // returns the view's index
	Down    func() func(server string) bool
	Results Results // stored long results
	Now     func() time.Time
}

// Requester is the caller of a meta-tool.
type Requester struct {
	Caller  toolyard.Caller
	Allows  func(*toolyard.Tool) bool // restricts the view's tools; nil allows all
	Checked bool                      // strictjson has already checked the arguments
}

// Target is the outcome of resolving a request: either a tool to call, or an answer.
type Target struct {
	Name   string          // the tool's name at the gate
	Tool   *toolyard.Tool  // nil if there is an answer
	Args   json.RawMessage // the tool's arguments
	Answer func(context.Context) (*toolyard.Result, error)
}

// Resolve returns the target of a request. It replaces a meta-tool that calls a tool with that tool
// before a call exists, so later steps see only the named tool. The other meta-tools, except
// run_code, are answered without the call path. If a tool is unknown, Name is set in addition to
// the error.
func (m *Menu) Resolve(name string, args json.RawMessage, by Requester) (Target, *toolyard.Error) {
	if !m.View.Gate.IsMetaTool(name) {
		return m.lookUp(name, args, by)
	}
	if !by.Checked {
		if err := strictjson.Check(args); err != nil {
			return Target{}, toolyard.Errorf(toolyard.Invalid, "Invalid arguments for %s: %w", name, err)
		}
	}
	switch name {
	case gates.SearchTools:
		q, err := ParseSearch(args)
		return textAnswer(func() string { return m.Index().Search(q, m.scope(by)) }), err
	case gates.DescribeTools:
		names, err := ParseDescribe(args)
		return textAnswer(func() string { return m.Index().Describe(names, m.scope(by)) }), err
	case gates.ReadResult:
		return m.readResult(args, by)
	case gates.RunCode:
		if m.View.Gate.Code == nil {
			return Target{}, toolyard.Errorf(toolyard.Unavailable, "This server cannot run code.")
		}
		return Target{Name: name, Tool: m.View.Gate.Code, Args: args}, nil
	}
	return m.unwrap(name, args, by)
}

func (m *Menu) scope(by Requester) Scope {
	s := Scope{Allows: by.Allows}
	if m.Down != nil {
		s.Down = m.Down()
	}
	return s
}

func textAnswer(text func() string) Target {
	return Target{Answer: func(context.Context) (*toolyard.Result, error) {
		return &toolyard.Result{Content: []toolyard.Content{toolyard.Text(text())}}, nil
	}}
}

// lookUp returns the tool with the given name at the gate.
func (m *Menu) lookUp(name string, args json.RawMessage, by Requester) (Target, *toolyard.Error) {
	t := Target{Name: name, Args: args}
	var ok bool
	if t.Tool, ok = m.View.Lookup(name); !ok || by.Allows != nil && !by.Allows(t.Tool) {
		t.Tool = nil
		return t, toolyard.Errorf(toolyard.UnknownTool, "Unknown tool %.128q%s.", name, spelling.DidYouMean(name, names(m.View, m.scope(by))))
	}
	return t, nil
}

// unwrap returns the tool that a meta-tool calls. It is looked up like any other tool.
func (m *Menu) unwrap(meta string, args json.RawMessage, by Requester) (Target, *toolyard.Error) {
	call, err := ParseCall(meta, args)
	switch {
	case err != nil:
		return Target{}, err
	case call.Name == "":
		return Target{}, call.MissingName(meta, func(name string) bool { _, err := m.lookUp(name, nil, by); return err == nil })
	case m.View.Gate.IsMetaTool(call.Name):
		return Target{}, toolyard.Errorf(toolyard.Invalid, "%s cannot call %s: call %s directly.", meta, call.Name, call.Name)
	}
	t, err := m.lookUp(call.Name, call.Args, by)
	if err == nil && meta == gates.CallTool && !t.Tool.IsReadOnly() {
		err = toolyard.Errorf(toolyard.Invalid, "%s is not read-only: call it with %s.", call.Name, gates.CallWriteTool)
	}
	return t, err
}

func (m *Menu) readResult(args json.RawMessage, by Requester) (Target, *toolyard.Error) {
	part, err := ParseRead(args)
	if err != nil {
		return Target{}, err
	}
	part.Bytes = min(m.View.Gate.Show, MaxPiece)
	return Target{Answer: func(ctx context.Context) (*toolyard.Result, error) {
		p, err := part.Read(ctx, m.Results, by.Caller, m.Now())
		if err != nil {
			return nil, err
		}
		return &toolyard.Result{Content: []toolyard.Content{toolyard.Text(p.Text), toolyard.Text(p.Mark())}}, nil
	}}, nil
}
