// Package model calls language models. A [Model] takes a conversation and a list of functions and
// returns the model's next turn: text, function calls, or both.
//
// The drivers for the Anthropic, OpenAI and Google APIs, and for the many servers that are
// compatible with OpenAI's Chat Completions, share one set of types, limits and errors. They send
// the opaque parts of a turn (signed thinking, encrypted reasoning, thought signatures) back byte
// for byte, as the providers require.
package model

import (
	"context"
	"encoding/json"
)

// Model is a language model. It is safe for concurrent use.
type Model interface {
	// Turn sends a conversation and returns the model's next turn. It reports progress to on, which
	// may be nil, from the calling goroutine. Errors have the type [*Error]; if ctx ended, the
	// error wraps its cause instead. An incomplete response is an error.
	Turn(ctx context.Context, r *Request, on func(Event)) (*Turn, error)
}

// Request is a conversation that the model should continue.
type Request struct {
	System   string     // instructions; must not be built from untrusted text
	Tools    []Function // functions that the model may call
	Messages []Message

	// NoTools requests text only. The functions stay declared, because earlier turns refer to them.
	NoTools bool

	MaxOutput   int      // maximum number of tokens to generate; zero for the [Client]'s maximum
	Temperature *float64 // nil for the model's default
}

// Function is a function that a model may call.
type Function struct {
	Name        string // at most 64 letters, digits, _ and -
	Description string
	Parameters  json.RawMessage // JSON Schema of an object; nil if there are no parameters
}

// Message is a part of a conversation. Exactly one field is set. A turn with calls must be followed
// by a message with one answer for each call, in the same order.
type Message struct {
	Text    string // from the user
	Turn    *Turn  // an earlier turn by the model
	Answers []Answer
}

// Answer is the result of a call.
type Answer struct {
	ID     string // ID of the call
	Text   string
	Failed bool // whether Text describes an error
}

// Turn is one response of a model.
type Turn struct {
	Text  string         `json:"text,omitempty"`
	Calls []FunctionCall `json:"calls,omitempty"`
	Stop  Stop           `json:"stop"`
	Usage Usage          `json:"usage"`

	// Raw contains all parts of the turn, including opaque ones, in the API's wire format. A driver
	// for the same API sends these bytes back unchanged. If Raw is nil, or for a different API, the
	// turn is rebuilt from Text and Calls.
	Raw json.RawMessage `json:"raw,omitempty"`
	API API             `json:"api,omitempty"`
}

// FunctionCall is a call that a model requests.
type FunctionCall struct {
	ID        string          `json:"id"` // unique within the turn
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // a JSON object; nil if Invalid is set

	// Invalid explains why the call must not run: its arguments are not a JSON object, or the turn
	// ended in the middle of the call. The call still needs an answer.
	Invalid string `json:"invalid,omitempty"`
}

// Stop is the reason why a turn ended.
type Stop string

// Possible reasons. If a model refuses to respond, the result is an [*Error] of kind [Refused]
// instead.
const (
	StopEnd       Stop = "end"       // the turn is complete and has no calls
	StopCalls     Stop = "calls"     // the model is waiting for answers to its calls
	StopLength    Stop = "length"    // the turn reached the maximum output; its last call is invalid
	StopContext   Stop = "context"   // the conversation filled the model's context window
	StopPause     Stop = "pause"     // the model will continue when it receives its turn back
	StopMalformed Stop = "malformed" // the model generated a call that the provider could not parse
)

// Usage counts tokens.
type Usage struct {
	Input      int64 `json:"input"`                // includes Cached and CacheWrite
	Cached     int64 `json:"cached,omitempty"`     // part of Input that was read from a cache
	CacheWrite int64 `json:"cacheWrite,omitempty"` // part of Input that was written to a cache
	Output     int64 `json:"output"`               // includes Reasoning
	Reasoning  int64 `json:"reasoning,omitempty"`  // part of Output that is not shown
	Estimated  bool  `json:"estimated,omitempty"`  // whether the counts are estimated from sizes, because the server sent none
}

// Event reports the progress of a turn. Exactly one field is set.
type Event struct {
	Text string // next part of the answer
	Call string // name of a function whose call has started
}

// API is a wire format.
type API string

// The supported wire formats.
const (
	Anthropic API = "anthropic" // Anthropic Messages
	OpenAI    API = "openai"    // OpenAI Responses
	Chat      API = "chat"      // OpenAI Chat Completions, which many servers implement
	Gemini    API = "gemini"    // Gemini generateContent
)
