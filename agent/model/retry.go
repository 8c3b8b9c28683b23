package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/toolyard/toolyard/internal/trust/outbound"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

const (
	maxRetries    = 2
	firstPause    = 500 * time.Millisecond
	maxPause      = 8 * time.Second
	maxRetryAfter = time.Minute // longer pauses are left to the caller
)

func fail(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// sleep waits before the next attempt. It returns false if the pause would exceed the deadline or
// [maxRetryAfter], or if ctx ends.
func sleep(ctx context.Context, requested time.Duration, attempt int) bool {
	pause := min(firstPause<<attempt, maxPause)
	pause -= rand.N(pause / 4) //nolint:gosec // a pause need not be secret
	if requested > 0 {
		pause = requested
	}
	if deadline, ok := ctx.Deadline(); pause > maxRetryAfter || ok && time.Until(deadline) <= pause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// sendFailure describes a request that received no response.
func sendFailure(err error) *Error {
	if refused, ok := errors.AsType[*outbound.NotPublicError](err); ok {
		return fail(Rejected, "%v", refused)
	}
	f := fail(Unavailable, "no response: %v", err)
	f.retry = true
	return f
}

// statusFailure describes a response with a status other than 200.
func statusFailure(res *http.Response) *Error {
	data, _ := io.ReadAll(io.LimitReader(res.Body, maxFailure)) // a partial body is sufficient
	p := parseProviderError(data)
	f := &Error{Kind: Rejected, Status: res.StatusCode, Code: p.code, Message: p.message}
	if f.Message == "" {
		f.Message = "the provider gave no reason"
	}
	switch status := res.StatusCode; {
	case slices.Contains(finalCodes, p.code):
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooManyRequests, status >= 500:
		f.Kind, f.retry = Unavailable, true
	}
	switch res.Header.Get("X-Should-Retry") {
	case "true":
		f.Kind, f.retry = Unavailable, true
	case "false":
		f.retry = false
	}
	f.RetryAfter = retryAfter(res.Header, time.Now())
	setDefault(&f.RetryAfter, p.retryAfter)
	return f
}

// retryAfter returns the pause that a response requests, or zero.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		return seconds(ms / 1000)
	}
	text := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		return seconds(s)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// seconds converts a number from a header. It returns zero unless the number is a positive
// duration.
func seconds(s float64) time.Duration {
	const longest = float64(24 * time.Hour / time.Second)
	if !(s > 0) { // also covers NaN
		return 0
	}
	return time.Duration(min(s, longest) * float64(time.Second))
}

// requireEventStream refuses other responses with status 200, such as a proxy's error page.
func requireEventStream(res *http.Response) *Error {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kind == "text/event-stream" {
		return nil
	}
	if kind == "application/json" {
		data, _ := io.ReadAll(io.LimitReader(res.Body, maxFailure))
		if p := parseProviderError(data); p.message != "" {
			return p.failure()
		}
	}
	f := fail(Invalid, "the server sent %s instead of an event stream; check the URL", untrusted.Quote(kind))
	f.Status = res.StatusCode
	return f
}

// finalCodes are error codes for which retrying does not help.
var finalCodes = []string{
	"insufficient_quota", "billing_error", "invalid_request_error", "authentication_error", "permission_error",
	"not_found_error", "request_too_large", "invalid_prompt", "model_not_found", "invalid_api_key",
	"context_length_exceeded", "INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND", "FAILED_PRECONDITION",
}

// providerError is a provider's description of an error.
type providerError struct {
	code, message string
	retryAfter    time.Duration
}

// failure returns the error for a failure in a response with status 200.
func (p providerError) failure() *Error {
	f := &Error{Kind: Unavailable, Code: p.code, Message: p.message, RetryAfter: p.retryAfter, retry: true}
	status, _ := strconv.Atoi(p.code)
	clientError := status >= 400 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusConflict &&
		status != http.StatusTooManyRequests
	if clientError || slices.Contains(finalCodes, p.code) {
		f.Kind, f.retry = Rejected, false
	}
	if f.Message == "" {
		f.Message = "the provider gave no reason"
	}
	return f
}

// parseProviderError reads the error formats of all providers. Compatible servers mix them.
func parseProviderError(data []byte) (p providerError) {
	var body struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(data, &body) != nil {
		return p
	}
	p.message = body.Message
	if p.message == "" && len(body.Detail) > 0 {
		p.message = text(body.Detail)
	}
	if len(body.Error) == 0 || string(body.Error) == "null" {
		return p
	}
	var e struct {
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"`
		Status  string          `json:"status"`
		Message string          `json:"message"`
		Details []struct {
			RetryDelay string `json:"retryDelay"`
		} `json:"details"`
	}
	if json.Unmarshal(body.Error, &e) != nil {
		p.message = text(body.Error)
		return p
	}
	p.message = e.Message
	for _, candidate := range []string{e.Status, text(e.Code), e.Type} {
		if p.code == "" && candidate != "null" {
			p.code = candidate
		}
	}
	for _, d := range e.Details {
		if delay, err := time.ParseDuration(d.RetryDelay); err == nil && delay > 0 {
			p.retryAfter = delay
		}
	}
	return p
}

// text returns the value of a JSON string, or any other JSON unchanged.
func text(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	return string(value)
}
