package upstream

import "encoding/json"

// Offered reports whether the server would offer a tool with this definition.
func Offered(v *Server, definition json.RawMessage) bool {
	for _, o := range v.definitions.evaluate(&listing{tools: []json.RawMessage{definition}}) {
		if o.tool != nil {
			return true
		}
	}
	return false
}
