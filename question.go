package toolyard

import "encoding/json"

// Question is a question of a tool to the user: a form to fill in or a page to open. Tools in Go
// use [Ask].
type Question struct {
	Key     string          `json:"-"` // of the answer; unique within the tool
	Message string          `json:"message" doc:"Text of the question, written by the tool. Display it as plain text."`
	Schema  json.RawMessage `json:"schema,omitempty" doc:"JSON Schema of the form: a flat object of strings, numbers, booleans and enums. Absent for a page."`
	URL     string          `json:"url,omitempty" doc:"Address of the page to open instead of a form. It is chosen by the tool: confirm with the user before you open it."`

	// Bind is what the question depends on, such as the state of the lock that the message
	// describes. If it has changed when the answer arrives, the answer does not count and the user
	// is asked again.
	Bind string `json:"-"`
	// State is returned with the answer, such as the exact order that the user saw. The client
	// can neither read nor change it. At most 16 KiB.
	State []byte `json:"-"`
}
