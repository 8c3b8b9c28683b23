package offer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// Limits on the arguments of meta-tools.
const (
	maxQuery     = 2000 // bytes
	maxHits      = 50
	defaultHits  = 15
	maxDescribed = 10  // number of tools
	maxName      = 256 // bytes of a tool or server name
)

// Query is a search.
type Query struct {
	Text   string
	Server string // searches only this server's tools; empty means all
	Limit  int
}

// invalid returns the error for an invalid argument.
func invalid(tool, argument, format string, args ...any) *toolyard.Error {
	return &toolyard.Error{
		Code: toolyard.Invalid, Message: "Invalid arguments for " + tool,
		Issues: []toolyard.Issue{{Path: argument, Message: fmt.Sprintf(format, args...)}},
	}
}

// check checks that a meta-tool's arguments are an object that contains only the named members.
// Names are case-sensitive.
func check(tool string, args json.RawMessage, names ...string) *toolyard.Error {
	if len(args) == 0 || args[0] != '{' {
		return invalid(tool, "", "must be an object with %s", strings.Join(names, ", "))
	}
next:
	for key := range strictjson.Members(args) {
		for _, name := range names {
			if key == name {
				continue next
			}
		}
		return invalid(tool, "", "unknown argument %.64q: use %s", key, strings.Join(names, ", "))
	}
	return nil
}

// ParseSearch parses the arguments of search_tools.
func ParseSearch(args json.RawMessage) (q Query, err *toolyard.Error) {
	const tool = gates.SearchTools
	if err := check(tool, args, "query", "server", "limit"); err != nil {
		return q, err
	}
	q.Limit = defaultHits
	for key, value := range strictjson.Members(args) {
		switch key {
		case "query":
			if q.Text, err = text(tool, key, value, maxQuery); err != nil {
				return q, err
			}
		case "server":
			if q.Server, err = text(tool, key, value, maxName); err != nil {
				return q, err
			}
		case "limit":
			n, ok := integer(value)
			if !ok || n < 1 {
				return q, invalid(tool, key, "must be an integer from 1 to %d", maxHits)
			}
			q.Limit = int(min(n, maxHits))
		}
	}
	if strings.TrimSpace(q.Text) == "" {
		return q, invalid(tool, "query", "is required: describe in a few words what the tool should do")
	}
	return q, nil
}

// text parses a string of limited length.
func text(tool, argument string, value json.RawMessage, most int) (string, *toolyard.Error) {
	s, ok := strictjson.String(value)
	switch {
	case !ok:
		return "", invalid(tool, argument, "must be a string")
	case len(s) > most:
		return "", invalid(tool, argument, "is %d bytes; the limit is %d", len(s), most)
	}
	return s, nil
}

// integer parses an integer. Models often write 10.0 instead of 10.
func integer(value json.RawMessage) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSuffix(string(value), ".0"), 10, 64)
	return n, err == nil
}

// ParseDescribe parses the arguments of describe_tools.
func ParseDescribe(args json.RawMessage) ([]string, *toolyard.Error) {
	const tool = gates.DescribeTools
	if err := check(tool, args, "names"); err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if json.Unmarshal(strictjson.Member(args, "names"), &list) != nil || len(list) == 0 || len(list) > maxDescribed {
		return nil, invalid(tool, "names", "must be a list of 1 to %d tool names", maxDescribed)
	}
	names := make([]string, len(list))
	for i, value := range list {
		name, err := text(tool, fmt.Sprintf("names[%d]", i), value, maxName)
		if err != nil {
			return nil, err
		}
		names[i] = name
	}
	return names, nil
}

// Call is a tool call made through a meta-tool.
type Call struct {
	Name string          // empty if missing
	Args json.RawMessage // may be nil
}

// ParseCall parses the arguments of call_tool or call_write_tool.
func ParseCall(tool string, args json.RawMessage) (c Call, err *toolyard.Error) {
	if err := check(tool, args, "name", "arguments"); err != nil {
		return c, err
	}
	for key, value := range strictjson.Members(args) {
		switch {
		case key == "name":
			if c.Name, err = text(tool, key, value, maxName); err != nil {
				return c, err
			}
		case value[0] == '{':
			c.Args = value
		case string(value) != "null":
			return c, invalid(tool, key, "must be an object, not %s", kindOf(value))
		}
	}
	return c, nil
}

// MissingName returns the error for a call that does not name its tool. If the tool's own arguments
// contain a tool name, the error mentions it, but the name is never taken from there.
func (c *Call) MissingName(tool string, visible func(name string) bool) *toolyard.Error {
	if name, _ := strictjson.String(strictjson.Member(c.Args, "name")); c.Args != nil && name != "" && visible(name) {
		return invalid(tool, "name", "is required: you set %q inside arguments; set it next to arguments", name)
	}
	return invalid(tool, "name", "is required: pass the name of a tool")
}

func kindOf(value json.RawMessage) string {
	switch value[0] {
	case '"':
		return "a string"
	case '[':
		return "an array"
	}
	return "a scalar"
}
