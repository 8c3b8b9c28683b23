package toolyard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Code identifies the kind of an [Error]. Clients decide what to do based on the code, never on the
// message.
type Code string

// The error codes of the platform. Each has one meaning; docs/ERRORS.md lists them with their
// HTTP statuses and JSON-RPC codes. A tool can define its own codes.
const (
	Invalid             Code = "VALIDATION_ERROR"     // The arguments or parameters are invalid; see the issues.
	ArgsTooLarge        Code = "SIZE_LIMIT"           // The arguments are too large.
	ResultTooLarge      Code = "RESULT_SIZE_LIMIT"    // The tool ran, but its result is too large.
	UnknownTool         Code = "METHOD_NOT_FOUND"     // The gate does not offer this tool.
	NotFound            Code = "NOT_FOUND"            // The session, account, gate, resource, prompt, key or record does not exist.
	Failed              Code = "TOOL_EXECUTION_ERROR" // The tool failed.
	InvalidOutput       Code = "OUTPUT_ERROR"         // The tool ran, but its result violates its output schema.
	NoData              Code = "NO_DATA"              // Required data is missing; for example, the caller has not linked an account.
	Timeout             Code = "TIMEOUT"              // The call took too long. It may already have made changes.
	Canceled            Code = "CANCELED"             // The caller disconnected or canceled the call.
	Unavailable         Code = "UNAVAILABLE"          // The store, a server or a service is down. Without `retryAfterMs`, the tool may have run.
	RateLimited         Code = "RATE_LIMITED"         // A limit has been reached. Retry after `retryAfterMs`.
	BudgetExceeded      Code = "BUDGET_EXCEEDED"      // The session or account has too little money or no calls left, the session is closed or expired, or a spend limit has been reached, in which case `retryAfterMs` is the time until it resets.
	IdempotencyConflict Code = "IDEMPOTENCY_CONFLICT" // The idempotency key or reference was used for another request.
	VersionConflict     Code = "VERSION_CONFLICT"     // The object is not in the expected state: it changed since you read it, or already exists. Reload it.
	InProgress          Code = "IN_PROGRESS"          // The call with this idempotency key is running. Repeat the request with the same key.
	OutcomeUnknown      Code = "OUTCOME_UNKNOWN"      // The call started, and its outcome is unknown.
	Unauthenticated     Code = "AUTHENTICATION_ERROR" // The credentials are missing or invalid.
	PermissionDenied    Code = "AUTHORIZATION_ERROR"  // The caller is not permitted to do this.
	ApprovalRequired    Code = "APPROVAL_REQUIRED"    // A rule requires the call to be approved. With `retryAfterMs`, repeat it with the same arguments once it is approved.
	MissingCapability   Code = "MISSING_CAPABILITY"   // The client lacks a capability that the tool requires; see `requiredCapabilities`.
	Internal            Code = "INTERNAL_ERROR"       // Toolyard has a bug. See its log.
)

// codes lists all of the platform's error codes.
var codes = []Code{
	Invalid, ArgsTooLarge, ResultTooLarge, UnknownTool, NotFound, Failed, InvalidOutput, NoData, Timeout, Canceled, Unavailable,
	RateLimited, BudgetExceeded, IdempotencyConflict, VersionConflict, InProgress, OutcomeUnknown, Unauthenticated, PermissionDenied, ApprovalRequired, MissingCapability, Internal,
}

// Predefined reports whether the code is defined by the platform and not by a tool.
func (c Code) Predefined() bool { return slices.Contains(codes, c) || c == OK || c == toolError }

// Retryable reports whether the same request may succeed later and can be sent again safely,
// because nothing ran. Errors with other codes are retryable if they have a RetryAfter; see
// [Error.Retryable].
func (c Code) Retryable() bool { return c == RateLimited || c == InProgress }

// Correctable reports whether a changed request, with other arguments or another name, can succeed.
// The model should correct its call; repeating it unchanged does not help.
func (c Code) Correctable() bool {
	return c == Invalid || c == ArgsTooLarge || c == UnknownTool || c == NotFound
}

// Error is the platform's error type. Its message is sent to the caller.
type Error struct {
	Code       Code
	Message    string
	Issues     []Issue       // problems with individual arguments
	RetryAfter time.Duration // time to wait before a retry; set only if nothing ran
	Missing    []string      // client capabilities for MissingCapability, otherwise scopes that the caller lacks
	Approval   string        // ID of the requested approval, for ApprovalRequired
	Expires    time.Time     // when that request expires
	Secret     string        // the part of the message that only the caller may see, such as a link's ticket; see [Error.Redacted]
	Err        error         // the cause; logged, never sent
}

// Issue describes what is wrong with one value. Path locates the value, such as "options.depth" or
// "items[2]", and is empty for the whole value.
type Issue struct {
	Path     string   `json:"path"`
	Message  string   `json:"message"`
	Location []string `json:"-"` // elements of the path
}

// Errorf returns an Error with a formatted message, which is sent to the caller. An error formatted
// with %w becomes the cause, and its text is sent too; build an Error yourself if the cause must be
// logged but not sent.
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

// Redacted returns the error as it is logged, traced and recorded: its message does not contain the
// secret.
func (e *Error) Redacted() *Error {
	if e.Secret == "" {
		return e
	}
	redacted := *e
	redacted.Message, redacted.Secret = strings.ReplaceAll(e.Message, e.Secret, "[redacted]"), ""
	return &redacted
}

// Retryable reports whether the same request may succeed later and can be sent again safely.
// An error with RetryAfter is retryable regardless of its code, because nothing ran.
func (e *Error) Retryable() bool { return e.Code.Retryable() || e.RetryAfter > 0 }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// AsError returns the Error in err's chain. Any other error counts as a tool failure, except that a
// context error becomes a timeout or a cancellation.
func AsError(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: Timeout, Message: "The call timed out and was stopped.", Err: err}
	case errors.Is(err, context.Canceled):
		return &Error{Code: Canceled, Message: "The call was canceled.", Err: err}
	}
	return &Error{Code: Failed, Message: err.Error(), Err: err}
}

// RetrySeconds returns RetryAfter as the value of the HTTP header Retry-After: whole seconds, at
// least one.
func (e *Error) RetrySeconds() string {
	return strconv.Itoa(max(1, int(math.Ceil(e.RetryAfter.Seconds()))))
}

// metaError is the key for the error data in a result's _meta. The data is not structured content,
// because clients validate structured content against the tool's output schema even for errors.
const metaError = "dev.toolyard/error"

// Result returns the error as a tool result, with text for the model and data in _meta.
func (e *Error) Result() *Result {
	text := e.Error()
	if e.Code == Failed {
		text = "Error: " + text
	}
	return &Result{Content: []Content{Text(text)}, IsError: true, Meta: map[string]json.RawMessage{metaError: e.Data()}}
}

// Data returns the error as JSON. Results and JSON-RPC errors contain the same data.
func (e *Error) Data() json.RawMessage {
	data := struct {
		Error        Code           `json:"error"`
		Message      string         `json:"message"`
		Retryable    bool           `json:"retryable"`
		Correctable  bool           `json:"correctable"`
		Issues       []Issue        `json:"issues,omitempty"`
		RetryAfterMS int64          `json:"retryAfterMs,omitempty"`
		Capabilities map[string]any `json:"requiredCapabilities,omitempty"`
		Scopes       []string       `json:"requiredScopes,omitempty"`
		Approval     string         `json:"approval,omitempty"`
		Expires      time.Time      `json:"expiresAt,omitzero"`
	}{Error: e.Code, Message: e.Message, Retryable: e.Retryable(), Correctable: e.Code.Correctable(), Issues: e.Issues, Approval: e.Approval, Expires: e.Expires}
	if e.RetryAfter > 0 {
		data.RetryAfterMS = int64(math.Ceil(float64(e.RetryAfter) / 1e6))
	}
	if e.Code == MissingCapability {
		data.Capabilities = nested(e.Missing)
	} else {
		data.Scopes = e.Missing
	}
	raw, _ := json.Marshal(data) // cannot fail
	return raw
}

// nested returns capabilities in MCP's nested form: elicitation.url becomes a member of
// elicitation.
func nested(capabilities []string) map[string]any {
	root := make(map[string]any)
	for _, name := range capabilities {
		at := root
		for part := range strings.SplitSeq(name, ".") {
			inner, ok := at[part].(map[string]any)
			if !ok {
				inner = make(map[string]any)
				at[part] = inner
			}
			at = inner
		}
	}
	return root
}
