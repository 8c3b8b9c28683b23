package model

import (
	"fmt"
	"strings"
	"time"
)

// Kind classifies an [Error] by what a caller can do about it.
type Kind string

// The kinds.
const (
	Unavailable Kind = "unavailable" // temporary failure, even after retries: no connection, overload or an interrupted stream
	Rejected    Kind = "rejected"    // the provider refused the request because of the key, quota, model name or size; retrying does not help
	Refused     Kind = "refused"     // the model or a content filter declined to respond
	Invalid     Kind = "invalid"     // the request is inconsistent, or the response violates the wire format or a limit
)

// Error is a failed turn. It never contains the API key.
type Error struct {
	Kind       Kind
	Status     int           // status of the HTTP response; zero if there was none
	Code       string        // the provider's code, such as overloaded_error; may be empty
	Message    string        // for people; the provider's text is truncated
	RetryAfter time.Duration // pause that the provider requested; may be zero
	Usage      Usage         // tokens counted before the failure; the provider may charge for them

	retry bool // whether the client may send the request again
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("model " + string(e.Kind))
	if e.Status != 0 {
		fmt.Fprintf(&b, " (HTTP %d)", e.Status)
	}
	if e.Code != "" {
		b.WriteString(" " + e.Code)
	}
	b.WriteString(": " + e.Message)
	return b.String()
}
