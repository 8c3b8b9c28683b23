// Package demo is what toolyard demo shows: Harbor, a small company with tools in Go and
// TypeScript, MCP servers of its own, and people and agents who call them.
package demo

import (
	"bytes"
	"embed"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed files
var files embed.FS

// Servers are the MCP servers of Harbor that can be started. There is another, which cannot.
var Servers = []string{"customs", "fleet"}

// Write writes the folder of Harbor: its configuration, its scripts and those of its servers,
// which are run by the program.
func Write(dir, program string) error {
	if err := write(dir, "files", "files/later"); err != nil {
		return err
	}
	path := filepath.Join(dir, "toolyard.yaml")
	text, err := os.ReadFile(path) //nolint:gosec // it was written just now
	if err != nil {
		return err
	}
	quoted, err := json.Marshal(program) // which is how YAML quotes too
	if err != nil {
		return err
	}
	return os.WriteFile(path, bytes.ReplaceAll(text, []byte("PROGRAM"), quoted), 0o600) //nolint:gosec // the folder is the caller's own
}

// Change makes the server fleet another than it was: one of its tools has a new definition,
// and there is a new one. Both wait for approval if the first ones were approved.
func Change(dir string) error { return write(dir, "files/later", "") }

// write copies embedded files, all but a folder.
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
