package clientconfig

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
)

// Client is a program that lists MCP servers in its own configuration file.
type Client struct {
	ID      string
	Name    string
	Project string // file in a project's folder; empty if there is none
	Remote  bool   // whether it supports server URLs

	user   func(place) string // file of a user
	root   string             // key that contains the servers
	urlKey string
	words  map[string]string // names of the transports; nil if it has no type field
	yaml   bool              // YAML with Goose's field names
	extra  []field           // fields that it requires in every server
}

// Getenv looks up an environment variable.
type Getenv func(name string) (string, bool)

// place locates the files of a user.
type place struct {
	home, goos string
	getenv     Getenv
}

func (p place) env(name, otherwise string) string {
	value, _ := p.getenv(name)
	return cmp.Or(value, otherwise)
}

// config returns the folder in which programs store their settings.
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

// Clients are all supported clients, in display order.
var Clients = []*Client{
	{
		ID: "claude-desktop", Name: "Claude Desktop", root: "mcpServers",
		user: func(p place) string { return filepath.Join(p.config(), "Claude", "claude_desktop_config.json") },
	},
	{
		ID: "claude-code", Name: "Claude Code", Project: ".mcp.json", Remote: true, root: "mcpServers", urlKey: "url", words: plainWords,
		user: func(p place) string { return filepath.Join(p.env("CLAUDE_CONFIG_DIR", p.home), ".claude.json") },
	},
	{
		ID: "cursor", Name: "Cursor", Project: ".cursor/mcp.json", Remote: true, root: "mcpServers", urlKey: "url", words: plainWords,
		user: below(".cursor", "mcp.json"),
	},
	{
		ID: "vscode", Name: "VS Code", Project: ".vscode/mcp.json", Remote: true, root: "servers", urlKey: "url", words: plainWords,
		user: func(p place) string { return p.code("mcp.json") },
	},
	{
		ID: "copilot-cli", Name: "Copilot CLI", Project: ".mcp.json", Remote: true, root: "mcpServers", urlKey: "url", words: plainWords,
		extra: []field{{"tools", []string{"*"}}},
		user:  below(".copilot", "mcp-config.json"),
	},
	{
		ID: "windsurf", Name: "Windsurf", Remote: true, root: "mcpServers", urlKey: "serverUrl",
		user: below(".codeium", "windsurf", "mcp_config.json"),
	},
	{
		ID: "cline", Name: "Cline", Remote: true, root: "mcpServers", urlKey: "url",
		words: map[string]string{HTTP: "streamableHttp", SSE: "sse", Stdio: "stdio"},
		user: func(p place) string {
			return p.code("globalStorage", "saoudrizwan.claude-dev", "settings", "cline_mcp_settings.json")
		},
	},
	{
		ID: "roo", Name: "Roo Code", Project: ".roo/mcp.json", Remote: true, root: "mcpServers", urlKey: "url",
		words: map[string]string{HTTP: "streamable-http", SSE: "sse", Stdio: "stdio"},
		user: func(p place) string {
			return p.code("globalStorage", "rooveterinaryinc.roo-cline", "settings", "mcp_settings.json")
		},
	},
	{
		ID: "amp", Name: "Amp", Project: ".amp/settings.json", Remote: true, root: "amp.mcpServers", urlKey: "url",
		user: below(".config", "amp", "settings.json"),
	},
	{
		ID: "lmstudio", Name: "LM Studio", Remote: true, root: "mcpServers", urlKey: "url",
		user: below(".lmstudio", "mcp.json"),
	},
	{
		ID: "goose", Name: "Goose", Remote: true, root: "extensions", urlKey: "uri", yaml: true,
		words: map[string]string{HTTP: "streamable_http", SSE: "sse", Stdio: "stdio"},
		user:  gooseFile,
	},
	{
		ID: "inspector", Name: "MCP Inspector", Remote: true, root: "mcpServers", urlKey: "url", words: plainWords,
		user: below(".mcp-inspector", "mcp.json"),
	},
}

// gooseFile is in ~/.config on every system but Windows.
func gooseFile(p place) string {
	if p.goos == "windows" {
		return filepath.Join(p.config(), "Block", "goose", "config", "config.yaml")
	}
	return filepath.Join(p.env("XDG_CONFIG_HOME", filepath.Join(p.home, ".config")), "goose", "config.yaml")
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

// Paths returns the files in which the client looks for servers: the project's file first, if there
// is one, then the user's.
func (c *Client) Paths(home, project, goos string, getenv Getenv) []string {
	user := c.user(place{home, goos, getenv})
	if c.Project == "" {
		return []string{user}
	}
	return []string{filepath.Join(project, filepath.FromSlash(c.Project)), user}
}

// Add adds a server to a client's file and preserves the rest, including comments and order. Empty
// data creates a new file. A server with the same name that is reached differently is replaced.
func (c *Client) Add(data []byte, s Server) ([]byte, error) {
	if err := c.check(&s); err != nil {
		return nil, err
	}
	if c.yaml {
		return addYAML(data, c.root, s.Name, c.entry(&s), &s)
	}
	return addJSON(data, c.root, s.Name, c.entry(&s), &s)
}

// Remove removes a server from a client's file and preserves the rest. If there is no such server,
// it returns the data unchanged.
func (c *Client) Remove(data []byte, name string) ([]byte, error) {
	if c.yaml {
		return removeYAML(data, c.root, name)
	}
	return removeJSON(data, c.root, name)
}

// check rejects servers that the client does not support, and fills in the transport.
func (c *Client) check(s *Server) error {
	s.Transport = cmp.Or(s.Transport, map[bool]string{true: Stdio, false: HTTP}[s.URL == ""])
	switch {
	case s.Name == "":
		return errors.New("the server has no name")
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
			fields = append(fields, field{key, value})
		}
	}
	command, env := "command", "env"
	if c.yaml {
		command, env = "cmd", "envs"
		fields = []field{{"enabled", true}, {"name", s.Name}, {"description", s.Name}}
	}
	switch {
	case c.words != nil:
		add("type", c.words[s.Transport], true)
	case s.Transport == SSE:
		add("type", SSE, true)
	}
	add(c.urlKey, s.URL, s.URL != "")
	add("headers", s.Headers, len(s.Headers) > 0)
	add(command, s.Command, s.Command != "")
	add("args", s.Args, s.Command != "" && (len(s.Args) > 0 || c.yaml))
	add(env, s.Env, len(s.Env) > 0)
	add("cwd", s.Dir, s.Dir != "")
	return append(fields, c.extra...)
}
