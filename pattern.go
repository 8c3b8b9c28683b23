package toolyard

import (
	"regexp"
	"time"

	"github.com/dlclark/regexp2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// patternTimeout bounds how long one match of a pattern may take that Go's own engine,
// which is always fast, does not know.
const patternTimeout = 50 * time.Millisecond

// compilePattern compiles the pattern of a schema, which is written in JavaScript's
// dialect. Most patterns mean the same in Go's; those with look-around or references need
// an engine that has them.
func compilePattern(pattern string) (jsonschema.Regexp, error) {
	if re, err := regexp.Compile(escapedRune.ReplaceAllString(pattern, `\x{$1}`)); err == nil {
		return re, nil
	}
	re, err := regexp2.Compile(pattern, regexp2.ECMAScript)
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = patternTimeout
	return slowPattern{re}, nil
}

// escapedRune is a character as JavaScript escapes it and Go does not.
var escapedRune = regexp.MustCompile(`\\u([0-9A-Fa-f]{4})`)

// slowPattern matches with bounded time. What takes longer does not match.
type slowPattern struct{ *regexp2.Regexp }

// MatchString implements jsonschema.Regexp.
func (p slowPattern) MatchString(s string) bool {
	ok, err := p.Regexp.MatchString(s)
	return ok && err == nil
}
