package main

import (
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// npmFiles are the files of the package toolyard, except for package.json.
//
//go:embed npm
var npmFiles embed.FS

// npmPackage is a package.json.
type npmPackage struct {
	Name         string            `json:"name"`
	Version      string            `json:"version"`
	Description  string            `json:"description"`
	Keywords     []string          `json:"keywords,omitempty"`
	Homepage     string            `json:"homepage"`
	License      string            `json:"license"`
	Repository   string            `json:"repository"`
	Bin          map[string]string `json:"bin,omitempty"`
	Engines      map[string]string `json:"engines,omitempty"`
	OS           []string          `json:"os,omitempty"`
	CPU          []string          `json:"cpu,omitempty"`
	Files        []string          `json:"files"`
	Dependencies map[string]string `json:"optionalDependencies,omitempty"`
	PreferUnplug bool              `json:"preferUnplugged,omitempty"` // prevents Yarn from keeping programs in archives
}

const (
	homepage    = "https://github.com/toolyard/toolyard"
	description = "MCP gateway and tool platform: serve MCP servers, TypeScript files and Go functions as tools"
)

// writeNPM writes a package for each platform, and the package toolyard, whose launcher starts the
// program in the platform package that npm installed.
func writeNPM(version, out string, binaries []binary) error {
	launcher := npmPackage{
		Name: "toolyard", Version: version, Description: description, Keywords: []string{"mcp", "mcp-gateway", "mcp-server", "modelcontextprotocol", "agents", "tools"},
		Homepage: homepage, License: "Apache-2.0", Repository: "github:toolyard/toolyard",
		Bin: map[string]string{"toolyard": "bin/toolyard.js"}, Engines: map[string]string{"node": ">=18"},
		Files: []string{"bin", "LICENSE", "README.md"}, Dependencies: map[string]string{},
	}
	for _, b := range binaries {
		platform := b.nodePlatform() + "-" + b.nodeArch()
		p := npmPackage{
			Name: "@toolyard/" + platform, Version: version, Description: "The toolyard program for " + platform + ". Install the package toolyard instead.",
			Homepage: homepage, License: "Apache-2.0", Repository: launcher.Repository,
			OS: []string{b.nodePlatform()}, CPU: []string{b.nodeArch()}, Files: []string{"bin", "LICENSE"}, PreferUnplug: true,
		}
		launcher.Dependencies[p.Name] = version
		dir := filepath.Join(out, platform)
		if err := errors.Join(p.write(dir), copyFile(b.path, filepath.Join(dir, "bin", b.name()), 0o755)); err != nil {
			return err
		}
	}
	dir := filepath.Join(out, "toolyard")
	if err := launcher.write(dir); err != nil {
		return err
	}
	for name, mode := range map[string]fs.FileMode{"bin/toolyard.js": 0o755, "README.md": 0o644} {
		data, err := npmFiles.ReadFile("npm/" + name)
		if err == nil {
			err = writeFile(filepath.Join(dir, filepath.FromSlash(name)), data, mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// write writes package.json and the license.
func (p npmPackage) write(dir string) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(writeFile(filepath.Join(dir, "package.json"), append(text, '\n'), 0o644), copyFile("LICENSE", filepath.Join(dir, "LICENSE"), 0o644))
}

func copyFile(from, to string, mode fs.FileMode) error {
	data, err := os.ReadFile(from) //nolint:gosec // a file that the release names
	if err != nil {
		return err
	}
	return writeFile(to, data, mode)
}

func writeFile(name string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // public files
		return err
	}
	return os.WriteFile(name, data, mode) //nolint:gosec // a folder that the release names
}
