package toolyard

import (
	"context"
	"encoding/json"
)

// Toolbox is how a tool uses the other tools and the resources of the gate that it was
// called at: as the same caller, in the same mode, about the same time, on the same call
// path. A tool that says that it only reads can use only tools that say so too. The server
// is the id of an MCP server, or empty for tools in Go and TypeScript.
type Toolbox interface {
	Tools(c *Call, server string) ([]Bound, error)
	CallTool(ctx context.Context, c *Call, server, tool string, args json.RawMessage) (*Result, error)
	Resources(ctx context.Context, c *Call, server string) ([]ResourceInfo, error)
	ReadResource(ctx context.Context, c *Call, server, uri string) (json.RawMessage, error)
}

// ResourceInfo is something that a source lets its callers read.
type ResourceInfo struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
}

// Library is a Source that has resources beside its tools.
type Library interface {
	Resources(ctx context.Context) ([]ResourceInfo, error)
	// ReadResource returns the result as MCP has it: {"contents": [...]}.
	ReadResource(ctx context.Context, c *Call, uri string) (json.RawMessage, error)
}
