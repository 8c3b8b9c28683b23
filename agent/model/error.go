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
	Unavailable Kind = "unavailable" // temporary, after the retries: no connection, overload, an interrupted stream
	Rejected    Kind = "rejected"    // the provider refused the request: key, quota, model name, size. Retrying does not help
	Refused     Kind = "refused"     // the model or a content filter declined to respond
	Invalid     Kind = "invalid"     // the request is inconsistent, or the response violates the wire format or a limit
)

// Error is a failed turn. It never contains the API key.
type Error struct {
	Kind       Kind
	Status     int           // of the HTTP response; zero if there was none
	Code       string        // of the provider, such as overloaded_error; may be empty
	Message    string        // for people; text from the provider is bounded
	RetryAfter time.Duration // as the provider requested; zero if it did not
	Usage      Usage         // tokens counted before the failure, which the provider may charge

	retry bool // the client may send the request again
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
