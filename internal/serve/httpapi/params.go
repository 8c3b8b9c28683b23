package httpapi

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/inbound"
)

// maxValue is the maximum length of a parameter, in bytes.
const maxValue = 256

// maxMicros is the start of the year 10000.
const maxMicros = 253_402_300_800_000_000

// params holds query parameters and the first error found in them.
type params struct {
	values map[string]string
	err    error
}

// renamedParams maps old names of query parameters, which are still accepted, to the current names.
var renamedParams = map[string]string{"deed": "action", "most": "rankBy"}

// readParams parses a query string. Unknown and repeated parameters are errors.
func readParams(query string, known []string) (p params, err error) {
	accepted := known
	for former, name := range renamedParams {
		if slices.Contains(known, name) && strings.Contains("&"+query, "&"+former+"=") {
			accepted = append(slices.Clone(accepted), former)
		}
	}
	p.values, err = inbound.ParseQuery(query, maxValue, accepted...)
	for former, name := range renamedParams {
		if value, ok := p.values[former]; ok && p.values[name] == "" {
			p.values[name] = value
		}
	}
	bad, ok := errors.AsType[*inbound.QueryError](err)
	switch {
	case ok && bad.Name != "":
		return p, issue(bad.Name, bad.Text)
	case ok:
		return p, invalid("The query string %s.", bad.Text)
	}
	return p, err
}

func (p *params) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// account returns the account to filter by. For viewers it is the requested account, or "" for all;
// for others it is the caller's own.
func (p *params) account(c toolyard.Caller) string {
	wanted := p.values["account"]
	if identity.Views(c) {
		return wanted
	}
	own, err := accountOf(c)
	switch {
	case err != nil:
		p.err = err // takes precedence over other errors
	case wanted != "" && wanted != own:
		p.fail(toolyard.Errorf(toolyard.PermissionDenied, "Access to other accounts requires the viewer or operator scope."))
	}
	return own
}

func (p *params) time(name string, fallback time.Time) time.Time {
	text := p.values[name]
	if text == "" {
		return fallback
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		p.fail(issue(name, "must be a time such as 2026-11-15T10:00:00Z"))
	}
	return t
}

// number parses an integer between least and most.
func (p *params) number(name string, fallback, least, most int) int {
	text := p.values[name]
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		p.fail(issue(name, "must be between "+strconv.Itoa(least)+" and "+strconv.Itoa(most)))
	}
	return n
}

// flag parses a boolean.
func (p *params) flag(name string) bool {
	switch p.values[name] {
	case "", "false":
		return false
	case "true":
		return true
	}
	p.fail(issue(name, "must be true or false"))
	return false
}

// word returns the parameter if it is one of the known words, or "" if it is absent.
func (p *params) word(name string, known ...string) string {
	word := p.values[name]
	if word != "" && !slices.Contains(known, word) {
		p.fail(issue(name, "must be one of "+strings.Join(known, ", ")))
	}
	return word
}

// version parses the version on which a change is based.
func (p *params) version() int64 {
	n, err := strconv.ParseInt(p.values["version"], 10, 64)
	if err != nil || n < 0 {
		p.fail(issue("version", "must be the version that the change is based on"))
	}
	return n
}

// list parses a comma-separated list of known words.
func (p *params) list(name, fallback string, known ...string) []string {
	text := p.values[name]
	if text == "" {
		return []string{fallback}
	}
	words := strings.Split(text, ",")
	for i, word := range words {
		if !slices.Contains(known, word) || slices.Contains(words[:i], word) {
			p.fail(issue(name, "must be a comma-separated list of "+strings.Join(known, ", ")))
		}
	}
	return words
}

func (p *params) cursor(name string) (c store.Cursor) {
	text := p.values[name]
	if text == "" {
		return c
	}
	micros, id, ok := strings.Cut(text, ".")
	n, err := strconv.ParseInt(micros, 10, 64)
	if !ok || err != nil || n < 0 || n > maxMicros || id == "" {
		p.fail(issue(name, "must be the next cursor from a previous page"))
		return c
	}
	return store.Cursor{At: time.UnixMicro(n).UTC(), ID: id}
}

// nextPage returns the cursor for the next page, or "" if this page is not full.
func nextPage[T any](list []T, limit int, place func(T) (time.Time, string)) string {
	if len(list) < limit || len(list) == 0 {
		return ""
	}
	return cursorText(place(list[len(list)-1]))
}

// cursorText encodes a cursor.
func cursorText(at time.Time, id string) string {
	return strconv.FormatInt(at.UnixMicro(), 10) + "." + id
}
