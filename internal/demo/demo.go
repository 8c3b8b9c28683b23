// Package demo contains the data for toolyard demo: Harbor, a fictitious company with tools in Go
// and TypeScript, its own MCP servers, a simulated guest house and paper trading account, and
// simulated users and agents.
package demo

import (
	"embed"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed files
var files embed.FS

// Servers are Harbor's MCP servers that can be started. The configuration contains another server
// whose program does not exist.
var Servers = []string{"customs", "fleet"}

// Write writes Harbor's folder: its configuration, its scripts, and its servers' scripts, which
// program runs. If s is nil, the configuration contains no packs.
func Write(dir, program string, s *Simulators) error {
	if err := write(dir, "files", "files/later"); err != nil {
		return err
	}
	path := filepath.Join(dir, "toolyard.yaml")
	text, err := os.ReadFile(path) //nolint:gosec // written above
	if err != nil {
		return err
	}
	quoted, err := json.Marshal(program) // also valid YAML
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(configure(string(text), string(quoted), s)), 0o600)
}

// packLine marks the lines in the configuration that need packs.
const packLine = "  # pack"

// configure replaces the placeholders in the configuration. If there are no simulators, it removes
// the lines that need packs.
func configure(text, program string, s *Simulators) string {
	values := map[string]string{}
	if s != nil {
		values = s.placeholders()
	}
	values["PROGRAM"] = program
	var out strings.Builder
	for line := range strings.Lines(text) {
		line, ofPack := strings.CutSuffix(strings.TrimSuffix(line, "\n"), packLine)
		if ofPack && s == nil {
			continue
		}
		for name, value := range values {
			line = strings.ReplaceAll(line, name, value)
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return out.String()
}

// Change changes the definition of one tool on the fleet server and adds another tool. If the
// previous definitions were approved, both changes are pending.
func Change(dir string) error { return write(dir, "files/later", "") }

// write copies embedded files, except those in one folder.
func write(dir, from, without string) error {
	return fs.WalkDir(files, from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == without {
			return fs.SkipDir
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if name = filepath.Join(dir, name); d.IsDir() {
			return os.MkdirAll(name, 0o700)
		}
		data, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(name, data, 0o600)
	})
}
