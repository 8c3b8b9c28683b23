package inbound

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// maxQuery is the maximum length of a query string, in bytes.
const maxQuery = 8 << 10

// QueryError is returned for an invalid query string.
type QueryError struct {
	Name string // name of the parameter, safe to display; empty for the whole query
	Text string // the problem; follows the name
}

func (e *QueryError) Error() string { return cmp.Or(e.Name, "the query string") + " " + e.Text }

// ParseQuery parses a query string strictly: each parameter must be known and appear only once, and
// its value may have at most longest bytes. The error is a [*QueryError].
func ParseQuery(raw string, longest int, known ...string) (map[string]string, error) {
	if len(raw) > maxQuery {
		return nil, &QueryError{Text: fmt.Sprintf("exceeds %d bytes", maxQuery)}
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, &QueryError{Text: "is malformed: percent-encode its values"}
	}
	once := make(map[string]string, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if wrong := checkParameter(name, values[name], longest, known); wrong != "" {
			return nil, &QueryError{untrusted.Quote(name), wrong}
		}
		once[name] = values[name][0]
	}
	return once, nil
}

// checkParameter returns the problem with a parameter, or "".
func checkParameter(name string, values []string, longest int, known []string) string {
	switch value := values[0]; {
	case !slices.Contains(known, name) && len(known) == 0:
		return "is unknown; no parameters are accepted"
	case !slices.Contains(known, name):
		return "is unknown; use one of " + strings.Join(known, ", ")
	case len(values) > 1:
		return "must be set only once"
	case len(value) > longest || !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return fmt.Sprintf("must be a string of at most %d bytes", longest)
	}
	return ""
}
