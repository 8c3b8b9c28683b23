package jsonschema

import (
	"strconv"
	"strings"
)

// FormatPath formats the path to a value, such as options.depth or items[2].name.
func FormatPath(location []string) string {
	var b strings.Builder
	for _, step := range location {
		if _, err := strconv.Atoi(step); err == nil {
			b.WriteString("[" + step + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(step)
	}
	return b.String()
}
