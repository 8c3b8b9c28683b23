package toolyard

import (
	"context"
	"time"
)

// Outcome is the result of a call, or its error.
type Outcome struct {
	Result  *Result
	Err     *Error
	Start   time.Time
	Elapsed time.Duration
}

// Outcome codes that no [Error] has.
const (
	OK        Code = "OK"         // The call succeeded.
	toolError Code = "TOOL_ERROR" // The tool returned a result with isError.
)

// Code returns OK, TOOL_ERROR or the code of the error.
func (o Outcome) Code() Code {
	switch {
	case o.Err != nil:
		return o.Err.Code
	case o.Result.IsError:
		return toolError
	}
	return OK
}

// Recorder is notified of calls, for logs, audits and metrics.
type Recorder interface {
	// Intent is called before a tool that may write runs. If it returns an error, the call is
	// refused.
	Intent(context.Context, *Call) error
	// Outcome is called after every call, including refused ones.
	Outcome(context.Context, *Call, Outcome)
}
