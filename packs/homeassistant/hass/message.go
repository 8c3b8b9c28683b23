package hass

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// message is a WebSocket API message.
type message struct {
	ID      int             `json:"id"`
	Type    string          `json:"type"`
	Success bool            `json:"success"`
	Result  json.RawMessage `json:"result"`
	Error   *Error          `json:"error"`
	Event   json.RawMessage `json:"event"`
}

// Error is an error returned by Home Assistant.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return fmt.Sprintf("Home Assistant: %s (%s)", e.Message, e.Code) }

// Home Assistant's error codes.
const (
	CodeNotFound       = "not_found"
	CodeInvalidFormat  = "invalid_format"
	CodeInvalidService = "service_validation_error"
	CodeUnauthorized   = "unauthorized"
	CodeUnknownCommand = "unknown_command"
	CodeTimeout        = "timeout"
	CodeTooLarge       = "too_large" // returned by this client if an image exceeds the limit
)

func parseMessage(raw []byte) (message, error) {
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, fmt.Errorf("invalid message: %w", err)
	}
	if m.Type == "" {
		return m, errors.New("invalid message: type is missing")
	}
	if m.Type == "result" && !m.Success && m.Error == nil {
		m.Error = &Error{"unknown_error", "no reason was given"}
	}
	return m, nil
}

// compressedState is a state or a state change in the format of subscribe_entities.
type compressedState struct {
	State      *string                    `json:"s"`
	Attributes map[string]json.RawMessage `json:"a"`
	Changed    *float64                   `json:"lc"`
	Updated    *float64                   `json:"lu"` // absent if equal to Changed
}

// stateDiff is a change to a state.
type stateDiff struct {
	Added   compressedState `json:"+"`
	Removed struct {
		Attributes []string `json:"a"`
	} `json:"-,"` //nolint:staticcheck // the name of the member is a minus sign
}

// entitiesEvent is a subscribe_entities event.
type entitiesEvent struct {
	Added   map[string]*compressedState `json:"a"`
	Changed map[string]*stateDiff       `json:"c"`
	Removed []string                    `json:"r"`
}

func parseEntities(raw []byte) (*entitiesEvent, error) {
	var e entitiesEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, fmt.Errorf("invalid states: %w", err)
	}
	return &e, nil
}

// unix converts seconds to a time. Values outside the years 1970 to 9999 become the zero time.
func unix(seconds *float64) time.Time {
	if seconds == nil || !(*seconds >= 0 && *seconds < 253402300800) {
		return time.Time{}
	}
	whole, fraction := math.Modf(*seconds)
	return time.Unix(int64(whole), int64(math.Round(fraction*1e6))*1000).UTC()
}
