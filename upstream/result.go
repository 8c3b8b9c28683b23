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

// result makes the outcome of a request that of a call.
func (v *Server) result(s *session, method string, raw json.RawMessage, err error) (*toolyard.Result, error) {
	if err != nil {
		return nil, v.failure(s, err)
	}
	s.served.Store(true)
	s.failed.Store(0)
	if err := checkResult(method, raw); err != nil {
		return nil, toolyard.Errorf(toolyard.InvalidOutput, "The server %s sent a result that is none: %s", v.opts.ID, v.words(err))
	}
	return toolyard.RawResult(v.withoutSecrets(withoutHop(raw)))
}

// checkResult refuses a result that clients could not read. What is new to us may pass, what
// is known must be what it is said to be.
func checkResult(method string, raw json.RawMessage) error {
	kind := strictjson.Member(raw, "resultType")
	switch {
	case kind != nil && string(kind) != `"complete"` && string(kind) != `"input_required"`:
		return fmt.Errorf("its kind, %.60s, is not known", kind)
	case string(kind) == `"input_required"`:
		for _, asked := range strictjson.Members(strictjson.Member(raw, "inputRequests")) {
			if text(asked, "method") != "elicitation/create" {
				return errors.New("it asks the client for something that is not passed on")
			}
		}
		return nil
	case method != "tools/call":
		return nil
	}
	if failed := string(strictjson.Member(raw, "isError")); failed != "" && failed != "true" && failed != "false" {
		return errors.New("isError is neither true nor false")
	}
	if content := strictjson.Member(raw, "content"); content != nil {
		return checkContent(content)
	}
	return nil
}

// maxChecked is how many items of content are looked at. Who sends more is cut anyway.
const maxChecked = 1000

// checkContent refuses content that is not a list of objects with a type.
func checkContent(content json.RawMessage) error {
	items := json.NewDecoder(bytes.NewReader(content))
	if t, err := items.Token(); err != nil || t != json.Delim('[') {
		return errors.New("its content is no list")
	}
	for range maxChecked {
		if !items.More() {
			return nil
		}
		var item json.RawMessage
		if items.Decode(&item) != nil || text(item, "type") == "" {
			return errors.New("a content has no type")
		}
	}
	return nil
}

// withoutSecrets takes secrets out of a result that is a failure. What a tool answers
// otherwise is its own affair.
func (v *Server) withoutSecrets(raw json.RawMessage) json.RawMessage {
	if string(strictjson.Member(raw, "isError")) != "true" {
		return raw
	}
	return redactTexts(raw, v.opts.Redact)
}

// redactTexts takes secrets out of all texts of a JSON value, however they are escaped. All
// else keeps its bytes.
func redactTexts(raw json.RawMessage, redact func(string) string) json.RawMessage {
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

// words are what a server said, as people are shown them: without secrets, and not more
// than they can read.
func (v *Server) words(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "it did not answer in time"
	}
	return untrusted.Truncate(v.opts.Redact(err.Error()), maxShown)
}

// failure is what a caller is told when a request failed, and notes what that says about
// the server.
func (v *Server) failure(s *session, err error) error {
	if e, ok := errors.AsType[*rpcError](err); ok {
		s.served.Store(true)
		s.failed.Store(0)
		return v.refusal(e)
	}
	if size, ok := errors.AsType[*sizeError](err); ok {
		return toolyard.Errorf(toolyard.ResultTooLarge, "The tool has run, but the server %s: %w", v.opts.ID, size)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	_, down := errors.AsType[*unreachable](err)
	if n := s.failed.Add(1); down || n >= strikes {
		select {
		case v.suspect <- struct{}{}:
		default: // it is looked at already
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		return v.refusedBy(status)
	}
	return v.unavailable(err)
}

// refusal is an error that the server answered with.
func (v *Server) refusal(e *rpcError) error {
	message := untrusted.Truncate(v.opts.Redact(e.Message), maxShown)
	out := &toolyard.Error{Code: toolyard.Failed, Message: message, Err: fmt.Errorf("%s (%d)", message, e.Code)}
	switch e.Code {
	case codeInvalidParams:
		out.Code = toolyard.Invalid
	case codeResourceNotFound:
		out.Code = toolyard.NotFound
	case codeMissingCapability:
		out.Code = toolyard.MissingCapability
		for name := range strictjson.Members(strictjson.Member(e.Data, "requiredCapabilities")) {
			out.Missing = append(out.Missing, v.opts.Redact(name))
		}
	}
	return out
}

// refusedBy is a status that the server answered with instead of a message.
func (v *Server) refusedBy(e *statusError) error {
	out := &toolyard.Error{Code: toolyard.Unavailable, RetryAfter: e.retryAfter}
	switch e.status {
	case http.StatusUnauthorized:
		out.Code = toolyard.Unauthenticated
	case http.StatusForbidden:
		out.Code = toolyard.PermissionDenied
	case http.StatusTooManyRequests:
		out.Code = toolyard.RateLimited
	}
	out.Message = fmt.Sprintf("The server %s refuses: %s", v.opts.ID, v.words(e))
	return out
}

// withoutHop leaves out of a result what was meant for us: who the server is, and which
// subscription it speaks of.
func withoutHop(raw json.RawMessage) json.RawMessage {
	meta := strictjson.Member(raw, "_meta")
	var left []byte
	found := false
	for key, value := range strictjson.Members(meta) {
		if key == metaServer || key == metaSubscription || strings.HasPrefix(key, ownPrefix) {
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
	at := cap(raw) - cap(meta) // meta is a part of raw
	out := make([]byte, 0, len(raw))
	out = append(append(append(out, raw[:at]...), '{'), left...)
	return append(append(out, '}'), raw[at+len(meta):]...)
}
