package clientconfig

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// Client is a program that lists MCP servers in its own configuration file.
type Client struct {
	ID      string
	Name    string
	Project string // file in a project's folder; empty if there is none
	Remote  bool   // supports server URLs

	user   func(place) string // returns the user's file
	format format
	root   string            // key that contains the servers
	keys   map[string]string // its field names, where they differ from Claude's
	words  map[string]string // its names for transports; nil if it has no type field
	joined bool              // the command and its arguments form one list
	extra  []field           // fields that every server must have
}

type format struct {
	add    func(data []byte, root, name string, fields []field, s *Server) ([]byte, error)
	remove func(data []byte, root, name string) ([]byte, error)
}

var (
	jsonFormat = format{addJSON, removeJSON}
	yamlFormat = format{addYAML, removeYAML}
	tomlFormat = format{addTOML, removeTOML}
)

// Getenv looks up an environment variable.
type Getenv func(name string) (string, bool)

// place locates a user's files.
type place struct {
	home, goos string
	getenv     Getenv
}

func (p place) env(name, otherwise string) string {
	value, _ := p.getenv(name)
	return cmp.Or(value, otherwise)
}

// config returns the folder that contains programs' settings.
func (p place) config() string {
	switch p.goos {
	case "darwin":
		return filepath.Join(p.home, "Library", "Application Support")
	case "windows":
		return p.env("APPDATA", filepath.Join(p.home, "AppData", "Roaming"))
	}
	return p.env("XDG_CONFIG_HOME", filepath.Join(p.home, ".config"))
}

// code returns a file in VS Code's folder.
func (p place) code(path ...string) string {
	return filepath.Join(append([]string{p.config(), "Code", "User"}, path...)...)
}

// below returns a file in the home folder.
func below(path ...string) func(place) string {
	return func(p place) string { return filepath.Join(append([]string{p.home}, path...)...) }
}

var plainWords = map[string]string{HTTP: "http", SSE: "sse", Stdio: "stdio"}

// Clients lists all supported clients in display order.
var Clients = []*Client{
	{
		ID: "claude-desktop", Name: "Claude Desktop", format: jsonFormat, root: "mcpServers",
		user: func(p place) string { return filepath.Join(p.config(), "Claude", "claude_desktop_config.json") },
	},
	{
		ID: "claude-code", Name: "Claude Code", Project: ".mcp.json", Remote: true, format: jsonFormat, root: "mcpServers", words: plainWords,
		user: func(p place) string { return filepath.Join(p.env("CLAUDE_CONFIG_DIR", p.home), ".claude.json") },
	},
	{
		ID: "cursor", Name: "Cursor", Project: ".cursor/mcp.json", Remote: true, format: jsonFormat, root: "mcpServers", words: plainWords,
		user: below(".cursor", "mcp.json"),
	},
	{
		ID: "vscode", Name: "VS Code", Project: ".vscode/mcp.json", Remote: true, format: jsonFormat, root: "servers", words: plainWords,
		user: func(p place) string { return p.code("mcp.json") },
	},
	{
		ID: "copilot-cli", Name: "Copilot CLI", Project: ".mcp.json", Remote: true, format: jsonFormat, root: "mcpServers", words: plainWords,
		extra: []field{{"tools", []string{"*"}}},
		user:  below(".copilot", "mcp-config.json"),
	},
	{
		ID: "windsurf", Name: "Windsurf", Remote: true, format: jsonFormat, root: "mcpServers", keys: map[string]string{"url": "serverUrl"},
		user: below(".codeium", "windsurf", "mcp_config.json"),
	},
	{
		ID: "cline", Name: "Cline", Remote: true, format: jsonFormat, root: "mcpServers",
		words: map[string]string{HTTP: "streamableHttp", SSE: "sse", Stdio: "stdio"},
		user: func(p place) string {
			return p.code("globalStorage", "saoudrizwan.claude-dev", "settings", "cline_mcp_settings.json")
		},
	},
	{
		ID: "roo", Name: "Roo Code", Project: ".roo/mcp.json", Remote: true, format: jsonFormat, root: "mcpServers",
		words: map[string]string{HTTP: "streamable-http", SSE: "sse", Stdio: "stdio"},
		user: func(p place) string {
			return p.code("globalStorage", "rooveterinaryinc.roo-cline", "settings", "mcp_settings.json")
		},
	},
	{
		ID: "amp", Name: "Amp", Project: ".amp/settings.json", Remote: true, format: jsonFormat, root: "amp.mcpServers",
		user: below(".config", "amp", "settings.json"),
	},
	{
		ID: "lmstudio", Name: "LM Studio", Remote: true, format: jsonFormat, root: "mcpServers",
		user: below(".lmstudio", "mcp.json"),
	},
	{
		ID: "goose", Name: "Goose", Remote: true, root: "extensions", format: yamlFormat,
		keys:  map[string]string{"url": "uri", "command": "cmd", "env": "envs"},
		words: map[string]string{HTTP: "streamable_http", SSE: "sse", Stdio: "stdio"},
		user:  gooseFile,
	},
	{
		ID: "codex", Name: "Codex", Project: ".codex/config.toml", Remote: true, format: tomlFormat, root: "mcp_servers",
		keys: map[string]string{"headers": "http_headers"},
		user: func(p place) string {
			return filepath.Join(p.env("CODEX_HOME", filepath.Join(p.home, ".codex")), "config.toml")
		},
	},
	{
		ID: "gemini-cli", Name: "Gemini CLI", Project: ".gemini/settings.json", Remote: true, format: jsonFormat, root: "mcpServers",
		keys: map[string]string{"url": "httpUrl"}, // its url is for HTTP+SSE
		user: below(".gemini", "settings.json"),
	},
	{
		ID: "antigravity", Name: "Antigravity", Remote: true, format: jsonFormat, root: "mcpServers",
		keys: map[string]string{"url": "serverUrl"},
		user: below(".gemini", "antigravity", "mcp_config.json"),
	},
	{
		ID: "opencode", Name: "OpenCode", Project: "opencode.json", Remote: true, format: jsonFormat, root: "mcp",
		keys: map[string]string{"env": "environment"}, joined: true, extra: []field{{"enabled", true}},
		words: map[string]string{HTTP: "remote", SSE: "remote", Stdio: "local"},
		user:  xdg("opencode", "opencode.json"),
	},
	{
		ID: "zed", Name: "Zed", Project: ".zed/settings.json", Remote: true, format: jsonFormat, root: "context_servers",
		user: zedFile,
	},
	{
		ID: "kiro", Name: "Kiro", Project: ".kiro/settings/mcp.json", Remote: true, format: jsonFormat, root: "mcpServers",
		user: below(".kiro", "settings", "mcp.json"),
	},
	{
		ID: "continue", Name: "Continue", Project: ".continue/mcpServers/mcp.json", Remote: true, format: jsonFormat, root: "mcpServers",
		words: plainWords,
		user:  below(".continue", "mcpServers", "mcp.json"),
	},
	{
		ID: "junie", Name: "JetBrains Junie", Project: ".junie/mcp/mcp.json", Remote: true, format: jsonFormat, root: "mcpServers",
		user: below(".junie", "mcp", "mcp.json"),
	},
	{
		ID: "inspector", Name: "MCP Inspector", Remote: true, format: jsonFormat, root: "mcpServers", words: plainWords,
		user: below(".mcp-inspector", "mcp.json"),
	},
}

// xdg returns a file in ~/.config on every system.
func xdg(path ...string) func(place) string {
	return func(p place) string {
		return filepath.Join(append([]string{p.env("XDG_CONFIG_HOME", filepath.Join(p.home, ".config"))}, path...)...)
	}
}

func gooseFile(p place) string {
	if p.goos == "windows" {
		return filepath.Join(p.config(), "Block", "goose", "config", "config.yaml")
	}
	return xdg("goose", "config.yaml")(p)
}

func zedFile(p place) string {
	if p.goos == "windows" {
		return filepath.Join(p.config(), "Zed", "settings.json")
	}
	return xdg("zed", "settings.json")(p)
}

// Lookup returns a client by its ID.
func Lookup(id string) (*Client, bool) {
	for _, c := range Clients {
		if c.ID == id {
			return c, true
		}
	}
	return nil, false
}

// Paths returns the files in which the client looks for servers: first the project's file if there
// is one, then the user's.
func (c *Client) Paths(home, project, goos string, getenv Getenv) []string {
	user := c.user(place{home, goos, getenv})
	if c.Project == "" {
		return []string{user}
	}
	return []string{filepath.Join(project, filepath.FromSlash(c.Project)), user}
}

// Add adds a server to a client's file and preserves the rest, including comments and order. Empty
// data creates a new file. If a server with the same name is reached differently, it is replaced.
func (c *Client) Add(data []byte, s Server) ([]byte, error) {
	if err := c.check(&s); err != nil {
		return nil, err
	}
	return c.format.add(data, c.root, s.Name, c.entry(&s), &s)
}

// Remove removes a server from a client's file and preserves the rest. If there is no such server,
// it returns the data unchanged.
func (c *Client) Remove(data []byte, name string) ([]byte, error) {
	return c.format.remove(data, c.root, name)
}

// check rejects servers that the client does not support, and sets the transport.
func (c *Client) check(s *Server) error {
	s.Transport = cmp.Or(s.Transport, map[bool]string{true: Stdio, false: HTTP}[s.URL == ""])
	switch {
	case s.Name == "":
		return errors.New("server name is missing")
	case (s.Command == "") == (s.URL == "") || (s.Transport == Stdio) != (s.URL == ""):
		return fmt.Errorf("server %s needs either a command or a URL", s.Name)
	case s.URL != "" && !c.Remote:
		return fmt.Errorf("%s does not support URLs; set a command", c.Name)
	}
	if problem := checkURL(s.URL); problem != "" && s.URL != "" {
		return fmt.Errorf("server %s: %s", s.Name, problem)
	}
	return nil
}

// entry returns a server in the client's format.
func (c *Client) entry(s *Server) (fields []field) {
	add := func(key string, value any, when bool) {
		if when {
			fields = append(fields, field{cmp.Or(c.keys[key], key), value})
		}
	}
	goose := c.ID == "goose"
	add("enabled", true, goose)
	add("name", s.Name, goose)
	add("description", s.Name, goose)
	switch {
	case c.words != nil:
		add("type", c.words[s.Transport], true)
	case s.Transport == SSE:
		add("type", SSE, true)
	}
	add("url", s.URL, s.URL != "")
	add("headers", s.Headers, len(s.Headers) > 0)
	if c.joined {
		add("command", slices.Concat([]string{s.Command}, s.Args), s.Command != "")
	} else {
		add("command", s.Command, s.Command != "")
		add("args", s.Args, s.Command != "" && (len(s.Args) > 0 || goose))
	}
	add("env", s.Env, len(s.Env) > 0)
	add("cwd", s.Dir, s.Dir != "")
	return append(fields, c.extra...)
}
