package api

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/guard"
)

// smallBody is how many bytes a body may have that holds no arguments.
const smallBody = 64 << 10

// readBody reads the body of a request, one JSON object, into the struct that into points to.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return invalid("The body must be JSON: send it with Content-Type: application/json.")
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return toolyard.Errorf(toolyard.TooLarge, "The body has more than %d bytes.", limit)
		}
		return invalid("The body could not be read.")
	}
	// The deadline for the body, which the server set, would end long answers.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return decode(data, into)
}

// decode reads a JSON object strictly: it refuses what two readers could read differently,
// and members that nobody knows. Names are exact, which encoding/json does not mind.
func decode(data []byte, into any) error {
	if err := guard.CheckJSON(data); err != nil {
		return invalid("The body is not strict JSON: %s.", err)
	}
	known := fieldNames(reflect.TypeOf(into).Elem())
	members := false
	for name := range guard.Members(data) {
		members = true
		if !slices.Contains(known, name) {
			return &toolyard.Error{Code: toolyard.Invalid, Message: "The body has a member that is not known here.", Issues: []toolyard.Issue{
				{Path: shown(name), Message: "must be one of " + strings.Join(known, ", ")},
			}}
		}
	}
	if !members && strings.TrimLeft(string(data), " \t\r\n")[0] != '{' {
		return invalid("The body must be a JSON object.")
	}
	if err := json.Unmarshal(data, into); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return issue(e.Field, "must not be a "+e.Value)
		}
		return invalid("The body cannot be used: %s.", err)
	}
	return nil
}

// fieldNames are the names of the fields of a struct in JSON.
func fieldNames(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
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
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}
