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

// maxValue is how many bytes a parameter may have.
const maxValue = 256

// maxMicros is the year 10000.
const maxMicros = 253_402_300_800_000_000

// params are the parameters of a question, and the first thing that is wrong with them.
type params struct {
	values map[string]string
	err    error
}

// renamedParams maps former names of query parameters, which are still accepted, to the current ones.
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

// account is the account that a question is about: the caller's own, or for who may see all
// the one that is asked for, or none for all.
func (p *params) account(c toolyard.Caller) string {
	asked := p.values["account"]
	if identity.Views(c) {
		return asked
	}
	own, err := accountOf(c)
	switch {
	case err != nil:
		p.err = err // before anything else that is wrong
	case asked != "" && asked != own:
		p.fail(toolyard.Errorf(toolyard.PermissionDenied, "Only who has the scope viewer or operator may see other accounts."))
	}
	return own
}

func (p *params) time(name string, otherwise time.Time) time.Time {
	text := p.values[name]
	if text == "" {
		return otherwise
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		p.fail(issue(name, "must be a time such as 2026-11-15T10:00:00Z"))
	}
	return t
}

// number is a number between two others.
func (p *params) number(name string, otherwise, least, most int) int {
	text := p.values[name]
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		p.fail(issue(name, "must be between "+strconv.Itoa(least)+" and "+strconv.Itoa(most)))
	}
	return n
}

// flag is true or false.
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

// word is one of some words, or none.
func (p *params) word(name string, known ...string) string {
	word := p.values[name]
	if word != "" && !slices.Contains(known, word) {
		p.fail(issue(name, "must be one of "+strings.Join(known, ", ")))
	}
	return word
}

// version is the version of something that the caller has seen.
func (p *params) version() int64 {
	n, err := strconv.ParseInt(p.values["version"], 10, 64)
	if err != nil || n < 0 {
		p.fail(issue("version", "must be the version that you have read"))
	}
	return n
}

// list is a list of words with commas between them, each one of known.
func (p *params) list(name, otherwise string, known ...string) []string {
	text := p.values[name]
	if text == "" {
		return []string{otherwise}
	}
	words := strings.Split(text, ",")
	for i, word := range words {
		if !slices.Contains(known, word) || slices.Contains(words[:i], word) {
			p.fail(issue(name, "must be some of "+strings.Join(known, ",")))
		}
	}
	return words
}

// cursor reads what cursorText writes.
func (p *params) cursor(name string) (c store.Cursor) {
	text := p.values[name]
	if text == "" {
		return c
	}
	micros, id, ok := strings.Cut(text, ".")
	n, err := strconv.ParseInt(micros, 10, 64)
	if !ok || err != nil || n < 0 || n > maxMicros || id == "" {
		p.fail(issue(name, "must be what next was on another page"))
		return c
	}
	return store.Cursor{At: time.UnixMicro(n).UTC(), ID: id}
}

// nextPage is where to go on behind a page; nothing behind one that is not full.
func nextPage[T any](list []T, limit int, place func(T) (time.Time, string)) string {
	if len(list) < limit || len(list) == 0 {
		return ""
	}
	return cursorText(place(list[len(list)-1]))
}

// cursorText is the place behind a call, as callers send it back.
func cursorText(at time.Time, id string) string {
	return strconv.FormatInt(at.UnixMicro(), 10) + "." + id
}
