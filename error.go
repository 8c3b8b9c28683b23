package toolyard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Code says what kind of failure an [Error] is. What a caller may do about it
// follows from the code, never from the text.
type Code string

// The codes of the platform. A tool may use its own beside them.
const (
	Invalid             Code = "VALIDATION_ERROR"     // arguments do not fit the schema
	ArgsTooLarge        Code = "SIZE_LIMIT"           // arguments exceed their cap
	ResultTooLarge      Code = "RESULT_SIZE_LIMIT"    // the result exceeds its cap; the tool has run
	UnknownTool         Code = "METHOD_NOT_FOUND"     // no such tool at this gate
	NotFound            Code = "NOT_FOUND"            // no such session, account, resource or the like
	Failed              Code = "TOOL_EXECUTION_ERROR" // the tool itself failed
	InvalidOutput       Code = "OUTPUT_ERROR"         // the tool's result breaks its own schema
	NoData              Code = "NO_DATA"              // nothing to work on, such as an account that is not linked
	Timeout             Code = "TIMEOUT"              // the deadline passed
	Canceled            Code = "CANCELED"             // the caller went away
	Unavailable         Code = "UNAVAILABLE"          // what the tool needs cannot be reached
	RateLimited         Code = "RATE_LIMITED"         // a limit is reached; RetryAfter says until when
	BudgetExceeded      Code = "BUDGET_EXCEEDED"      // there is not enough money left, or no call
	IdempotencyConflict Code = "IDEMPOTENCY_CONFLICT" // the idempotency key belongs to another call
	VersionConflict     Code = "VERSION_CONFLICT"     // it changed since it was read; read it again and repeat the edit
	InProgress          Code = "IN_PROGRESS"          // the call with this idempotency key is running
	OutcomeUnknown      Code = "OUTCOME_UNKNOWN"      // it may have run; nobody can say how it ended
	Unauthenticated     Code = "AUTHENTICATION_ERROR" // who calls is not known
	PermissionDenied    Code = "AUTHORIZATION_ERROR"  // who calls may not
	MissingCapability   Code = "MISSING_CAPABILITY"   // the client lacks what the tool needs; Needs says what
	Internal            Code = "INTERNAL_ERROR"       // a fault of the platform
)

// Codes are all codes of the platform.
var Codes = []Code{
	Invalid, ArgsTooLarge, ResultTooLarge, UnknownTool, NotFound, Failed, InvalidOutput, NoData, Timeout, Canceled, Unavailable,
	RateLimited, BudgetExceeded, IdempotencyConflict, VersionConflict, InProgress, OutcomeUnknown, Unauthenticated, PermissionDenied, MissingCapability, Internal,
}

// Retryable reports whether the same request may succeed later and can be sent again safely,
// because nothing ran. Other codes are retryable if the error says when: see [Error.Retryable].
func (c Code) Retryable() bool { return c == RateLimited || c == InProgress }

// Correctable reports whether a changed request can succeed: other arguments, or another
// name. A model should correct its call; sending the same one again does not help.
func (c Code) Correctable() bool {
	return c == Invalid || c == ArgsTooLarge || c == UnknownTool || c == NotFound
}

// Error is the one error of the platform. Its message goes to the caller.
type Error struct {
	Code       Code
	Message    string
	Issues     []Issue       // what is wrong with which argument
	RetryAfter time.Duration // how long to wait, if waiting helps and nothing ran
	Missing    []string      // client capabilities that are missing
	Err        error         // the cause; logged, never sent
}

// Issue is one fault of one value. Path leads to it: "options.depth", "items[2]".
// It is empty for the value as a whole.
type Issue struct {
	Path     string   `json:"path"`
	Message  string   `json:"message"`
	Location []string `json:"-"` // the path, step by step
}

// Errorf makes an Error. The text goes to the caller, with that of an error formatted by
// %w, which also becomes the cause; make an Error by hand to keep a cause to the log.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

func (e *Error) Error() string {
	if len(e.Issues) == 0 {
		return e.Message
	}
	var b strings.Builder
	b.WriteString(e.Message)
	for i, issue := range e.Issues {
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		if issue.Path != "" {
			b.WriteString(issue.Path + ": ")
		}
		b.WriteString(issue.Message)
	}
	return b.String()
}

// Retryable reports whether the same request may succeed later and can be sent again safely.
// An error with RetryAfter is retryable whatever its code: it says that nothing ran.
func (e *Error) Retryable() bool { return e.Code.Retryable() || e.RetryAfter > 0 }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// AsError finds the Error in err. Any other error is a tool's failure, except that
// an ended context is a timeout or a cancellation.
func AsError(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: Timeout, Message: "The call took too long and was stopped.", Err: err}
	case errors.Is(err, context.Canceled):
		return &Error{Code: Canceled, Message: "The call was canceled.", Err: err}
	}
	return &Error{Code: Failed, Message: err.Error(), Err: err}
}

// RetrySeconds is how long to wait in whole seconds, at least one, as the header Retry-After
// of HTTP has it.
func (e *Error) RetrySeconds() string {
	return strconv.Itoa(max(1, int(math.Ceil(e.RetryAfter.Seconds()))))
}

// MetaError is the key of a result's _meta under which an error is told as data. It is not
// structured content: clients validate that against the tool's output schema, also for errors.
const MetaError = "dev.toolyard/error"

// Result shows the error to a model, in words and as data.
func (e *Error) Result() *Result {
	text := e.Error()
	if e.Code == Failed {
		text = "Error: " + text
	}
	return &Result{Content: []Content{Text(text)}, IsError: true, Meta: map[string]json.RawMessage{MetaError: e.Data()}}
}

// Data is the error as data, the same in results and in JSON-RPC errors.
func (e *Error) Data() json.RawMessage {
	data := struct {
		Error        Code           `json:"error"`
		Message      string         `json:"message"`
		Retryable    bool           `json:"retryable"`
		Correctable  bool           `json:"correctable"`
		Issues       []Issue        `json:"issues,omitempty"`
		RetryAfterMS int64          `json:"retryAfterMs,omitempty"`
		Needs        map[string]any `json:"requiredCapabilities,omitempty"`
	}{Error: e.Code, Message: e.Message, Retryable: e.Retryable(), Correctable: e.Code.Correctable(), Issues: e.Issues}
	if e.RetryAfter > 0 {
		data.RetryAfterMS = int64(math.Ceil(float64(e.RetryAfter) / 1e6))
	}
	for _, need := range e.Missing {
		if data.Needs == nil {
			data.Needs = make(map[string]any)
		}
		at := data.Needs
		for part := range strings.SplitSeq(need, ".") { // "elicitation.url" is a part of elicitation
			inner, ok := at[part].(map[string]any)
			if !ok {
				inner = make(map[string]any)
				at[part] = inner
			}
			at = inner
		}
	}
	raw, _ := json.Marshal(data) // always has a JSON form
	return raw
}
