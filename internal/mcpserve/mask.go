package mcpserve

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/toolyard/toolyard/internal/guard"
)

// mask carries through the SDK what it would change. Integers that its float64 cannot
// hold become strings that nobody can guess on the way in, and themselves again on the
// way out. An error with the number of an unknown method, which the SDK replaces by its
// own, has a number that nobody can guess on the way out.
type mask struct {
	prefix   string
	notFound int64
}

func newMask() mask {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return mask{`"toolyard-` + rand.Text() + `-`, -int64(binary.LittleEndian.Uint64(b[:])>>2) - 1<<61}
}

// hideError masks the number of an error.
func (m mask) hideError(e *jsonrpc.Error) *jsonrpc.Error {
	if e.Code != jsonrpc.CodeMethodNotFound {
		return e
	}
	hidden := *e
	hidden.Code = m.notFound
	return &hidden
}

// hide masks the request id, the id of a cancellation and the progress token of a
// message that has passed the strict reader.
func (m mask) hide(message []byte) []byte {
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

// show unmasks what hide and hideError masked.
func (m mask) show(message []byte) []byte {
	code := []byte(`"code":` + strconv.FormatInt(m.notFound, 10))
	message = bytes.Replace(message, code, []byte(`"code":-32601`), 1)
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
