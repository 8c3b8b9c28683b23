package httpapi

import (
	"context"
	"slices"
)

// Routes returns the methods and paths of all routes.
func Routes() (list []string) {
	for _, r := range Rules() {
		list = append(list, r.Method+" "+r.Path)
	}
	return list
}

// DecodeExecute decodes a call's body.
func DecodeExecute(data []byte) (tool string, args []byte, err error) {
	body, err := decode[callBody](context.Background(), data)
	return body.Tool, body.Args, err
}

// DecodeAnswers decodes a call's answers and encodes them in the form in which they are passed on.
func DecodeAnswers(data []byte) ([]byte, error) {
	body, err := decode[callBody](context.Background(), slices.Concat([]byte(`{"tool":"ask","state":"s","answers":`), data, []byte("}")))
	if err != nil {
		return nil, err
	}
	return body.answers()
}

// ReadCursor parses a query string with a cursor and encodes the cursor again.
func ReadCursor(query string) (text string, err error) {
	p, err := readParams(query, []string{"before"})
	if err != nil {
		return "", err
	}
	c := p.cursor("before")
	if p.err != nil || c.At.IsZero() {
		return "", p.err
	}
	return cursorText(c.At, c.ID), nil
}
