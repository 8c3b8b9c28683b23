// Command artifacts builds the release artifacts that goreleaser does not: SBOMs, npm packages, MCP
// bundles and the container image. It needs only the binaries, and reads their platforms and
// modules from their build information.
//
//	artifacts sbom  VERSION FILE BINARY       a CycloneDX document
//	artifacts npm   VERSION DIR  BINARY...    the package toolyard, and a package for each platform
//	artifacts mcpb  VERSION DIR  BINARY...    a bundle for each platform
//	artifacts image VERSION FILE BINARY...    an OCI image for all Linux platforms, as a tar archive
package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	kinds := map[string]func(version, out string, binaries []binary) error{
		"sbom": writeSBOM, "npm": writeNPM, "mcpb": writeBundles, "image": writeImage,
	}
	if len(args) < 4 || kinds[args[0]] == nil {
		return fmt.Errorf("usage: artifacts sbom|npm|mcpb|image VERSION OUT BINARY")
	}
	binaries := make([]binary, 0, len(args)-3)
	for _, path := range args[3:] {
		b, err := readBinary(path)
		if err != nil {
			return err
		}
		binaries = append(binaries, b)
	}
	if err := os.MkdirAll(filepath.Dir(args[2]), 0o755); err != nil { //nolint:gosec // public files
		return err
	}
	return kinds[args[0]](strings.TrimPrefix(args[1], "v"), args[2], binaries)
}

// binary is a built toolyard command.
type binary struct {
	path         string
	system, arch string // GOOS and GOARCH
	commit, date string
	build        *debug.BuildInfo
}

func readBinary(path string) (binary, error) {
	build, err := buildinfo.ReadFile(path)
	if err != nil {
		return binary{}, err
	}
	b := binary{path: path, build: build}
	for _, s := range build.Settings {
		switch s.Key {
		case "GOOS":
			b.system = s.Value
		case "GOARCH":
			b.arch = s.Value
		case "vcs.revision":
			b.commit = s.Value
		case "vcs.time":
			b.date = s.Value
		}
	}
	return b, nil
}

// name returns the program's file name on the binary's system.
func (b binary) name() string {
	if b.system == "windows" {
		return "toolyard.exe"
	}
	return "toolyard"
}

// nodePlatform and nodeArch return the names that Node.js uses.
func (b binary) nodePlatform() string {
	if b.system == "windows" {
		return "win32"
	}
	return b.system
}

func (b binary) nodeArch() string {
	if b.arch == "amd64" {
		return "x64"
	}
	return b.arch
}
