package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// noted is a recorded call to a declared tool.
type noted struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Meta      map[string]any  `json:"meta"`
	Headers   http.Header     `json:"headers"`
	Began     time.Time       `json:"began"`
	Ended     time.Time       `json:"ended"`
}

// declare adds the tools that a file declares in MCP's format, with any metadata. They sleep for ms
// milliseconds, fail if fail is true, and record each call in a file that several servers may
// share.
func (f *fake) declare(tools, notes string) error {
	data, err := os.ReadFile(tools)
	if err != nil {
		return err
	}
	var declared []*mcp.Tool
	if err := json.Unmarshal(data, &declared); err != nil {
		return err
	}
	for _, t := range declared {
		if t.InputSchema == nil {
			t.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
		f.server.AddTool(t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return answer(ctx, req, notes)
		})
	}
	return nil
}

func answer(ctx context.Context, req *mcp.CallToolRequest, notes string) (*mcp.CallToolResult, error) {
	n := noted{Tool: req.Params.Name, Arguments: req.Params.Arguments, Meta: req.Params.Meta, Began: time.Now()}
	if req.Extra != nil {
		n.Headers = req.Extra.Header
	}
	var a struct {
		Ms   int  `json:"ms"`
		Fail bool `json:"fail"`
	}
	if len(n.Arguments) > 0 {
		if err := json.Unmarshal(n.Arguments, &a); err != nil {
			return nil, err
		}
	}
	select {
	case <-time.After(time.Duration(a.Ms) * time.Millisecond):
	case <-ctx.Done():
	}
	n.Ended = time.Now()
	if err := note(notes, n); err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: n.Tool}}, IsError: a.Fail}, nil
}

// note appends a line to a file.
func note(path string, line any) error {
	if path == "" {
		return nil
	}
	data, err := json.Marshal(line)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := file.Write(append(data, '\n')); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
