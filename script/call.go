package script

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/jsvm"
	"github.com/toolyard/toolyard/internal/trust/jsonschema"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// scriptTool runs one of a script's tools.
type scriptTool struct {
	pool       runner
	module     *jsvm.Module
	export     string
	shared     bool
	structured bool // whether the tool has an output schema
	reach      *reach
}

// runner runs scripts. It is a [jsvm.Pool] except in tests.
type runner interface {
	Run(ctx context.Context, r *jsvm.Run) (json.RawMessage, error)
}

// request is the harness's input for a call.
type request struct {
	Export string          `json:"export"`
	Args   json.RawMessage `json:"args"`
	Ctx    string          `json:"ctx"` // a callContext as JSON; the harness parses it on demand
}

// callContext is the data in a script's ctx.
type callContext struct {
	Authorized *authorized   `json:"authorized,omitempty"`
	Mode       toolyard.Mode `json:"mode"`
	AsOf       int64         `json:"asOf"`
	RequestID  string        `json:"requestId"`
	Gate       string        `json:"gate"`
}

// authorized describes an authenticated caller.
type authorized struct {
	UserID  string   `json:"user_id"`
	Account string   `json:"account,omitempty"`
	Roles   []string `json:"roles"`
}

func contextOf(c *toolyard.Call) string {
	ctx := callContext{Mode: c.Mode, AsOf: c.AsOf.UnixMilli(), RequestID: c.ID, Gate: c.Gate}
	if c.Caller.Authenticated() {
		ctx.Authorized = &authorized{c.Caller.ID, c.Caller.Account, append([]string{}, c.Caller.Roles...)}
	}
	raw, _ := json.Marshal(ctx) // cannot fail
	return string(raw)
}

// call is the tool's handler.
func (s *scriptTool) call(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
	raw, err := json.Marshal(request{s.export, c.Args, contextOf(c)})
	if err != nil {
		return nil, err
	}
	logger := c.Logger()
	o := &hostAPI{call: c, reach: s.reach, loads: make(chan struct{}, maxLoads)}
	answer, err := s.pool.Run(ctx, &jsvm.Run{
		Module: s.module, Request: raw, Now: c.AsOf, Shared: s.shared, Nested: c.Depth > 0, Host: o.answer, Notify: o.notify,
		Log: func(level slog.Level, text string) { logger.Log(ctx, level, text, "script", s.module.Name) }, //nolint:sloglint // the script's own message
	})
	if asked := o.unanswered(err != nil); asked != nil {
		return nil, asked
	}
	if err != nil {
		return nil, s.failure(ctx, c, err, o.acted.Load())
	}
	return s.result(c.Tool, answer)
}

// result converts the function's return value.
func (s *scriptTool) result(tool *toolyard.Tool, answer json.RawMessage) (*toolyard.Result, error) {
	var returned struct {
		Text  *string
		Value json.RawMessage
	}
	if err := json.Unmarshal(answer, &returned); err != nil {
		return nil, err
	}
	switch {
	case returned.Text != nil:
		return toolyard.ResultOf(*returned.Text)
	case returned.Value == nil:
		return toolyard.ResultOf(nil)
	case s.structured && !isFailure(returned.Value):
		return tool.ResultOf(returned.Value)
	}
	return toolyard.ResultOf(withoutReserved(returned.Value))
}

// withoutReserved removes metadata that only the platform may set.
func withoutReserved(value json.RawMessage) json.RawMessage {
	var result map[string]json.RawMessage
	var meta map[string]json.RawMessage
	if json.Unmarshal(value, &result) != nil || json.Unmarshal(result["_meta"], &meta) != nil {
		return value
	}
	maps.DeleteFunc(meta, func(key string, _ json.RawMessage) bool {
		return strings.HasPrefix(key, "dev.toolyard/") || strings.HasPrefix(key, "io.modelcontextprotocol/")
	})
	result["_meta"], _ = json.Marshal(meta)
	clean, err := json.Marshal(result)
	if err != nil {
		return value
	}
	return clean
}

// isFailure reports whether a value has isError: true.
func isFailure(value json.RawMessage) bool {
	var v struct {
		IsError any `json:"isError"`
	}
	return json.Unmarshal(value, &v) == nil && v.IsError == true
}

// maxThrown limits the length of an exception's message, in bytes.
const maxThrown = 16 << 10

// Thrown is an exception thrown by a script, for the author and the log. Callers see only its message.
type Thrown struct {
	Message      string // includes the error's name
	Stack        string // only frames in the author's files
	File         string // empty if unknown
	Line, Column int
}

// Trace returns the stack frames in the author's files.
func (t *Thrown) Trace() string { return t.Stack }

func (t *Thrown) Error() string {
	if t.File == "" {
		return t.Message
	}
	return fmt.Sprintf("%s (%s:%d:%d)", t.Message, t.File, t.Line, t.Column)
}

// failure converts an engine error to a [toolyard.Error]. The position in the script is only
// logged. acted is true if the script may have had an effect.
func (s *scriptTool) failure(ctx context.Context, c *toolyard.Call, err error, acted bool) error {
	var e *jsvm.Exception
	var stopped *jsvm.Stopped
	switch {
	case errors.As(err, &e) && e.Name == "ZodError" && len(e.Issues) > 0:
		return &toolyard.Error{Code: toolyard.Invalid, Message: "Invalid arguments for " + c.Tool.Name, Issues: issuesOf(e.Issues)}
	case errors.As(err, &e):
		return thrownError(e)
	case errors.As(err, &stopped):
		return stoppedError(ctx, c, stopped.Reason, acted)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return &toolyard.Error{Code: toolyard.Unavailable, Message: c.Tool.Name + " could not be run: " + err.Error(), Err: err}
}

// thrownError converts an exception. A ToolError determines the code.
func thrownError(e *jsvm.Exception) *toolyard.Error {
	converted := &toolyard.Error{Code: toolyard.Failed, Message: untrusted.Truncate(e.Message, maxThrown), Err: &Thrown{e.Error(), e.Stack, e.File, e.Line, e.Column}}
	if e.Name != "ToolError" || !mayChoose(toolyard.Code(e.Code)) {
		return converted
	}
	converted.Code = toolyard.Code(e.Code)
	if len(e.Issues) > 0 {
		converted.Issues = issuesOf(e.Issues)
	}
	if e.RetryAfterMS > 0 {
		converted.RetryAfter = time.Duration(min(e.RetryAfterMS, maxRetryAfterMS) * float64(time.Millisecond))
	}
	return converted
}

// maxRetryAfterMS is the longest delay that a script can request, one day.
const maxRetryAfterMS = 24 * 60 * 60 * 1000

var ownCode = regexp.MustCompile(`^[A-Z][A-Z0-9_]{2,63}$`)

// mayChoose reports whether a script may fail with a code: either one of its own, or one whose
// meaning does not depend on the platform's actions.
func mayChoose(code toolyard.Code) bool {
	switch code {
	case toolyard.Invalid, toolyard.NotFound, toolyard.NoData, toolyard.Unavailable, toolyard.RateLimited, toolyard.PermissionDenied, toolyard.Failed:
		return true
	}
	return ownCode.MatchString(string(code)) && !code.Predefined()
}

// stopCodes are the error codes for stopped runs. Runs that stop for another reason count as tool
// failures.
var stopCodes = map[jsvm.Reason]toolyard.Code{
	jsvm.DeadlineExceeded: toolyard.Timeout, jsvm.CPUExceeded: toolyard.Timeout, jsvm.Canceled: toolyard.Canceled, jsvm.WorkerDied: toolyard.Unavailable,
}

func stoppedError(ctx context.Context, c *toolyard.Call, reason jsvm.Reason, acted bool) error {
	switch {
	case reason == jsvm.Canceled && ctx.Err() != nil:
		return ctx.Err()
	case reason == jsvm.WorkerFull && !acted:
		return &toolyard.Error{Code: toolyard.RateLimited, Message: fmt.Sprintf("%s was stopped: %s.", c.Tool.Name, reason), RetryAfter: time.Second}
	case reason == jsvm.WorkerFull:
		return toolyard.Errorf(toolyard.Unavailable, "%s was stopped: %s. It may already have made changes.", c.Tool.Name, reason)
	}
	return toolyard.Errorf(cmp.Or(stopCodes[reason], toolyard.Failed), "%s was stopped: %s.", c.Tool.Name, reason)
}

// issuesOf converts zod issues.
func issuesOf(raw json.RawMessage) (issues []toolyard.Issue) {
	var list []struct {
		Path    []any // strings, or numbers for array elements
		Message string
	}
	if json.Unmarshal(raw, &list) != nil {
		return []toolyard.Issue{{Message: "the arguments do not match the schema"}}
	}
	for _, i := range list[:min(len(list), 100)] {
		location := make([]string, 0, len(i.Path))
		for _, step := range i.Path {
			location = append(location, fmt.Sprint(step))
		}
		issues = append(issues, toolyard.Issue{Path: untrusted.Prefix(jsonschema.FormatPath(location), 200), Message: untrusted.Prefix(i.Message, 1000), Location: location})
	}
	return issues
}
