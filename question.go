package toolyard

import "encoding/json"

// Question is a question of a tool to the user: a form to fill in or a page to open.
type Question struct {
	Key     string          `json:"-"` // of the answer
	Message string          `json:"message" doc:"Text of the question, written by the tool. Display it as plain text."`
	Schema  json.RawMessage `json:"schema,omitempty" doc:"JSON Schema of the form: a flat object of strings, numbers, booleans and enums. Absent for a page."`
	URL     string          `json:"url,omitempty" doc:"Address of the page to open instead of a form. It is chosen by the tool: confirm with the user before you open it."`
}
