// Package buildinfo describes this binary: its version, and the third-party components that it
// contains and their licenses.
package buildinfo

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
)

// Module is the path of the module that this package belongs to.
const Module = "github.com/toolyard/toolyard"

// Releases set these variables with -ldflags -X. Other builds use the Go toolchain's build
// information.
var version, commit, date string

// Info describes a binary.
type Info struct {
	Version    string      `json:"version"`
	Commit     string      `json:"commit,omitempty"`
	Date       string      `json:"date,omitempty"` // date of the commit, in RFC 3339 format
	Go         string      `json:"go"`
	Platform   string      `json:"platform"` // such as linux/amd64
	License    string      `json:"license"`
	Components []Component `json:"components"`
}

// The ecosystems of components.
const (
	Go  = "go"
	NPM = "npm"
)

// Component is a third-party module or package in the binary.
type Component struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	License   string `json:"license"` // SPDX expression; empty if unknown
	Ecosystem string `json:"ecosystem"`
}

//go:embed licenses.json
var list []byte

//go:embed built
var built embed.FS

// Listed returns the components that a build for any platform may contain.
var Listed = sync.OnceValue(func() (listed []Component) {
	if err := json.Unmarshal(list, &listed); err != nil {
		panic(fmt.Sprintf("invalid licenses.json: %v", err)) // cannot happen: a test reads the file
	}
	return listed
})

// Version returns the version of this binary, or "dev".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if version == "" && ok && info.Main.Version != "(devel)" {
		return cmp.Or(info.Main.Version, "dev")
	}
	return cmp.Or(version, "dev")
}

// Read describes this binary.
func Read() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	info := Info{Version: Version(), Commit: commit, Date: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, License: "Apache-2.0"}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = cmp.Or(info.Commit, s.Value)
		case "vcs.time":
			info.Date = cmp.Or(info.Date, s.Value)
		}
	}
	info.Components = Components(build)
	return info
}

// Components lists a binary's components: the modules in its build information, the Go standard
// library, and the embedded npm packages.
func Components(build *debug.BuildInfo) []Component {
	licenses := make(map[string]string)
	var npm []Component
	for _, c := range Listed() {
		if c.Ecosystem == NPM {
			npm = append(npm, c)
			continue
		}
		licenses[c.Name] = c.License
	}
	components := []Component{{Name: "std", Version: cmp.Or(build.GoVersion, runtime.Version()), License: "BSD-3-Clause", Ecosystem: Go}}
	for _, m := range build.Deps {
		used := m
		if m.Replace != nil {
			used = m.Replace
		}
		components = append(components, Component{Name: m.Path, Version: used.Version, License: licenses[m.Path], Ecosystem: Go})
	}
	slices.SortFunc(components, func(a, b Component) int { return cmp.Compare(a.Name, b.Name) })
	return append(components, npm...)
}

// Licenses returns the license texts of all components. "make build" creates them; they are not in
// git.
func Licenses() ([]byte, error) {
	text, err := built.ReadFile("built/licenses.txt")
	if err != nil {
		return nil, errors.New("this binary was built without the license texts; run \"make build\" in the source tree")
	}
	return text, nil
}
