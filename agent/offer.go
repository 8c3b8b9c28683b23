package agent

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent/model"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Gate is the gate whose tools an agent uses. Every call takes the gate's call path.
type Gate interface {
	// Offer returns the gate's current offer.
	Offer() (*Offer, error)
	// Call calls a tool by its name at the gate, on behalf of a query. It returns the call's ID,
	// which is empty if the call was refused before it got one.
	Call(ctx context.Context, c *toolyard.Call, name string, args json.RawMessage) (id string, res *toolyard.Result, err error)
	// CallerClock reports whether queries may set an as-of time.
	CallerClock() bool
}

// Tool is a tool, with the name and description that the gate gives it.
type Tool struct {
	Name, Description string
	*toolyard.Tool
}

// Offer describes what a gate offers and how models see it. Queries share it, so it must not be
// modified.
type Offer struct {
	Tools     []Tool           // all tools
	Listed    []Tool           // tools that models see; meta-tools find the others
	MetaTools []model.Function // the gate's own tools, which search, describe and call tools
	Show      int              // bytes of a result that models see; 40 KiB if zero

	// Resolve returns the target of a call to a meta-tool or to a tool that is not listed. If the
	// tool is unknown, Resolve returns an error and a target with the tool's name. It may be nil if
	// every tool is listed and there are no meta-tools.
	Resolve func(name string, args json.RawMessage, scope Scope) (Target, error)
}

// Scope determines what a query's meta-tools can access.
type Scope struct {
	Caller toolyard.Caller
	Allows func(*toolyard.Tool) bool              // nil if all tools are allowed
	Result func(id string) (text string, ok bool) // returns an earlier result of the query
}

// Target is the result of resolving a model's request: a tool call, or an answer that needs no
// call.
type Target struct {
	Tool   Tool            // has no definition if there is an answer
	Args   json.RawMessage // the tool's arguments
	Code   bool            // whether the tool runs the model's code, whose calls count instead; see [CallFromCode]
	Answer func(context.Context) (*toolyard.Result, error)
	Hint   func() string // returns help for correcting invalid arguments; may be nil
}

// selection is the set of tools that a conversation offers to its model: the gate's offer,
// restricted by the query's mode, by the query itself and by the Create hook.
type selection struct {
	*Offer
	allowed   map[*toolyard.Tool]bool // nil if all tools are allowed
	listed    map[string]Tool         // keyed by function name
	functions []model.Function
}

// narrowTo keeps only these tools.
func (s *selection) narrowTo(tools []Tool) {
	s.allowed = make(map[*toolyard.Tool]bool, len(tools))
	for _, t := range tools {
		s.allowed[t.Tool] = true
	}
}

func (s *selection) allows(t *toolyard.Tool) bool { return s.allowed == nil || s.allowed[t] }

// tools returns the remaining tools.
func (s *selection) tools() []Tool {
	if s.allowed == nil {
		return s.Tools
	}
	return slices.DeleteFunc(slices.Clone(s.Tools), func(t Tool) bool { return !s.allowed[t.Tool] })
}

// count returns the number of remaining tools.
func (s *selection) count() int {
	if s.allowed == nil {
		return len(s.Tools)
	}
	return len(s.allowed)
}

// declare sets the functions that the model may call.
func (s *selection) declare() {
	s.functions, s.listed = slices.Clone(s.MetaTools), make(map[string]Tool, len(s.Listed))
	for _, t := range s.Listed {
		name := functionName(t.Name)
		if _, taken := s.listed[name]; taken || !s.allows(t.Tool) {
			continue
		}
		s.listed[name] = t
		s.functions = append(s.functions, model.Function{Name: name, Description: t.Description, Parameters: t.CallerInput()})
	}
}

// maxFunctionName is the maximum length of a function name that models accept.
const maxFunctionName = 64

// functionName replaces characters in a tool's name that models do not accept.
func functionName(tool string) string {
	name := strings.ReplaceAll(tool, ".", "_")
	if name != "" && strings.ContainsAny(name[:1], "0123456789-") {
		name = "_" + name
	}
	return name[:min(len(name), maxFunctionName)]
}

// canReadResults reports whether the model can read the rest of long results.
func (s *selection) canReadResults() bool {
	return slices.ContainsFunc(s.MetaTools, func(f model.Function) bool { return f.Name == readResult })
}

// readResult is the meta-tool that returns the next part of a long result.
const readResult = "read_result"

// resolve returns the target of a request from the model or its code.
func (c *conversation) resolve(name string, args json.RawMessage) (Target, *toolyard.Error) {
	if t, ok := c.offer.listed[name]; ok {
		return Target{Tool: t, Args: args}, nil
	}
	if c.offer.Resolve == nil {
		return Target{}, c.unknown(name)
	}
	scope := Scope{Caller: c.call.Caller, Result: c.result}
	if c.offer.allowed != nil {
		scope.Allows = c.offer.allows
	}
	t, err := c.offer.Resolve(name, args, scope)
	if err != nil {
		refused := toolyard.AsError(err)
		if refused.Code == toolyard.UnknownTool {
			c.noteMissing(t.Tool.Name)
		}
		return Target{}, refused
	}
	if t.Code && !t.Tool.IsReadOnly() && !c.root.writes() {
		return Target{}, toolyard.Errorf(toolyard.PermissionDenied, "This query is read-only.")
	}
	return t, nil
}

func (c *conversation) unknown(name string) *toolyard.Error {
	c.noteMissing(name)
	var names []string
	for _, f := range c.offer.functions {
		names = append(names, f.Name)
	}
	return toolyard.Errorf(toolyard.UnknownTool, "Unknown tool %.64q%s.", name, spelling.DidYouMean(name, names))
}

// noteMissing records an unknown tool that the model requested.
func (r *run) noteMissing(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if shown := untrusted.Prefix(name, 64); len(r.missing) < MaxCalls && !slices.Contains(r.missing, shown) {
		r.missing = append(r.missing, shown)
	}
}

// result returns the text of an earlier result.
func (r *run) result(id string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, call := range r.calls {
		if call.evidence() == id && call.err == nil && call.done {
			return call.body, true
		}
	}
	return "", false
}
