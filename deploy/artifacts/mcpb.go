package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// object is a JSON object.
type object = map[string]any

// manifest returns a bundle's manifest, in version 0.3 of the format.
func manifest(version string, b binary) object {
	program := "server/" + b.name()
	return object{
		"manifest_version": "0.3",
		"name":             "toolyard",
		"display_name":     "Toolyard",
		"version":          version,
		"description":      description,
		"author":           object{"name": "The Toolyard authors", "url": homepage},
		"repository":       object{"type": "git", "url": homepage + ".git"},
		"homepage":         homepage,
		"documentation":    homepage + "/blob/main/docs/INSTALL.md",
		"license":          "Apache-2.0",
		"keywords":         []string{"gateway", "mcp", "tools"},
		"server": object{
			"type":        "binary",
			"entry_point": program,
			"mcp_config":  object{"command": "${__dirname}/" + program, "args": []string{"serve", "--config", "${user_config.config}"}},
		},
		"tools_generated":   true,
		"prompts_generated": true,
		"compatibility":     object{"platforms": []string{b.nodePlatform()}},
		"user_config": object{"config": object{
			"type": "file", "title": "Configuration file", "description": "Your toolyard.yaml. \"toolyard import --write\" creates one from the MCP servers of your clients.",
			"required": true,
		}},
	}
}

// writeBundles writes an MCP bundle for each binary: a zip archive with a manifest, for one-click
// installation in desktop clients.
func writeBundles(version, out string, binaries []binary) error {
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // public files
		return err
	}
	for _, b := range binaries {
		data, err := bundle(version, b)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("toolyard_%s_%s_%s.mcpb", version, b.system, b.arch)
		if err := os.WriteFile(filepath.Join(out, name), data, 0o644); err != nil { //nolint:gosec // a public file
			return err
		}
	}
	return nil
}

func bundle(version string, b binary) ([]byte, error) {
	text, err := json.MarshalIndent(manifest(version, b), "", "  ")
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range []struct {
		name string
		mode fs.FileMode
		data []byte
	}{{"manifest.json", 0o644, append(text, '\n')}, {"server/" + b.name(), 0o755, program}} {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		header.SetMode(f.mode)
		w, err := z.CreateHeader(header)
		if err == nil {
			_, err = w.Write(f.data)
		}
		if err != nil {
			return nil, errors.Join(err, z.Close())
		}
	}
	err = z.Close()
	return out.Bytes(), err
}
