package yard_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/pgtest"
	"github.com/toolyard/toolyard/packs/basics"
	"github.com/toolyard/toolyard/yard"
)

// syncLog is a log that can be read while it is being written.
type syncLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (d *syncLog) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(b)
}

func (d *syncLog) has(text string) bool { return strings.Contains(d.String(), text) }

func (d *syncLog) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.String()
}

func openStore(t *testing.T, address string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// put writes the given version of the configuration to the store.
func put(t *testing.T, s *store.Store, text string, version int64) {
	t.Helper()
	if next, err := s.SetDocument(t.Context(), "toolyard.yaml", []byte(text), version); err != nil || next != version+1 {
		t.Fatal(next, err)
	}
}

func within(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// stores creates stores by kind and returns their addresses.
var stores = map[string]func(*testing.T) string{
	"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "yard.db") },
	"postgres": func(t *testing.T) string { return pgtest.ForTest(t).Database(t) },
}

func TestConfigurationInTheStoreIsFollowed(t *testing.T) {
	for name, address := range stores {
		t.Run(name, func(t *testing.T) {
			address, log := address(t), &syncLog{}
			opts := yard.Options{Tools: basics.Tools(), Store: address, Log: slog.New(slog.NewTextHandler(log, nil))}
			if _, err := yard.New(opts); err == nil || !strings.Contains(err.Error(), "toolyard apply") {
				t.Errorf("without a configuration: %v", err)
			}
			s := openStore(t, address)
			put(t, s, "gates:\n  a: {mode: raed}\n", 0)
			if _, err := yard.New(opts); err == nil || !strings.Contains(err.Error(), "toolyard.yaml (version 1 in the store):2:") {
				t.Errorf("with an invalid one: %v", err)
			}
			put(t, s, "store: sqlite:elsewhere.db\ngates:\n  a: {mode: read}\n", 1)
			y := start(t, opts)
			serves := func(gates string) func() bool { return func() bool { return fmt.Sprint(y.Gates()) == gates } }
			if !serves("[a]")() {
				t.Error(y.Gates())
			}
			put(t, s, "gates:\n  b: {mode: read}\n", 2)
			within(t, time.Minute, "the new gate is served", serves("[b]"))
			put(t, s, "gates:\n  c: [\n", 3)
			within(t, time.Minute, "the error is logged", func() bool { return log.has("toolyard.yaml (version 4 in the store):") })
			if !serves("[b]")() {
				t.Error(y.Gates())
			}
			put(t, s, "gates:\n  c: {mode: read}\n", 4)
			within(t, time.Minute, "the corrected one is served", serves("[c]"))
			within(t, time.Minute, "the reload is logged", func() bool { return log.has("toolyard.yaml (version 5 in the store)") })
			if log.has("after a restart") {
				t.Error("the log asks for a restart, although the store did not change")
			}
			if _, err := os.Stat("elsewhere.db"); err == nil {
				t.Error("another store was opened")
			}
		})
	}
}

// A yard that has a file ignores the configuration in the store.
func TestAFileOverridesTheStore(t *testing.T) {
	address := stores["sqlite"](t)
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "store: %q\ngates: {mine: {mode: read}}\n", address), 0o600); err != nil {
		t.Fatal(err)
	}
	y := start(t, yard.Options{Tools: basics.Tools(), ConfigFile: file, Store: address})
	put(t, openStore(t, address), "gates: {theirs: {mode: read}}\n", 0)
	time.Sleep(time.Second)
	if fmt.Sprint(y.Gates()) != "[mine]" {
		t.Error(y.Gates())
	}
}

const approved = `{
  "version": 1,
  "servers": {
    "up": {
      "protocol": "2026-07-28",
      "tools": {}
    }
  }
}
`

// A lock file is imported into PostgreSQL once.
func TestTheLockFileIsImportedOnce(t *testing.T) {
	address, dir, log := stores["postgres"](t), t.TempDir(), &syncLog{}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("toolyard.yaml", fmt.Sprintf("store: %q\n", address))
	opts := yard.Options{ConfigFile: filepath.Join(dir, "toolyard.yaml"), Log: slog.New(slog.NewTextHandler(log, nil))}
	s := openStore(t, address)
	document := func(want string, version int64) {
		t.Helper()
		if body, v, err := s.Document(t.Context(), "toolyard.lock"); string(body) != want || v != version || err != nil {
			t.Errorf("version %d, %v:\n%s", v, err, body)
		}
	}
	write("toolyard.lock", "{")
	if _, err := yard.New(opts); err == nil || !strings.Contains(err.Error(), "toolyard.lock:1: ") {
		t.Errorf("a damaged file: %v", err)
	}
	document("", 0)
	write("toolyard.lock", approved)
	start(t, opts)
	document(approved, 1)
	if !log.has("imported the lock file") {
		t.Error(log)
	}
	write("toolyard.lock", strings.Replace(approved, "up", "other", 1))
	start(t, opts)
	document(approved, 1)
}

// CheckConfig opens no store and creates no files.
func TestCheckConfig(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "toolyard.yaml")
	for text, want := range map[string]string{
		"store: postgres://nobody@127.0.0.1:1/nothing\ngates: {a: {mode: read, callers: keys}}\n": "",
		"gates: {a: {mode: read, callers: keys}}\nservers: {x: {command: ./nothing}}\n":           "",
		"toolsets: {x: {servers: [nobody]}}\n":                                                    "nobody",
		"toolsets: {x: {tools: [helo]}}\ngates: {a: {mode: read, toolset: x}}\n":                  "helo",
	} {
		err := yard.CheckConfig(yard.Options{Tools: basics.Tools(), ConfigFile: file}, []byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("it created %v", list)
	}
}
