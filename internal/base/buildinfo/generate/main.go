// Command generate lists the toolyard binary's third-party components and their licenses in
// internal/base/buildinfo/licenses.json, and collects the license texts in built/licenses.txt next
// to it. Run it in the root of the repository with make licenses.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/base/buildinfo"
)

const folder = "internal/base/buildinfo"

// npmProjects lists the folders whose npm packages are embedded.
var npmProjects = []string{"internal/jsvm/assets", "console"}

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate() error {
	packages, err := collect(".")
	if err != nil {
		return err
	}
	if err := os.WriteFile(folder+"/licenses.json", encode(packages), 0o644); err != nil { //nolint:gosec // a source file
		return err
	}
	texts := make(map[string][]string)
	for _, p := range packages {
		if texts[p.Name], err = p.texts(); err != nil {
			return err
		}
	}
	text := document(texts)
	fmt.Fprintf(os.Stdout, "%d components, %d bytes of license texts\n", len(packages), len(text))
	return os.WriteFile(folder+"/built/licenses.txt", text, 0o644) //nolint:gosec // a public file
}

// component is a component and the folder that contains its files.
type component struct {
	buildinfo.Component
	dir string
}

// collect lists the components for all platforms. It reads the licenses of Go modules from their
// files, and those of npm packages from the lock files.
func collect(root string) ([]component, error) {
	all := make(map[string]component)
	for _, system := range []string{"linux", "darwin", "windows"} {
		modules, err := goModules(root, system)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, modules)
	}
	for _, project := range npmProjects {
		packages, err := npmPackages(filepath.Join(root, project))
		if err != nil {
			return nil, err
		}
		for name, p := range packages {
			if other, ok := all[name]; ok && other.Version != p.Version {
				return nil, fmt.Errorf("npm package %s is embedded in two versions, %s and %s", name, other.Version, p.Version)
			}
			all[name] = p
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b component) int {
		return cmp.Or(cmp.Compare(a.Ecosystem, b.Ecosystem), cmp.Compare(a.Name, b.Name))
	}), nil
}

func goModules(root, system string) (map[string]component, error) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/toolyard") //nolint:forbidigo,noctx // a build tool
	list.Dir, list.Env = root, append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list for %s: %w\n%s", system, err, &stderr)
	}
	modules := make(map[string]component)
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 || modules[fields[0]].Name != "" {
			continue
		}
		c := component{Component: buildinfo.Component{Name: fields[0], Version: fields[1], Ecosystem: buildinfo.Go}, dir: fields[2]}
		texts, err := c.texts()
		if err != nil {
			return nil, err
		}
		if c.License, err = classify(texts); err != nil {
			return nil, fmt.Errorf("module %s: %w", c.Name, err)
		}
		modules[c.Name] = c
	}
	return modules, nil
}

// npmPackages lists a project's packages, excluding those used only for development.
func npmPackages(project string) (map[string]component, error) {
	data, err := os.ReadFile(filepath.Join(project, "package-lock.json")) //nolint:gosec // in this repository
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct {
			Version, License    string
			Dev, Optional, Peer bool
		}
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		return nil, fmt.Errorf("%s/package-lock.json: %w", project, err)
	}
	packages := make(map[string]component)
	for path, p := range lock.Packages {
		_, name, ok := strings.Cut(path, "node_modules/")
		if !ok || p.Dev || p.Optional || p.Peer || strings.HasPrefix(name, "@types/") {
			continue
		}
		if p.License == "" {
			return nil, fmt.Errorf("npm package %s declares no license", name)
		}
		packages[name] = component{
			Component: buildinfo.Component{Name: name, Version: p.Version, License: p.License, Ecosystem: buildinfo.NPM},
			dir:       filepath.Join(project, filepath.FromSlash(path)),
		}
	}
	return packages, nil
}

var licenseFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|unlicense)`)

// texts returns a component's license files.
func (c component) texts() (texts []string, err error) {
	files, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w; run \"go mod download\" and \"make build\"", c.Name, c.Version, err)
	}
	for _, f := range files {
		if f.IsDir() || !licenseFile.MatchString(f.Name()) || strings.HasSuffix(f.Name(), "-LOGO") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(c.dir, f.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
	}
	if len(texts) == 0 && c.Ecosystem == buildinfo.NPM { // the package declares its license but does not include the text
		return []string{"License: " + c.License + " (" + "https://spdx.org/licenses/" + c.License + ".html)"}, nil
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("%s %s: %w", c.Name, c.Version, fs.ErrNotExist)
	}
	return texts, nil
}

// phrases identify licenses. The first match in a text wins.
var phrases = []struct{ license, phrase string }{
	{"Apache-2.0", "Apache License Version 2.0"},
	{"MPL-2.0", "Mozilla Public License Version 2.0"},
	{"BSD-3-Clause", "Neither the name"},
	{"BSD-3-Clause", "The names of its contributors may not be used"},
	{"BSD-2-Clause", "Redistribution and use in source and binary forms"},
	{"MIT", "Permission is hereby granted, free of charge"},
	{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose with or without fee"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee"},
}

// classify returns the license in a module's files as an SPDX expression.
func classify(texts []string) (string, error) {
	found := make(map[string]bool)
	for _, text := range texts {
		text = strings.ToLower(strings.Join(strings.Fields(text), " "))
		for _, p := range phrases {
			if strings.Contains(text, strings.ToLower(p.phrase)) {
				found[p.license] = true
				break
			}
		}
	}
	if len(found) == 0 {
		return "", errors.New("unknown license")
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " AND "), nil
}

// document returns a document with each license text once, below the names of its components.
func document(texts map[string][]string) []byte {
	components := make(map[string][]string) // by text
	for name, list := range texts {
		for _, text := range list {
			components[text] = append(components[text], name)
		}
	}
	for text := range components {
		slices.Sort(components[text])
	}
	order := make([]string, 0, len(components))
	for text := range components {
		order = append(order, text)
	}
	slices.SortFunc(order, func(a, b string) int {
		return cmp.Or(slices.Compare(components[a], components[b]), cmp.Compare(a, b))
	})
	var out bytes.Buffer
	out.WriteString("Toolyard is licensed under the Apache License, Version 2.0. It contains the following third-party components.\n")
	for _, text := range order {
		out.WriteString("\n================================================================================\n")
		for _, name := range components[text] {
			fmt.Fprintln(&out, name)
		}
		fmt.Fprintf(&out, "--------------------------------------------------------------------------------\n%s\n", text)
	}
	return out.Bytes()
}

// encode writes one component per line.
func encode(components []component) []byte {
	var out bytes.Buffer
	for i, c := range components {
		line, _ := json.Marshal(c.Component) // cannot fail
		out.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		out.Write(line)
	}
	out.WriteString("\n]\n")
	return out.Bytes()
}
