package toolyard

import (
	"context"
	"time"
)

// Outcome is how a call ended: a result, or an error.
type Outcome struct {
	Result  *Result
	Err     *Error
	Start   time.Time
	Elapsed time.Duration
}

// The codes of outcomes that are not errors of the platform.
const (
	OK        Code = "OK"
	ToolError Code = "TOOL_ERROR" // the result itself says that the tool failed
)

// Code is OK, ToolError or the error's code.
func (o Outcome) Code() Code {
	switch {
	case o.Err != nil:
		return o.Err.Code
	case o.Result.IsError:
		return ToolError
	}
	return OK
}

// A Recorder keeps the record of calls.
type Recorder interface {
	// Intent is told of a call that may write before it runs. An error refuses the
	// call: what cannot be recorded does not happen.
	Intent(context.Context, *Call) error
	// Outcome is told of every call after it ended.
	Outcome(context.Context, *Call, Outcome)
}
