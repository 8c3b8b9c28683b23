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

// smallBody is how many bytes a body may have that holds no arguments.
const smallBody = 64 << 10

// read reads the body of a request, one JSON object.
func read[T any](r *request, limit int64) (body T, err error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return body, invalid("The body must be JSON: send it with Content-Type: application/json.")
	}
	data, err := io.ReadAll(http.MaxBytesReader(r.w, r.Body, limit))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return body, toolyard.Errorf(toolyard.ArgsTooLarge, "The body has more than %d bytes.", limit)
		}
		return body, invalid("The body could not be read.")
	}
	// The deadline for the body, which the server set, would end long answers.
	_ = http.NewResponseController(r.w).SetReadDeadline(time.Time{})
	return decode[T](r.Context(), data)
}

// decode reads a JSON object strictly: it refuses what two readers could read differently,
// and what the schema of the struct does not know, at every depth and by exact names, which
// encoding/json does not mind.
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
		return body, &toolyard.Error{Code: toolyard.Invalid, Message: "What was sent cannot be used: " + first + ".", Issues: issues}
	}
	if err := json.Unmarshal(data, &body); err != nil {
		return body, invalid("The body cannot be used: %s.", err)
	}
	return body, nil
}

// issue is the problem of one value that a caller sent.
func issue(path, message string) *toolyard.Error {
	return &toolyard.Error{Code: toolyard.Invalid, Message: "What was sent cannot be used: " + path + " " + message + ".", Issues: []toolyard.Issue{
		{Path: path, Message: message},
	}}
}

// shown is the beginning of a stranger's name, for a message.
func shown(name string) string {
	const most = 64
	return untrusted.Truncate(name, most)
}
