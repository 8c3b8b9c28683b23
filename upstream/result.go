package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// result converts a request's outcome into a call's result or error.
func (conv *conversations) result(ctx context.Context, s *session, r *request, raw json.RawMessage, err error) (*toolyard.Result, error) {
	if err != nil {
		return nil, conv.failure(s, err)
	}
	s.answered.Store(true)
	s.failures.Store(0)
	if err := checkResult(r.method, raw); err != nil {
		return nil, toolyard.Errorf(toolyard.InvalidOutput, "Server %s sent an invalid result: %s", conv.opts.ID, conv.describe(err))
	}
	res := &toolyard.Result{}
	return res, res.UnmarshalJSON(conv.redactFailure(conv.redactCredentials(ctx, r.call, withoutTransportMeta(raw))))
}

// checkResult rejects results that clients could not read. Unknown members are allowed; known ones
// must have the right type.
func checkResult(method string, raw json.RawMessage) error {
	kind := strictjson.Member(raw, "resultType")
	switch {
	case kind != nil && string(kind) != `"complete"` && string(kind) != `"input_required"`:
		return fmt.Errorf("unknown resultType %.60s", kind)
	case string(kind) == `"input_required"`:
		for _, input := range strictjson.Members(strictjson.Member(raw, "inputRequests")) {
			if text(input, "method") != "elicitation/create" {
				return errors.New("the server requests an unsupported type of input")
			}
		}
		return nil
	case method != "tools/call":
		return nil
	}
	if failed := string(strictjson.Member(raw, "isError")); failed != "" && failed != "true" && failed != "false" {
		return errors.New("isError must be a boolean")
	}
	if content := strictjson.Member(raw, "content"); content != nil {
		return checkContent(content)
	}
	return nil
}

// maxChecked limits how many content items are checked. Results with more items are truncated
// later.
const maxChecked = 1000

// checkContent rejects content that is not an array of objects with a type.
func checkContent(content json.RawMessage) error {
	items := json.NewDecoder(bytes.NewReader(content))
	if t, err := items.Token(); err != nil || t != json.Delim('[') {
		return errors.New("content must be an array")
	}
	for range maxChecked {
		if !items.More() {
			return nil
		}
		var item json.RawMessage
		if items.Decode(&item) != nil || text(item, "type") == "" {
			return errors.New("a content item has no type")
		}
	}
	return nil
}

// redactFailure removes secrets from a result that reports a failure. Other results are passed
// through unchanged.
func (conv *conversations) redactFailure(raw json.RawMessage) json.RawMessage {
	if string(strictjson.Member(raw, "isError")) != "true" {
		return raw
	}
	return redactJSON(raw, conv.opts.Redact)
}

// redactCredentials removes a call's credentials from its result, because a server may return the
// headers that it received.
func (conv *conversations) redactCredentials(ctx context.Context, c *toolyard.Call, raw json.RawMessage) json.RawMessage {
	if conv.opts.Authorizer == nil {
		return raw
	}
	header, err := conv.opts.Authorizer.Authorize(ctx, c)
	if err != nil { // the credentials were renewed or removed during the call
		return redactJSON(raw, conv.opts.Redact)
	}
	for _, values := range header {
		for _, value := range values {
			if _, token, ok := strings.Cut(value, " "); ok {
				value = token
			}
			if part := plainPart(value); len(part) >= minCredential && bytes.Contains(raw, []byte(part)) {
				raw = redactJSON(raw, func(s string) string { return strings.ReplaceAll(s, value, redacted) })
			}
		}
	}
	return raw
}

const (
	minCredential = 6 // in bytes; shorter credentials would match ordinary words
	redacted      = "[redacted]"
)

// plainPart returns the longest part of a string that is the same in every JSON escaping.
func plainPart(s string) (part string) {
	for run := range strings.FieldsFuncSeq(s, func(r rune) bool {
		return !strings.ContainsRune("-._~", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		if len(run) > len(part) {
			part = run
		}
	}
	return part
}

// redactJSON redacts all strings in a JSON value, regardless of how they are escaped. It leaves all
// other bytes unchanged.
func redactJSON(raw json.RawMessage, redact func(string) string) json.RawMessage {
	var out []byte
	kept := 0
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		end := i + 1
		for raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		if s, ok := strictjson.String(raw[i : end+1]); ok {
			if clean := redact(s); clean != s {
				out = jsonobject.AppendString(append(out, raw[kept:i]...), clean)
				kept = end + 1
			}
		}
		i = end
	}
	if kept == 0 {
		return raw
	}
	return append(out, raw[kept:]...)
}

// failure returns the error for a failed request, and triggers a probe if the server may be down.
func (conv *conversations) failure(s *session, err error) error {
	if e, ok := errors.AsType[*rpcError](err); ok {
		s.answered.Store(true)
		s.failures.Store(0)
		return conv.rpcFailure(e)
	}
	if e, ok := errors.AsType[*credentialError](err); ok {
		return e.err
	}
	if size, ok := errors.AsType[*sizeError](err); ok {
		return toolyard.Errorf(toolyard.ResultTooLarge, "The tool ran, but its result was dropped: server %s: %w", conv.opts.ID, size)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	_, down := errors.AsType[*unreachableError](err)
	if n := s.failures.Add(1); down || n >= maxFailures {
		conv.supervisor.requestProbe()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		return conv.statusFailure(status)
	}
	return conv.unavailable(err)
}

// rpcFailure converts a JSON-RPC error from the server into a call's error.
func (conv *conversations) rpcFailure(e *rpcError) error {
	message := untrusted.Truncate(conv.opts.Redact(e.Message), maxShown)
	out := &toolyard.Error{Code: toolyard.Failed, Message: message, Err: fmt.Errorf("%s (%d)", message, e.Code)}
	switch e.Code {
	case codeInvalidParams:
		out.Code = toolyard.Invalid
	case codeResourceNotFound:
		out.Code = toolyard.NotFound
	case codeMissingCapability:
		out.Code = toolyard.MissingCapability
		for name := range strictjson.Members(strictjson.Member(e.Data, "requiredCapabilities")) {
			out.Missing = append(out.Missing, conv.opts.Redact(name))
		}
	}
	return out
}

// statusFailure converts an HTTP status into a call's error.
func (conv *conversations) statusFailure(e *statusError) error {
	out := &toolyard.Error{Code: toolyard.Unavailable, RetryAfter: e.retryAfter}
	switch e.status {
	case http.StatusUnauthorized:
		out.Code = toolyard.Unauthenticated
	case http.StatusForbidden:
		out.Code = toolyard.PermissionDenied
	case http.StatusTooManyRequests:
		out.Code = toolyard.RateLimited
	}
	out.Message = fmt.Sprintf("Server %s refused the call: %s", conv.opts.ID, conv.describe(e))
	return out
}

// withoutTransportMeta removes metadata that is meant only for the server's direct client.
func withoutTransportMeta(raw json.RawMessage) json.RawMessage {
	meta := strictjson.Member(raw, "_meta")
	var left []byte
	found := false
	for key, value := range strictjson.Members(meta) {
		if key == metaServer || key == metaSubscription || strings.HasPrefix(key, reservedPrefix) {
			found = true
			continue
		}
		if len(left) > 0 {
			left = append(left, ',')
		}
		left = append(append(jsonobject.AppendString(left, key), ':'), value...)
	}
	if !found {
		return raw
	}
	at := cap(raw) - cap(meta) // meta is a subslice of raw
	out := make([]byte, 0, len(raw))
	out = append(append(append(out, raw[:at]...), '{'), left...)
	return append(append(out, '}'), raw[at+len(meta):]...)
}
