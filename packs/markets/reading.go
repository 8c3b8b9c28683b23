package markets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Limits on context data.
const (
	maxItems   = 2000 // items in a list
	maxText    = 503  // bytes in a text, including an ellipsis
	maxDecimal = 80   // bytes in a quoted number
)

// reading parses JSON from a service that has passed [strictjson.Check]. It stores the first error;
// values read after an error are meaningless.
type reading struct{ err error }

func (r *reading) fail(path, what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s is not %s", path, what)
	}
}

// trimmed removes white space around a JSON value.
func trimmed(answer []byte) json.RawMessage { return bytes.Trim(answer, " \t\r\n") }

// object is an object in a response, with its path.
type object struct {
	*reading
	path    string
	members map[string]json.RawMessage
}

func (r *reading) object(path string, value json.RawMessage) object {
	if len(value) == 0 || value[0] != '{' {
		r.fail(path, "an object")
	}
	return object{r, path, maps.Collect(strictjson.Members(value))}
}

func (r *reading) list(path string, value json.RawMessage) []json.RawMessage {
	var items []json.RawMessage
	switch {
	case len(value) == 0 || value[0] != '[' || json.Unmarshal(value, &items) != nil:
		r.fail(path, "a list")
	case len(items) > maxItems:
		r.fail(path, "a list of at most "+strconv.Itoa(maxItems))
		return nil
	}
	return items
}

// objects reads a list of objects. The result is never nil, so that it is a list in JSON too.
func objects[T any](r *reading, path string, value json.RawMessage, read func(object) T) []T {
	out := []T{}
	for i, item := range r.list(path, value) {
		out = append(out, read(r.object(path+"["+strconv.Itoa(i)+"]", item)))
		if r.err != nil {
			break
		}
	}
	return out
}

func (o object) at(name string) string { return o.path + "." + name }

// has reports whether a member exists and is not null.
func (o object) has(name string) bool {
	value := o.members[name]
	return value != nil && string(value) != "null"
}

func (o object) object(name string) object {
	return o.reading.object(o.at(name), o.members[name])
}

// text returns text for display: hidden characters are replaced and long text is truncated. The
// text is untrusted, so it must not make the whole response fail.
func (o object) text(name string) string {
	s, ok := strictjson.String(o.members[name])
	if !ok {
		o.fail(o.at(name), "a text")
	}
	return shown(s)
}

func shown(s string) string {
	if untrusted.CheckText(s) != nil {
		var out []rune
		for _, r := range s {
			if untrusted.CheckText(string(r)) != nil {
				r = utf8.RuneError
			}
			out = append(out, r)
		}
		s = string(out)
	}
	return untrusted.Truncate(s, maxText)
}

var decimalRE = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

// decimal returns a quoted number exactly as received.
func (o object) decimal(name string) string {
	s, ok := strictjson.String(o.members[name])
	if !ok || len(s) > maxDecimal || !decimalRE.MatchString(s) {
		o.fail(o.at(name), "a decimal in quotes")
	}
	return s
}

// optionalDecimal is like decimal, but returns nil for null.
func (o object) optionalDecimal(name string) *string {
	if string(o.members[name]) == "null" {
		return nil
	}
	return new(o.decimal(name))
}

// number returns a number exactly as received.
func (o object) number(name string) json.Number {
	value := o.members[name]
	if len(value) == 0 || value[0] != '-' && (value[0] < '0' || value[0] > '9') {
		o.fail(o.at(name), "a number")
	}
	return json.Number(value)
}

// whole returns a non-negative integer.
func (o object) whole(name string) int64 {
	n, err := strconv.ParseInt(string(o.members[name]), 10, 64)
	if err != nil || n < 0 {
		o.fail(o.at(name), "a whole number")
	}
	return n
}
