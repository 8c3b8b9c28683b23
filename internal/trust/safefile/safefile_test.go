package safefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/trust/safefile"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	for name, read := range map[string]func(name string, max int64) ([]byte, error){
		"Read":   func(name string, max int64) ([]byte, error) { return safefile.Read(filepath.Join(dir, name), max) },
		"ReadIn": func(name string, max int64) ([]byte, error) { return safefile.ReadIn(root, name, max) },
	} {
		t.Run(name, func(t *testing.T) {
			if data, err := read("file", 5); string(data) != "12345" || err != nil {
				t.Errorf("%q, %v", data, err)
			}
			if _, err := read("file", 4); !errors.As(err, new(*safefile.TooLargeError)) {
				t.Error(err)
			}
			if _, err := read(".", 4); !errors.Is(err, safefile.ErrNotRegular) {
				t.Error(err)
			}
			if _, err := read("none", 4); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "none") {
				t.Error(err)
			}
		})
	}
}

func TestWriteReplacesTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, text := range []string{"one", "two"} {
		if err := safefile.Write(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil || string(data) != text {
			t.Errorf("%q, %v", data, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Error(info.Mode(), err)
	}
	if err := safefile.WriteCache(path, []byte("three")); err != nil {
		t.Error(err)
	}
	if err := safefile.Write(filepath.Join(dir, "none", "file"), nil, 0o600); err == nil {
		t.Error("wrote into a directory that does not exist")
	}
	if entries, err := os.ReadDir(dir); len(entries) != 1 || err != nil {
		t.Error(entries, err)
	}
}

func TestRemoveTemporary(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".file.1.tmp", ".other.1.tmp", "file"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	safefile.RemoveTemporary(filepath.Join(dir, "file"))
	if entries, err := os.ReadDir(dir); len(entries) != 2 || err != nil {
		t.Error(entries, err)
	}
}
