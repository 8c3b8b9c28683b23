package toolyard

import (
	"context"
	"encoding/json"
)

// Toolbox lets a tool use its gate's other tools and resources. These calls keep the caller, the
// mode and the as-of time, and take the same call path. A read-only tool can call only read-only
// tools. The server is the ID of an MCP server, or empty for tools in Go and TypeScript.
type Toolbox interface {
	Tools(c *Call, server string) ([]*Tool, error)
	CallTool(ctx context.Context, c *Call, server, tool string, args json.RawMessage) (*Result, error)
	Resources(c *Call, server string) ([]*Resource, error)
	// ReadResource returns an MCP result: {"contents": [...]}.
	ReadResource(ctx context.Context, c *Call, server, uri string) (json.RawMessage, error)
}
