package mcpserver

import (
	"encoding/json"
	"slices"
)

// edit is a part of a message and what takes its place.
type edit struct {
	at, length int
	text       string
}

// apply makes the edits of a message. Each old value is a part of it.
func apply(message []byte, edits []edit) []byte {
	slices.SortFunc(edits, func(a, b edit) int { return b.at - a.at })
	for _, e := range edits {
		message = slices.Concat(message[:e.at], []byte(e.text), message[e.at+e.length:])
	}
	return message
}

// replacement is the edit that puts text in the place of value, a part of message.
func replacement(message []byte, value json.RawMessage, text string) edit {
	return edit{cap(message) - cap(value), len(value), text}
}
