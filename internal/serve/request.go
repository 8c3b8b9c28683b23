// Package serve defines the call request that every front end decodes, and its outcome.
package serve

import (
	"encoding/json"
	"log/slog"

	"github.com/toolyard/toolyard"
)

// CallRequest is a request to call a tool at a gate. A front end decodes it and authenticates the
// caller; the MCP server resolves the tool and turns the request into a [toolyard.Call].
type CallRequest struct {
	Tool           string          `json:"tool" doc:"Name of the tool as the gate lists it."`
	Args           json.RawMessage `json:"args,omitempty" doc:"The tool's arguments, as an object."`
	Gate           string          `json:"gate,omitempty" doc:"Gate to call through. Default: the first execute gate for /tools/execute, otherwise the gate at /mcp."`
	IdempotencyKey string          `json:"idempotencyKey,omitempty" doc:"Calls with the same key run once. Alternatively, send the Idempotency-Key header."`
	Session        string          `json:"session,omitempty" doc:"Session to charge. Default: the caller's account."`

	AsOf string `json:"asOf,omitempty" format:"date-time" doc:"As-of time of the call, in RFC 3339 format. It must not be in the future. Only gates with clock: caller accept it. Default: now."`

	// Request is decoded by the front end. Its Meta may also contain the session, the idempotency
	// key and the as-of time.
	toolyard.Request `json:"-"`

	Caller toolyard.Caller `json:"-"`
	Log    *slog.Logger    `json:"-"` // nil uses the server's logger
	Parent *toolyard.Call  `json:"-"` // the call whose tool makes this one; may be nil
}

// Elicitation declares the capabilities of a front end that can ask its user questions.
var Elicitation = json.RawMessage(`{"elicitation":{"form":{},"url":{}}}`)

// CallOutcome is the result of a call, or the input that its tool needs to continue.
type CallOutcome struct {
	Call          *toolyard.Call   // nil if nothing ran
	Result        *toolyard.Result // nil if the call failed or requires input
	InputRequired *InputRequired   // nil if the call has finished
}

// InputRequired holds a tool's questions for the user. The tool continues when the same caller
// repeats the call with the answers and the state.
type InputRequired struct {
	Questions map[string]toolyard.Question `json:"questions" doc:"Questions, by the key of each answer. If there are none, send back only the state."`
	State     string                       `json:"state" doc:"Opaque state to send back with the answers, for the same caller, tool, gate and args, within ten minutes. Each state is accepted once, or again with the same idempotency key."`
}
