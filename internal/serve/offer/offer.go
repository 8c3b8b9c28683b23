// Package offer implements the tool list that a gate with meta-tools shows to models: the
// definitions of the meta-tools, the signatures of tools, and the results of searches and
// descriptions.
//
// A search returns one line for each matching tool, so models don't have to read the JSON Schemas
// of all tools. The meta-tools call_tool and call_write_tool have no code here: the MCP server
// replaces them with the named tool before a call exists, so that this tool's prices, limits,
// records and idempotency apply. This package has no state between requests.
package offer

import (
	"encoding/json"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

// Definition is the definition of a meta-tool.
type Definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Annotations json.RawMessage `json:"annotations"`
	Meta        json.RawMessage `json:"_meta,omitempty"`
}

// The annotations. Clients use them to decide whether to ask their users.
const (
	reads  = `{"readOnlyHint":true}`
	writes = `{"destructiveHint":true}`
)

const callInput = `{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object"}},"required":["name"]}`

// definitions are the meta-tools. Keep them short: every byte is part of each prompt.
var definitions = map[string]Definition{
	gates.SearchTools: {
		Description: "Find tools by task. Hits: name(args) // purpose; ~: describe first. No fit? Try other words.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"},"server":{"type":"string"},"limit":{"type":"integer"}},"required":["query"]}`),
		Annotations: json.RawMessage(reads),
	},
	gates.DescribeTools: {
		Description: "Full signatures.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"}}},"required":["names"]}`),
		Annotations: json.RawMessage(reads),
	},
	gates.RunCode: {
		Description: "Run the body of an async TypeScript function, for several calls, loops, or to reduce large results. await tools.NAME({...}) returns data or throws ToolError {code, message, retryable}. Also tools.search(query), tools.describe(name), console. No imports, fetch, files. Only the returned value and console output come back.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"code":{"type":"string"},"run":{"type":"string","description":"Continue this run, with the same code."}},"required":["code"]}`),
	},
	gates.CallTool: {
		Description: "Call a read-only tool.", InputSchema: json.RawMessage(callInput), Annotations: json.RawMessage(reads),
	},
	gates.CallWriteTool: {
		Description: "Call any tool.", InputSchema: json.RawMessage(callInput), Annotations: json.RawMessage(writes),
	},
	gates.ReadResult: {
		Description: "Read a result.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"},"offset":{"type":"integer"}},"required":["id"]}`),
		Annotations: json.RawMessage(reads),
	},
}

// Definitions returns the definitions of a gate's meta-tools in the order they are listed.
func Definitions(g *gates.Gate) []Definition {
	var list []Definition
	for _, name := range g.MetaTools() {
		d := definitions[name]
		d.Name = name
		switch {
		case name == gates.CallTool && g.Mode == toolyard.Read:
			d.Description = "Call a tool."
		case name == gates.RunCode && g.Mode == toolyard.Read:
			d.Annotations = json.RawMessage(reads)
		case name == gates.RunCode:
			d.Annotations = json.RawMessage(writes)
		}
		list = append(list, d)
	}
	return list
}

// AppendJSON appends the definition in the form used by tools/list.
func (d *Definition) AppendJSON(b []byte) []byte {
	raw, _ := jsonobject.Marshal(d) // cannot fail
	return append(b, raw...)
}

const bytesPerToken = 4

// Tokens estimates the number of prompt tokens in the definition: the bytes of its name,
// description and schema, divided by bytesPerToken.
func (d *Definition) Tokens() int {
	seen := Definition{Name: d.Name, Description: d.Description, InputSchema: d.InputSchema, Annotations: json.RawMessage("0")}
	n := len(seen.AppendJSON(nil)) - len(`,"annotations":0`)
	return (n + bytesPerToken - 1) / bytesPerToken
}
