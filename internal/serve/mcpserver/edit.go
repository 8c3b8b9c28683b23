package mcpserver

import (
	"encoding/json"
	"slices"
)

// edit replaces a part of a message.
type edit struct {
	at, length int
	text       string
}

// apply applies edits to a message.
func apply(message []byte, edits []edit) []byte {
	slices.SortFunc(edits, func(a, b edit) int { return b.at - a.at })
	for _, e := range edits {
		message = slices.Concat(message[:e.at], []byte(e.text), message[e.at+e.length:])
	}
	return message
}

// replacement returns the edit that replaces value, a subslice of message, with text.
func replacement(message []byte, value json.RawMessage, text string) edit {
	return edit{cap(message) - cap(value), len(value), text}
}
