package toolyard

import "encoding/json"

// Question is a question that a tool asks the user: a form to fill in or a page to open. Go tools
// use [Ask].
type Question struct {
	Key     string          `json:"-"` // key of the answer; unique within the tool
	Message string          `json:"message" doc:"Text of the question, written by the tool. Display it as plain text."`
	Schema  json.RawMessage `json:"schema,omitempty" doc:"JSON Schema of the form: a flat object of strings, numbers, booleans and enums. Absent for a page."`
	URL     string          `json:"url,omitempty" doc:"Address of the page to open instead of a form. It is chosen by the tool: confirm with the user before you open it."`

	// Bind is what the question depends on, such as the state of the lock that the message
	// describes. If it has changed by the time the answer arrives, the answer is ignored and the
	// user is asked again.
	Bind string `json:"-"`
	// State is returned with the answer, for example the exact order that the user saw. The client
	// can neither read nor change it. It can have at most 16 KiB.
	State []byte `json:"-"`
}
