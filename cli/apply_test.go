package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/store"
)

func TestApply(t *testing.T) {
	const first = "gates:\n  a: {mode: read}\nterms:\n  hello: {rate: {perMinute: 5}}\n"
	d := newDesk(t, first)
	address := "sqlite:" + filepath.Join(t.TempDir(), "shared.db")
	apply := func(text string, args ...string) string {
		t.Helper()
		if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return d.good(append([]string{"apply", "--store", address}, args...)...)
	}
	for _, step := range []struct {
		text string
		want string
	}{
		{first, "  + gates\n  + terms\n" + d.file + " is version 1 in the store.\n"},
		{first, "Nothing changes: version 1 in the store is the same.\n"},
		{"gates:\n  a: {mode: write}\n  b: {mode: read}\nlog: {level: debug}\n", "  ~ gates.a.mode\n  + gates.b\n  ~ log.level\n  - terms\n" + d.file + " is version 2 in the store.\n"},
	} {
		if out := apply(step.text); out != step.want {
			t.Errorf("%s, want %s", out, step.want)
		}
	}
	s, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	body, version, err := s.Document(t.Context(), config.File)
	if !strings.Contains(string(body), "level: debug") || version != 2 || err != nil {
		t.Errorf("version %d: %s %v", version, body, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestApplyRefuses(t *testing.T) {
	address := "sqlite:" + filepath.Join(t.TempDir(), "shared.db")
	for text, want := range map[string]string{
		"gates:\n  a: {mode: raed}\n":                              ":2:",
		"toolsets:\n  x: {servers: [nobody]}\n":                    `names the server "nobody"`,
		"gates:\n  a: {mode: read, toolset: nothing}\n":            "names no toolset",
		"log: {level: \"${LEVEL_OF_NOBODY}\"}\n":                   "LEVEL_OF_NOBODY is not set",
		"servers:\n  x: {url: \"http://localhost\", command: y}\n": ":2:",
	} {
		newDesk(t, text).bad(exitError, want, "apply", "--store", address)
	}
	newDesk(t, "").bad(exitError, "there is no store to put it into", "apply")
	newDesk(t, "store: memory\n").bad(exitError, "there is no store to put it into", "apply")
	newDesk(t, "").bad(exitError, "no such file", "apply", "nowhere.yaml")
	newDesk(t, "").bad(exitError, "the address must be", "apply", "--store", "mysql://x")
}
