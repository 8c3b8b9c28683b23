package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/store"
)

func TestApply(t *testing.T) {
	const first = "gates:\n  a: {mode: read}\nterms:\n  hello: {rate: {perMinute: 5}}\n"
	d := newFixture(t, first)
	address := "sqlite:" + filepath.Join(t.TempDir(), "shared.db")
	apply := func(text string, args ...string) string {
		t.Helper()
		if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return d.mustRun(append([]string{"apply", "--store", address}, args...)...)
	}
	for _, step := range []struct {
		text string
		want string
	}{
		{first, "  + gates\n  + terms\nStored " + d.file + " as version 1.\n"},
		{first, "No changes: " + d.file + " is identical to version 1 in the store.\n"},
		{"gates:\n  a: {mode: write}\n  b: {mode: read}\nlog: {level: debug}\n", "  ~ gates.a.mode\n  + gates.b\n  ~ log.level\n  - terms\nStored " + d.file + " as version 2.\n"},
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
		"toolsets:\n  x: {servers: [missing]}\n":                   `unknown server "missing"`,
		"gates:\n  a: {mode: read, toolset: nothing}\n":            "unknown toolset",
		"log: {level: \"${MISSING_LEVEL}\"}\n":                     "MISSING_LEVEL is not set",
		"servers:\n  x: {url: \"http://localhost\", command: y}\n": ":2:",
	} {
		newFixture(t, text).mustFail(exitError, want, "apply", "--store", address)
	}
	newFixture(t, "").mustFail(exitError, "no store is configured", "apply")
	newFixture(t, "store: memory\n").mustFail(exitError, "no store is configured", "apply")
	newFixture(t, "").mustFail(exitError, "nowhere.yaml does not exist", "apply", "nowhere.yaml")
	newFixture(t, "").mustFail(exitError, "the address must be", "apply", "--store", "mysql://x")
}

// sharedFixture returns a fixture whose file was applied once for each text.
func sharedFixture(t *testing.T, texts ...string) (d *fixture, address string) {
	t.Helper()
	d = newFixture(t, "")
	address = "sqlite:" + filepath.Join(t.TempDir(), "shared.db")
	for _, text := range texts {
		if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d.mustRun("apply", "--store", address)
	}
	return d, address
}

func TestApplyShowsAndRestoresVersions(t *testing.T) {
	const first, second = "# first\ngates:\n  a: {mode: read}\n", "# second\ngates:\n  a: {mode: write}\n"
	d, address := sharedFixture(t, first, second)
	apply := func(args ...string) string {
		return d.mustRun(append([]string{"apply", "--store", address}, args...)...)
	}
	if out := apply("--show"); out != second {
		t.Errorf("%q", out)
	}
	by := regexp.QuoteMeta(systemUser()) + ` +`
	line := func(version string, from string) string {
		return version + ` +20\d\d-\d\d-\d\d \d\d:\d\d:\d\d +` + by + regexp.QuoteMeta(from) + `\n`
	}
	want := `^VERSION +TIME \(UTC\) +BY +FROM\n` + line(`2 \(current\)`, d.file) + line(`1`, d.file) + `$`
	if out := apply("--history"); !regexp.MustCompile(want).MatchString(out) {
		t.Errorf("no %s in\n%s", want, out)
	}
	if out := apply("--restore", "1"); out != "  ~ gates.a.mode\nStored version 1 of toolyard.yaml as version 3.\n" {
		t.Error(out)
	}
	if out := apply("--restore", "1"); out != "No changes: version 1 of toolyard.yaml is identical to version 3 in the store.\n" {
		t.Error(out)
	}
	if out := apply("--show"); out != first {
		t.Errorf("%q", out)
	}
	if out := apply("--history"); !regexp.MustCompile(line(`\n3 \(current\)`, "version 1 of toolyard.yaml")).MatchString(out) {
		t.Error(out)
	}
	s, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	changes, err := s.Changes(t.Context(), store.ChangeQuery{})
	if err != nil || len(changes) != 3 {
		t.Fatalf("%d changes, %v", len(changes), err)
	}
	i := slices.IndexFunc(changes, func(c *store.Change) bool { return c.Action == "config.restore" }) // all changes have the same time
	if i < 0 || changes[i].Caller != systemUser() || string(changes[i].Detail) != `{"restored":1,"version":3}` {
		t.Errorf("the restore is not recorded: %d", i)
	}
}

// The command uses --store or, without it, the configured store. With --store, no file is needed.
func TestApplyHistoryFindsTheStore(t *testing.T) {
	d := newFixture(t, "store: sqlite:own.db\n")
	t.Chdir(filepath.Dir(d.file))
	d.mustRun("apply")
	if out := d.mustRun("apply", "--show"); out != "store: sqlite:own.db\n" {
		t.Errorf("%q", out)
	}
	d.file = ""
	if err := os.Remove("my.yaml"); err != nil {
		t.Fatal(err)
	}
	if out := d.mustRun("apply", "--history", "--store", "sqlite:own.db"); !strings.Contains(out, "\n1 (current)") {
		t.Error(out)
	}
	d.mustFail(exitError, "no store is configured", "apply", "--show")
}

// A version that has no history entry is listed, but cannot be restored.
func TestApplyHistoryListsAVersionWithoutEntry(t *testing.T) {
	address := "sqlite:" + filepath.Join(t.TempDir(), "shared.db")
	s, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetDocument(t.Context(), config.File, []byte("log: {level: debug}\n"), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d := newFixture(t, "")
	if out := d.mustRun("apply", "--history", "--store", address); !regexp.MustCompile(`\n1 \(current\) +unknown`).MatchString(out) {
		t.Error(out)
	}
	d.mustFail(exitError, "version 1 of toolyard.yaml is not in the store; \"toolyard apply --history\"", "apply", "--restore", "1", "--store", address)
}

func TestApplyRestoreRefuses(t *testing.T) {
	d, address := sharedFixture(t, "log: {level: info}\n", "log: {level: debug}\n")
	d.mustFail(exitUsage, "requires a version number", "apply", "--restore", "0", "--store", address)
	d.mustFail(exitUsage, "do not take a file", "apply", "--restore", "1", d.file, "--store", address)
	d.mustFail(exitUsage, "none of the others can be", "apply", "--restore", "1", "--show", "--store", address)
	d.mustFail(exitError, "version 7 of", "apply", "--restore", "7", "--store", address)
	d.mustFail(exitError, "contains no configuration", "apply", "--show", "--store", "sqlite:"+filepath.Join(t.TempDir(), "empty.db"))

	s, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	const bad = "toolsets:\n  x: {servers: [missing]}\n"
	if _, err := s.SetDocumentAs(t.Context(), config.File, []byte(bad), 2, "ann", ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d.mustRun("apply", "--restore", "2", "--store", address)
	d.mustFail(exitError, `unknown server "missing"`, "apply", "--restore", "3", "--store", address) // this version is invalid
	if out := d.mustRun("apply", "--show", "--store", address); out != "log: {level: debug}\n" {
		t.Errorf("%q", out)
	}
}
