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
	Tools(c *Call, server string) ([]*Tool, error)
	CallTool(ctx context.Context, c *Call, server, tool string, args json.RawMessage) (*Result, error)
	Resources(c *Call, server string) ([]*Resource, error)
	// ReadResource returns the result as MCP has it: {"contents": [...]}.
	ReadResource(ctx context.Context, c *Call, server, uri string) (json.RawMessage, error)
}
