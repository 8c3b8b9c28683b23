package toolyard

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Resource is an MCP resource or resource template.
type Resource struct {
	Server     string          // ID of the MCP server
	URI        string          // a URI or a URI template
	Template   bool            // whether URI is a template, such as file:///{path}
	Unlisted   bool            // can be read, but is omitted from lists
	Definition json.RawMessage // MCP definition, sent to clients unchanged

	// Reader reads the resource, on the same call path as a tool. Its arguments are {"uri": ...},
	// and its result is {"contents": [...]}.
	Reader *Tool
	// Completer completes a template's variables. It may be nil. Its arguments are those of
	// completion/complete.
	Completer *Tool
	// Watch reports changes to the content, or is nil if the source cannot report them. It calls
	// changed after each change to the resource at uri, until stop is called. Watch, changed and
	// stop must not block. Most sources use [ResourceWatchers].
	Watch func(uri string, changed func()) (stop func())
}

// Prompt is an MCP prompt.
type Prompt struct {
	Server     string
	Name       string          // unique within the server; gates rename it like a tool
	Definition json.RawMessage // MCP definition; gates replace the name

	// Getter renders the prompt. Its arguments are {"name": ..., "arguments": {...}}, and its
	// result is {"messages": [...]}.
	Getter *Tool
	// Completer completes the arguments. It may be nil.
	Completer *Tool
}

// Prefix returns the part that all of a template's URIs share. For a resource that is not a
// template, it returns the whole URI.
func (r *Resource) Prefix() string {
	if !r.Template {
		return r.URI
	}
	before, _, _ := strings.Cut(r.URI, "{")
	return before
}

// Covers reports whether uri is the resource's URI or, for a template, one of its URIs.
func (r *Resource) Covers(uri string) bool {
	if !r.Template {
		return r.URI == uri
	}
	return strings.Contains(r.Prefix(), ":") && strings.HasPrefix(uri, r.Prefix())
}

// MatchesAny reports whether a pattern matches the resource or, for a template, some of its URIs. A
// pattern is a URI, or a prefix followed by an asterisk. An empty list of patterns matches
// everything. A URI with dot segments, even escaped ones, matches no prefix, because it may lead
// elsewhere.
func (r *Resource) MatchesAny(patterns []string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		prefix, wildcard := strings.CutSuffix(p, "*")
		if !r.Template {
			return p == r.URI || wildcard && strings.HasPrefix(r.URI, prefix) && isCanonical(r.URI)
		}
		return p == r.URI || strings.HasPrefix(prefix, r.Prefix()) || wildcard && strings.HasPrefix(r.Prefix(), prefix)
	})
}

// isCanonical reports whether all readers resolve a URI to the same place: it has no dot
// segments, backslashes or control characters, however often they are escaped. Some readers
// end a segment at a query or a fragment and others do not, so each part is checked separately.
func isCanonical(uri string) bool {
	for range 4 {
		if strings.ContainsFunc(uri, func(r rune) bool { return r < ' ' || r == '\\' || r == 0x7f }) {
			return false
		}
		for segment := range strings.FieldsFuncSeq(uri, func(r rune) bool { return strings.ContainsRune("/?#;", r) }) {
			if segment == "." || segment == ".." {
				return false
			}
		}
		unescaped, err := url.PathUnescape(uri)
		if err != nil {
			return false
		}
		if unescaped == uri {
			return true
		}
		uri = unescaped
	}
	return false
}
