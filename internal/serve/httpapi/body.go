package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Maximum size in bytes of bodies that do not contain arguments.
const (
	smallBody = 64 << 10
	largeBody = 1 << 20 // for bodies with lists of tools
)

// read decodes the request body, which must be a JSON object.
func read[T any](r *request, limit int64) (body T, err error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return body, invalid("The body must be JSON. Send it with Content-Type: application/json.")
	}
	data, err := io.ReadAll(http.MaxBytesReader(r.w, r.Body, limit))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return body, toolyard.Errorf(toolyard.ArgsTooLarge, "The body exceeds %d bytes.", limit)
		}
		return body, invalid("The body could not be read.")
	}
	// The server's read deadline would also end long responses.
	_ = http.NewResponseController(r.w).SetReadDeadline(time.Time{})
	return decode[T](r.Context(), data)
}

// decode decodes a JSON object strictly. It rejects ambiguous JSON, and members at any depth that
// are unknown or differ in case, which encoding/json would accept.
func decode[T any](ctx context.Context, data []byte) (body T, err error) {
	if err := strictjson.Check(data); err != nil {
		return body, invalid("The body is not strict JSON: %s.", err)
	}
	issues, err := toolyard.SchemaFor[T]().Check(ctx, data)
	if err != nil {
		return body, err
	}
	if len(issues) > 0 {
		first := strings.TrimSpace(issues[0].Path + " " + issues[0].Message)
		return body, &toolyard.Error{Code: toolyard.Invalid, Message: "Invalid request: " + first + ".", Issues: issues}
	}
	if err := json.Unmarshal(data, &body); err != nil {
		return body, invalid("Invalid request: %s.", err)
	}
	return body, nil
}

// issue returns the error for one invalid value in a request.
func issue(path, message string) *toolyard.Error {
	return &toolyard.Error{Code: toolyard.Invalid, Message: "Invalid request: " + path + " " + message + ".", Issues: []toolyard.Issue{
		{Path: path, Message: message},
	}}
}

// shown truncates an untrusted name for use in a message.
func shown(name string) string {
	const most = 64
	return untrusted.Truncate(name, most)
}
