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
	// may be nil, from the calling goroutine. Errors have the type [*Error], unless ctx ended: then
	// the error wraps the cause of ctx. An incomplete response is an error.
	Turn(ctx context.Context, r *Request, on func(Event)) (*Turn, error)
}

// Request is a conversation that the model should continue.
type Request struct {
	System   string     // instructions; must not be built from untrusted text
	Tools    []Function // the functions that the model may call
	Messages []Message

	// NoTools requests text only. The functions stay declared, because earlier turns refer to them.
	NoTools bool

	MaxOutput   int      // tokens that the model may generate; zero for the maximum of the [Client]
	Temperature *float64 // nil for the model's default
}

// Function is a function that a model may call.
type Function struct {
	Name        string // letters, digits, _ and -; at most 64 bytes
	Description string
	Parameters  json.RawMessage // JSON Schema of an object; nil for no parameters
}

// Message is a part of a conversation. Exactly one field is set. A turn with calls must be followed
// by a message with one answer for each call, in the same order.
type Message struct {
	Text    string // from the user
	Turn    *Turn  // an earlier turn of the model
	Answers []Answer
}

// Answer is the result of a call.
type Answer struct {
	ID     string // of the call
	Text   string
	Failed bool // Text describes an error
}

// Turn is one response of a model.
type Turn struct {
	Text  string         `json:"text,omitempty"`
	Calls []FunctionCall `json:"calls,omitempty"`
	Stop  Stop           `json:"stop"`
	Usage Usage          `json:"usage"`

	// Raw contains all parts of the turn, including opaque ones, in the API's wire format. A driver
	// for the same API sends these bytes back unchanged. Without Raw, or for a different API, the
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

// The reasons. A model that refuses to respond causes an [*Error] of kind [Refused] instead.
const (
	StopEnd       Stop = "end"       // the turn is complete and has no calls
	StopCalls     Stop = "calls"     // the model waits for answers to its calls
	StopLength    Stop = "length"    // the turn reached the maximum output; its last call is invalid
	StopContext   Stop = "context"   // the conversation filled the model's context window
	StopPause     Stop = "pause"     // the model continues when it receives its turn back
	StopMalformed Stop = "malformed" // the model generated a call that the provider could not parse
)

// Usage counts tokens.
type Usage struct {
	Input      int64 `json:"input"`                // including Cached and CacheWrite
	Cached     int64 `json:"cached,omitempty"`     // part of Input that was read from a cache
	CacheWrite int64 `json:"cacheWrite,omitempty"` // part of Input that was written to a cache
	Output     int64 `json:"output"`               // including Reasoning
	Reasoning  int64 `json:"reasoning,omitempty"`  // part of Output that is not shown
	Estimated  bool  `json:"estimated,omitempty"`  // estimated from sizes, because the server sent no counts
}

// Event reports the progress of a turn. Exactly one field is set.
type Event struct {
	Text string // the next part of the answer
	Call string // the name of a function whose call has started
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
