// Package clientconfig reads and edits the configuration files in which clients list MCP servers.
// Each client has its own dialect: its root key, its field names, and JSON with comments, YAML or
// TOML. Files may come from untrusted projects, so the cost of reading them is limited. Edits
// preserve all unrelated bytes.
package clientconfig

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Limits on a file. JSON files may be larger, because Claude Code stores its history in the same
// file.
const (
	maxJSON     = 8 << 20
	maxYAML     = 1 << 20
	maxDepth    = 64
	maxNodes    = 1_000_000
	maxServers  = 1000
	maxEntries  = 256 // arguments, variables or headers per server
	maxWarnings = 100
)

// MaxFile is the maximum file size in bytes.
const MaxFile = maxJSON

// The transports of a Server.
const (
	HTTP  = "http"
	SSE   = "sse"
	Stdio = "stdio"
)

// Server is a server in a client's configuration.
type Server struct {
	Name      string
	Command   string
	Args      []string
	Env       map[string]string
	Dir       string
	URL       string
	Transport string // HTTP, SSE or Stdio
	Headers   map[string]string
	Disabled  bool
	Project   string // folder that the server is for; empty for all
	Line      int
}

// texts returns all values in a server that may contain references.
func (s *Server) texts() []string {
	return slices.Concat([]string{s.Command, s.Dir, s.URL}, s.Args, slices.Collect(maps.Values(s.Env)), slices.Collect(maps.Values(s.Headers)))
}

func (s *Server) setHeader(name, value string) {
	if s.Headers == nil {
		s.Headers = make(map[string]string)
	}
	s.Headers[name] = value
}

// same reports whether two servers are reached in the same way.
func (s *Server) same(o *Server) bool {
	return s.Command == o.Command && slices.Equal(s.Args, o.Args) && s.Dir == o.Dir && s.URL == o.URL &&
		s.Transport == o.Transport && equalMaps(s.Env, o.Env) && equalMaps(s.Headers, o.Headers)
}

func equalMaps(a, b map[string]string) bool {
	for key, value := range a {
		if other, ok := b[key]; !ok || other != value {
			return false
		}
	}
	return len(a) == len(b)
}

// Read returns the servers in a file of any dialect. The extension of name determines the format.
// Warnings describe the parts that could not be read, and start with the name and the line.
func Read(name string, data []byte) (servers []Server, warnings []string, err error) {
	tree, err := parse(name, data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", brief(name), err)
	}
	r := reader{file: brief(name)}
	r.readRoots(tree)
	return r.servers, r.warnings, nil
}

func parse(name string, data []byte) (*node, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the file is not valid UTF-8; save it as UTF-8")
	}
	switch {
	case strings.EqualFold(path.Ext(name), ".toml"):
		return parseTOML(data)
	case isYAML(name, data):
		return parseYAML(data)
	}
	return parseJSON(data)
}

func isYAML(name string, data []byte) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml":
		return true
	case ".json", ".jsonc":
		return false
	}
	text := bytes.TrimSpace(bytes.TrimPrefix(data, bom))
	return len(text) > 0 && !bytes.ContainsAny(text[:1], "{[/")
}

// brief truncates untrusted text to one line that is safe to print on a terminal.
func brief(text string) string {
	const most = 1000
	return untrusted.Printable(untrusted.Truncate(text, most))
}

// reader collects the servers in one file.
type reader struct {
	file     string
	servers  []Server
	warnings []string
}

func (r *reader) warn(line int, format string, args ...any) {
	if len(r.warnings) < maxWarnings {
		r.warnings = append(r.warnings, fmt.Sprintf("%s:%d: %s", r.file, line, brief(fmt.Sprintf(format, args...))))
	}
}

// readRoots reads servers from the root keys used by all clients.
func (r *reader) readRoots(top *node) {
	for _, root := range []string{"mcpServers", "servers", "amp.mcpServers", "extensions", "context_servers", "mcp_servers"} {
		r.readRoot(root, top.get(root), "")
	}
	r.readRoot("mcp.servers", top.get("mcp").get("servers"), "")
	r.readRoot("mcp", typedServers(top.get("mcp")), "")
	if projects := top.get("projects"); projects != nil {
		for _, p := range projects.members {
			r.readRoot("mcpServers", p.value.get("mcpServers"), p.name)
		}
	}
}

// typedServers returns the servers that OpenCode lists directly under mcp, next to its settings.
func typedServers(mcp *node) *node {
	if mcp == nil || mcp.kind != object {
		return nil
	}
	servers := &node{kind: object, line: mcp.line}
	for _, m := range mcp.members {
		if kind := m.value.get("type"); kind != nil && (kind.text == "local" || kind.text == "remote") {
			servers.members = append(servers.members, m)
		}
	}
	return servers
}

func (r *reader) readRoot(root string, n *node, project string) {
	if n == nil || n.kind == null {
		return
	}
	if n.kind != object {
		r.warn(n.line, "%s is not an object that lists servers", root)
		return
	}
	last := make(map[string]int, len(n.members))
	for i, m := range n.members {
		last[m.name] = i
	}
	for i, m := range n.members {
		switch {
		case len(r.servers) >= maxServers:
			r.warn(m.line, "only the first %d servers are read", maxServers)
			return
		case last[m.name] != i:
			r.warn(m.line, "duplicate key %s: the last one applies", m.name)
		default:
			if s := r.readServer(m); s != nil {
				s.Project = project
				r.servers = append(r.servers, *s)
			}
		}
	}
}

// transports maps all clients' names for transports.
var transports = map[string]string{
	"http": HTTP, "streamable-http": HTTP, "streamableHttp": HTTP, "streamable_http": HTTP, "streamable": HTTP,
	"remote": HTTP, "sse": SSE, "stdio": Stdio, "local": Stdio,
}

// harmless lists keys that do not affect how a server is reached.
var harmless = map[string]bool{
	"name": true, "display_name": true, "description": true, "timeout": true, "autoApprove": true, "alwaysAllow": true,
	"disabledTools": true, "enabledTools": true, "tools": true, "available_tools": true, "gallery": true, "version": true,
	"bundled": true, "trust": true, "includeTools": true, "excludeTools": true, "protocolEra": true, "watchPaths": true,
	"disabledReason": true, "source": true, "settings": true, "startup_timeout_sec": true, "tool_timeout_sec": true, "enabled_tools": true,
	"disabled_tools": true, "note": true, "icon": true, "networkTimeout": true, "initTimeout": true,
}

// readServer reads an entry. It returns nil if the entry is not a server or is not supported.
func (r *reader) readServer(m member) *Server {
	if m.value.kind != object {
		r.warn(m.line, "%s is not an object and is skipped", m.name)
		return nil
	}
	s, word := &Server{Name: m.name, Line: m.line}, ""
	for _, field := range m.value.members {
		r.readField(s, &word, field)
	}
	if word == "builtin" || word == "platform" || word == "frontend" {
		return nil // a part of the client itself
	}
	if problem := s.settle(word); problem != "" {
		r.warn(m.line, "%s is skipped: %s", m.name, problem)
		return nil
	}
	return s
}

func (r *reader) readField(s *Server, word *string, f member) {
	switch f.name {
	case "type", "transport", "transportType":
		*word = r.text(s, f)
	case "command", "cmd":
		r.readCommand(s, f)
	case "args":
		s.Args = r.list(s, f)
	case "env", "envs", "environment":
		s.Env = r.texts(s, f)
	case "cwd", "dir":
		s.Dir = r.text(s, f)
	case "url", "serverUrl", "uri", "httpUrl":
		s.URL = r.text(s, f)
	case "headers", "http_headers":
		for name, value := range r.texts(s, f) {
			s.setHeader(name, value)
		}
	case "env_http_headers": // the values are names of variables
		for name, variable := range r.texts(s, f) {
			s.setHeader(name, "${"+variable+"}")
		}
	case "bearer_token_env_var":
		s.setHeader("Authorization", "Bearer ${"+r.text(s, f)+"}")
	case "disabled":
		s.Disabled = f.value.text == "true"
	case "enabled":
		s.Disabled = f.value.text == "false"
	default:
		if !harmless[f.name] && !f.value.isEmpty() {
			r.warn(f.line, "%s: %s is not imported", s.Name, f.name)
		}
	}
}

// readCommand reads a command: a string, OpenCode's list including the arguments, or the object
// used by older versions of Zed.
func (r *reader) readCommand(s *Server, f member) {
	switch {
	case f.value.kind == array && len(f.value.items) > 0:
		if list := r.list(s, f); len(list) > 0 {
			s.Command, s.Args = list[0], list[1:]
		}
	case f.value.get("path") != nil:
		word := ""
		for _, m := range f.value.members {
			if m.name == "path" {
				s.Command = r.text(s, m)
			} else {
				r.readField(s, &word, m)
			}
		}
	default:
		s.Command = r.text(s, f)
	}
}

// settle sets the transport, or returns the reason if the server is invalid.
func (s *Server) settle(word string) string {
	s.Transport = transports[word]
	switch {
	case max(len(s.Args), len(s.Env), len(s.Headers)) > maxEntries:
		return fmt.Sprintf("more than %d arguments, variables or headers", maxEntries)
	case word != "" && s.Transport == "":
		return fmt.Sprintf("unknown type %s", word)
	case s.Transport == "" && s.Command != "" && s.URL != "":
		return "both a command and a URL are set, and type is missing"
	case s.Transport == "" && s.URL != "":
		s.Transport = HTTP
	case s.Transport == "":
		s.Transport = Stdio
	}
	if s.Transport == Stdio {
		s.URL, s.Headers = "", nil
		if s.Command == "" {
			return "neither a command nor a URL is set"
		}
		return ""
	}
	s.Command, s.Args, s.Env, s.Dir = "", nil, nil, ""
	return checkURL(s.URL)
}

// checkURL returns the problem with a URL, or "". The URL may contain variables.
func checkURL(text string) string {
	if strings.HasPrefix(text, "${") {
		return ""
	}
	// Variables may be in parts of the URL that do not allow their characters.
	plain := strings.NewReplacer("${", "", "}", "").Replace(text)
	scheme, rest, _ := strings.Cut(plain, "://")
	if (scheme != "http" && scheme != "https") || rest == "" {
		return "the URL scheme is not http or https"
	}
	if _, err := url.Parse(text); err != nil && !strings.Contains(text, "${") {
		return "the URL cannot be parsed"
	}
	return ""
}

// text returns a scalar as a string. Numbers and booleans keep their spelling.
func (r *reader) text(s *Server, f member) string {
	if !f.value.isScalar() {
		r.warn(f.line, "%s: %s is not a string and is skipped", s.Name, f.name)
		return ""
	}
	return f.value.text
}

func (r *reader) list(s *Server, f member) (list []string) {
	if f.value.kind != array {
		if f.value.kind != null {
			r.warn(f.line, "%s: %s is not an array and is skipped", s.Name, f.name)
		}
		return nil
	}
	for _, item := range f.value.items {
		if !item.isScalar() {
			r.warn(item.line, "%s: %s contains an element that is not a string and is skipped", s.Name, f.name)
			continue
		}
		list = append(list, item.text)
	}
	return list
}

func (r *reader) texts(s *Server, f member) map[string]string {
	if f.value.kind != object {
		if f.value.kind != null {
			r.warn(f.line, "%s: %s is not an object and is skipped", s.Name, f.name)
		}
		return nil
	}
	var m map[string]string
	for _, entry := range f.value.members {
		if !entry.value.isScalar() {
			r.warn(entry.line, "%s: %s in %s is not a string and is skipped", s.Name, entry.name, f.name)
			continue
		}
		if m == nil {
			m = make(map[string]string)
		}
		m[entry.name] = entry.value.text
	}
	return m
}
