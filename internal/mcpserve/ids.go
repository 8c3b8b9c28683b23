package mcpserve

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/toolyard/toolyard/internal/guard"
)

// idMask carries integers through the SDK that its float64 cannot hold: on the way in
// they become strings that nobody can guess, on the way out they become themselves
// again.
type idMask struct{ prefix string }

func newIDMask() idMask { return idMask{`"toolyard-` + rand.Text() + `-`} }

// hide masks the request id, the id of a cancellation and the progress token of a
// message that has passed the strict reader.
func (m idMask) hide(message []byte) []byte {
	masked, done := message, 0 // bytes that masked has grown by
	mask := func(number json.RawMessage) {
		if !unsafeInteger(number) {
			return
		}
		at := cap(message) - cap(number) + done // number is a part of message
		quoted := m.prefix + string(number) + `"`
		masked = slices.Concat(masked[:at], []byte(quoted), masked[at+len(number):])
		done += len(quoted) - len(number)
	}
	for key, value := range guard.Members(message) {
		switch key {
		case "id":
			mask(value)
		case "params":
			for key, value := range guard.Members(value) {
				switch key {
				case "requestId":
					mask(value)
				case "_meta":
					mask(member(value, "progressToken"))
				}
			}
		}
	}
	return masked
}

// unsafeInteger reports whether a JSON value is an integer that a float64 may not
// hold.
func unsafeInteger(value json.RawMessage) bool {
	if len(value) < len("9007199254740992") {
		return false
	}
	_, err := strconv.ParseInt(string(value), 10, 64)
	return err == nil
}

// member is one member of a JSON object that has passed the strict reader, or nil.
func member(object json.RawMessage, name string) json.RawMessage {
	for key, value := range guard.Members(object) {
		if key == name {
			return value
		}
	}
	return nil
}

// show unmasks what hide masked.
func (m idMask) show(message []byte) []byte {
	for {
		at := bytes.Index(message, []byte(m.prefix))
		if at < 0 {
			return message
		}
		from := at + len(m.prefix)
		end := bytes.IndexByte(message[from:], '"')
		if end < 0 {
			return message
		}
		shown := make([]byte, 0, len(message))
		shown = append(append(shown, message[:at]...), message[from:from+end]...)
		message = append(shown, message[from+end+1:]...)
	}
}
