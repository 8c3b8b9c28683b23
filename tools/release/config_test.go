package release_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

const root = "../.."

// goreleaser accepts the configuration, which has no unknown keys, and the files that it names
// exist. This is quick enough for .ci/run; the pull request workflow builds a whole snapshot.
func TestConfiguration(t *testing.T) {
	project, err := config.Load(filepath.Join(root, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range project.Builds {
		names = append(names, b.Main)
		for _, hook := range b.Hooks.Post {
			names = append(names, regexp.MustCompile(`\./\S+`).FindAllString(hook.Cmd, -1)...)
		}
	}
	for _, a := range project.Archives {
		for _, f := range a.Files {
			names = append(names, f.Source)
		}
	}
	for _, p := range project.NFPMs {
		for _, c := range p.Contents {
			names = append(names, c.Source)
		}
		names = append(names, p.Scripts.PostInstall, p.Scripts.PreRemove)
	}
	for _, name := range names {
		if strings.Contains(name, "/built/") {
			continue // a hook creates it before the build
		}
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf(".goreleaser.yaml: %v", err)
		}
	}
	if len(project.Builds) != 1 || len(project.SBOMs) != 1 || len(names) < 12 {
		t.Errorf("%d builds, %d SBOMs, %d files", len(project.Builds), len(project.SBOMs), len(names))
	}
	t.Log(names)
}

// The variables that the linker sets exist.
func TestLinkedVariables(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(root, "internal/base/buildinfo/buildinfo.go"))
	if err != nil {
		t.Fatal(err)
	}
	linked := regexp.MustCompile(`-X github\.com/toolyard/toolyard/internal/base/buildinfo\.(\w+)=`).FindAllSubmatch(text, -1)
	for _, m := range linked {
		if !regexp.MustCompile(`(?m)^(var )?\s*(\w+, )*` + string(m[1]) + `(, \w+)* string`).Match(source) {
			t.Errorf("internal/base/buildinfo has no variable %s", m[1])
		}
	}
	if len(linked) != 3 {
		t.Errorf("%d linked variables", len(linked))
	}
}
