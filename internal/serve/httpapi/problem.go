package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
)

// statuses maps the codes of refused requests to HTTP statuses.
var statuses = map[toolyard.Code]int{
	toolyard.Invalid:             http.StatusBadRequest,
	toolyard.MissingCapability:   http.StatusBadRequest,
	toolyard.Unauthenticated:     http.StatusUnauthorized,
	toolyard.BudgetExceeded:      http.StatusPaymentRequired,
	toolyard.PermissionDenied:    http.StatusForbidden,
	toolyard.ApprovalRequired:    http.StatusForbidden,
	toolyard.UnknownTool:         http.StatusNotFound,
	toolyard.NotFound:            http.StatusNotFound,
	toolyard.VersionConflict:     http.StatusConflict,
	toolyard.IdempotencyConflict: http.StatusConflict,
	toolyard.InProgress:          http.StatusConflict,
	toolyard.OutcomeUnknown:      http.StatusConflict,
	toolyard.ArgsTooLarge:        http.StatusRequestEntityTooLarge,
	toolyard.RateLimited:         http.StatusTooManyRequests,
	toolyard.Internal:            http.StatusInternalServerError,
	toolyard.Unavailable:         http.StatusServiceUnavailable,
	toolyard.Canceled:            http.StatusServiceUnavailable,
	toolyard.Timeout:             http.StatusGatewayTimeout,
}

// toolFailures are the codes of calls that ran and failed. The failure is then the tool's result.
var toolFailures = []toolyard.Code{toolyard.Failed, toolyard.InvalidOutput, toolyard.NoData, toolyard.ResultTooLarge}

// problemOf converts an error to one that callers may see, without internal details.
func problemOf(err error) *toolyard.Error {
	if e, ok := errors.AsType[*toolyard.Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, store.ErrUnavailable):
		return &toolyard.Error{Code: toolyard.Unavailable, Message: "The store is unavailable.", RetryAfter: time.Second, Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &toolyard.Error{Code: toolyard.Timeout, Message: "The request timed out.", Err: err}
	case errors.Is(err, context.Canceled):
		return &toolyard.Error{Code: toolyard.Canceled, Message: "The request was canceled.", Err: err}
	}
	return &toolyard.Error{Code: toolyard.Internal, Message: "Internal error.", Err: err}
}

// Status returns the HTTP status of a call that fails with an error code. It is 200 if the failure
// is the tool's result.
func Status(code toolyard.Code) int {
	if status, ok := statuses[code]; ok {
		return status
	}
	return http.StatusOK
}

// statusOf returns the HTTP status for a refused request.
func statusOf(e *toolyard.Error) int {
	if status, ok := statuses[e.Code]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// problem holds the members defined by RFC 9457, which precede those of toolyard.Error.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// problemJSON encodes an error as a problem document.
func problemJSON(status int, e *toolyard.Error) json.RawMessage {
	head, _ := json.Marshal(problem{ // cannot fail
		Type: "urn:toolyard:problem:" + string(e.Code), Title: http.StatusText(status), Status: status, Detail: e.Message,
	})
	return slices.Concat(head[:len(head)-1], []byte(","), e.Data()[1:])
}

func sendProblem(w http.ResponseWriter, status int, e *toolyard.Error) {
	send(w, status, "application/problem+json", problemJSON(status, e))
}

// send writes a JSON response.
func send(w http.ResponseWriter, status int, media string, body json.RawMessage) {
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func invalid(format string, args ...any) *toolyard.Error {
	return toolyard.Errorf(toolyard.Invalid, format, args...)
}

func notFound(format string, args ...any) *toolyard.Error {
	return toolyard.Errorf(toolyard.NotFound, format, args...)
}
