package clientconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// field is one member of an entry: a key and a string, a bool, a []string, a map[string]string, or
// []field.
type field struct {
	key   string
	value any
}

// sorted returns the entries of a map as fields.
func sorted(m map[string]string) (fields []field) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		fields = append(fields, field{key, m[key]})
	}
	return fields
}

// jsonOf encodes fields as an object.
func jsonOf(fields []field) []byte {
	b := []byte("{")
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, quoteJSON(f.key)...), ':')
		switch value := f.value.(type) {
		case string:
			b = append(b, quoteJSON(value)...)
		case bool:
			b = strconv.AppendBool(b, value)
		case []string:
			b = append(b, jsonList(value)...)
		case map[string]string:
			b = append(b, jsonOf(sorted(value))...)
		case []field:
			b = append(b, jsonOf(value)...)
		}
	}
	return append(b, '}')
}

func jsonList(list []string) []byte {
	b := []byte("[")
	for i, item := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, quoteJSON(item)...)
	}
	return append(b, ']')
}

func quoteJSON(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can always be encoded
	return bytes.TrimSpace(b.Bytes())
}

// nodeOf returns the node that results from parsing the fields.
func nodeOf(fields []field) *node {
	n := &node{kind: object}
	for _, f := range fields {
		v := &node{}
		switch value := f.value.(type) {
		case string:
			v.kind, v.text = text, value
		case bool:
			v.kind, v.text = boolean, strconv.FormatBool(value)
		case []string:
			v.kind = array
			for _, item := range value {
				v.items = append(v.items, &node{kind: text, text: item})
			}
		case map[string]string:
			v = nodeOf(sorted(value))
		case []field:
			v = nodeOf(value)
		}
		n.members = append(n.members, member{name: f.key, value: v})
	}
	return n
}

// yamlOf encodes fields as lines of YAML: maps in block style, lists and nested fields in flow
// style.
func yamlOf(fields []field, indent string) (lines []string) {
	for _, f := range fields {
		key := indent + yamlKey(f.key) + ":"
		if m, ok := f.value.(map[string]string); ok && len(m) > 0 {
			lines = append(append(lines, key), yamlOf(sorted(m), indent+"  ")...)
			continue
		}
		lines = append(lines, key+" "+yamlInline.encode(f.value))
	}
	return lines
}

// inline encodes values on one line: lists in brackets, maps and nested fields in braces.
type inline struct {
	text, key   func(string) string
	assign      string // separator between a key and its value
	open, close string // delimiters around the fields of a map
}

var yamlInline = inline{text: yamlText, key: yamlKey, assign: ": ", open: "{", close: "}"}

func (in inline) encode(value any) string {
	var parts []string
	switch value := value.(type) {
	case string:
		return in.text(value)
	case []string:
		for _, item := range value {
			parts = append(parts, in.text(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]string:
		return in.encode(sorted(value))
	case []field:
		for _, f := range value {
			parts = append(parts, in.key(f.key)+in.assign+in.encode(f.value))
		}
		return in.open + strings.Join(parts, ", ") + in.close
	}
	return fmt.Sprint(value)
}

var (
	plainKey  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)
	plainText = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_/.@-]*(:[A-Za-z0-9_/][A-Za-z0-9_/.@-]*)*$`)
	reserved  = regexp.MustCompile(`(?i)^(true|false|yes|no|on|off|y|n|null)$`)
)

func yamlKey(s string) string {
	if plainKey.MatchString(s) && !reserved.MatchString(s) {
		return s
	}
	return quoteYAML(s)
}

// yamlText encodes a string so that every YAML parser reads it as a string.
func yamlText(s string) string {
	if plainText.MatchString(s) && !reserved.MatchString(s) {
		return s
	}
	return quoteYAML(s)
}

// quoteYAML encodes a string in double quotes, on one line and with invisible characters escaped.
func quoteYAML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
