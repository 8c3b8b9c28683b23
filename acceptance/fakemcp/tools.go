package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// arguments are the arguments of all tools together.
type arguments struct {
	Text    string `json:"text"`
	Ms      int    `json:"ms"`
	N       int    `json:"n"`
	Message string `json:"message"`
	How     string `json:"how"`
	Pad     int    `json:"pad"`
}

// tool is one tool: the properties of its schema, its hints and its function. The function's text
// or error becomes the result.
type tool struct {
	properties  string // all properties are required
	annotations *mcp.ToolAnnotations
	run         func(ctx context.Context, req *mcp.CallToolRequest, a arguments) (string, error)
}

func (f *fake) addTools() {
	pong := func(context.Context, *mcp.CallToolRequest, arguments) (string, error) { return "pong", nil }
	for name, t := range map[string]tool{
		"a__b":     {run: pong},
		"die":      {run: die},
		"echo":     {properties: `"text":{"type":"string"}`, run: echo},
		"fail":     {properties: `"message":{"type":"string"}`, run: fail},
		"grow":     {run: f.grow},
		"mutate":   {run: f.mutate},
		"odd":      {run: pong}, // the middleware handles it
		"order":    {properties: `"symbol":{"type":"string"},"side":{"enum":["buy","sell"]},"quantity":{"type":"integer","minimum":1}`, run: pong},
		"ping":     {run: pong},
		"plain":    {run: pong},
		"progress": {properties: `"n":{"type":"integer"}`, run: progress},
		"rd":       {annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}, run: pong},
		"rm":       {annotations: &mcp.ToolAnnotations{DestructiveHint: new(true)}, run: pong},
		"sleep":    {properties: `"ms":{"type":"integer"}`, run: sleep},
		"big":      {properties: `"n":{"type":"integer"}`, run: big},
		"spill":    {properties: `"how":{"enum":["stderr","result","error","die"]},"pad":{"type":"integer"}`, run: spill},
	} {
		f.addTool(name, "Does what "+name+" does.", t)
	}
	f.server.AddTool(definition("ask", "Asks the user for a name.", tool{}), ask)
	f.addReport("count", func() any { c := f.seen; c.Server = f.name; return c })
	f.addReport("last", func() any { return f.last })
}

func definition(name, description string, t tool) *mcp.Tool {
	var properties map[string]json.RawMessage
	if err := json.Unmarshal([]byte("{"+t.properties+"}"), &properties); err != nil {
		panic(err)
	}
	schema := map[string]any{"type": "object", "properties": properties}
	if len(properties) > 0 {
		schema["required"] = slices.Sorted(maps.Keys(properties))
	}
	return &mcp.Tool{Name: name, Description: description, InputSchema: schema, Annotations: t.annotations}
}

func (f *fake) addTool(name, description string, t tool) {
	f.server.AddTool(definition(name, description, t), func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var a arguments
		if len(req.Params.Arguments) > 0 {
			if err := json.Unmarshal(req.Params.Arguments, &a); err != nil {
				return nil, err
			}
		}
		text, err := t.run(ctx, req, a)
		if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
			return nil, wire
		}
		r := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
		if err != nil {
			r = new(mcp.CallToolResult)
			r.SetError(err)
		}
		return r, nil
	})
}

// addReport adds a tool that returns the server's statistics.
func (f *fake) addReport(name string, report func() any) {
	f.server.AddTool(definition(name, "Tells what the server has seen.", tool{}), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		data, err := json.Marshal(report())
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(data)}}, StructuredContent: json.RawMessage(data)}, err
	})
}

func echo(_ context.Context, _ *mcp.CallToolRequest, a arguments) (string, error) { return a.Text, nil }

func fail(_ context.Context, _ *mcp.CallToolRequest, a arguments) (string, error) {
	return "", errors.New(a.Message)
}

func big(_ context.Context, _ *mcp.CallToolRequest, a arguments) (string, error) {
	return strings.Repeat("x", a.N), nil
}

func sleep(ctx context.Context, _ *mcp.CallToolRequest, a arguments) (string, error) {
	select {
	case <-time.After(time.Duration(a.Ms) * time.Millisecond):
		return "slept", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func die(context.Context, *mcp.CallToolRequest, arguments) (string, error) {
	fmt.Fprintln(os.Stderr, "fakemcp: dying as asked")
	os.Exit(3)
	return "", nil
}

func progress(ctx context.Context, req *mcp.CallToolRequest, a arguments) (string, error) {
	token := req.Params.GetProgressToken()
	for i := range a.N {
		if token == nil {
			break
		}
		if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: float64(i + 1), Total: float64(a.N), Message: fmt.Sprint("step ", i+1),
		}); err != nil {
			return "", err
		}
	}
	return "done", nil
}

// grow adds a tool, and mutate changes the description of one. Both notify clients.
func (f *fake) grow(context.Context, *mcp.CallToolRequest, arguments) (string, error) {
	f.addTool("grown", "Was not there before.", tool{run: func(context.Context, *mcp.CallToolRequest, arguments) (string, error) { return "new", nil }})
	return "grown", nil
}

func (f *fake) mutate(context.Context, *mcp.CallToolRequest, arguments) (string, error) {
	f.addTool("plain", "Does something else now.", tool{run: func(context.Context, *mcp.CallToolRequest, arguments) (string, error) { return "changed", nil }})
	return "mutated", nil
}

// ask requests the user's name in the style of the client's era.
func ask(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answer, ok := req.Params.InputResponses["name"].(*mcp.ElicitResult)
	if !ok {
		return &mcp.CallToolResult{
			RequestState: "asked",
			InputRequests: mcp.InputRequestMap{"name": &mcp.ElicitParams{
				Mode: "form", Message: "Who are you?",
				RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`),
			}},
		}, nil
	}
	if req.Params.RequestState != "asked" {
		return nil, fmt.Errorf("the state came back as %q", req.Params.RequestState)
	}
	text := answer.Action
	if name, ok := answer.Content["name"].(string); ok {
		text = "Hello, " + name + "!"
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
}

// spill returns all of the server's secrets after a number of other bytes, through one of several
// channels.
func spill(_ context.Context, req *mcp.CallToolRequest, a arguments) (string, error) {
	var given []string
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "TEST_") {
			given = append(given, v)
		}
	}
	if req.Extra != nil {
		for _, name := range slices.Sorted(maps.Keys(req.Extra.Header)) {
			given = append(given, req.Extra.Header[name]...)
		}
	}
	text := strings.Repeat("x", a.Pad) + strings.Join(given, " ")
	switch a.How {
	case "result":
		return "", errors.New(text)
	case "error":
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "it failed: " + text, Data: json.RawMessage(`[` + quote(text) + `]`)}
	}
	fmt.Fprintln(os.Stderr, text)
	if a.How == "die" {
		os.Exit(3)
	}
	return "spilt", nil
}

func quote(text string) string {
	data, _ := json.Marshal(text) // cannot fail for a string
	return string(data)
}
