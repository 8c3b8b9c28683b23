package buildinfo

import (
	"runtime/debug"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReleaseVariablesWinOverBuildInformation(t *testing.T) {
	if got := Version(); got == "" {
		t.Error("a build without variables has no version")
	}
	version, commit, date = "v1.2.3", "4f2a9c", "2026-11-16T12:00:00Z"
	defer func() { version, commit, date = "", "", "" }()
	got := Read()
	if got.Version != "v1.2.3" || got.Commit != "4f2a9c" || got.Date != "2026-11-16T12:00:00Z" || got.Go == "" || got.Platform == "" {
		t.Errorf("got %+v", got)
	}
}

func TestComponentsHaveTheVersionsOfTheBinary(t *testing.T) {
	build := &debug.BuildInfo{GoVersion: "go1.26.0", Deps: []*debug.Module{
		{Path: "github.com/spf13/cobra", Version: "v9.0.0"},
		{Path: "example.com/fork", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/other", Version: "v1.1.0"}},
	}}
	got := Components(build)
	want := []Component{
		{Name: "example.com/fork", Version: "v1.1.0", Ecosystem: Go},
		{Name: "github.com/spf13/cobra", Version: "v9.0.0", License: "Apache-2.0", Ecosystem: Go},
		{Name: "std", Version: "go1.26.0", License: "BSD-3-Clause", Ecosystem: Go},
	}
	if diff := cmp.Diff(want, got[:3]); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"quickjs-wasi", "zod", "react"} {
		if !slices.ContainsFunc(got, func(c Component) bool { return c.Name == name && c.Ecosystem == NPM && c.Version != "" }) {
			t.Errorf("the embedded npm package %s is not listed", name)
		}
	}
}
