package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestBackupCommands(t *testing.T) {
	d := newFixture(t, "store: sqlite:yard.db\ngates:\n  chat: {mode: read, callers: keys}\n")
	dir := filepath.Dir(d.file)
	file, other := filepath.Join(dir, "yard.backup"), "sqlite:"+filepath.Join(dir, "other.db")
	d.mustRun("accounts", "fund", "acme", "12.5", "--reference", "first")
	if out := d.mustRun("store", "backup", file); !strings.Contains(out, "rows, ") {
		t.Error(out)
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	d.mustFail(exitError, "exists; choose another name", "store", "backup", file)
	d.mustFail(exitError, "use an empty database, or --replace", "store", "restore", file)
	if out := d.mustRun("store", "restore", "--check", file); !strings.Contains(out, "complete; made at ") {
		t.Error(out)
	}
	if out := d.mustRun("store", "restore", file, "--store", other); !strings.Contains(out, "restored; the ledger balances") {
		t.Error(out)
	}
	if out := d.mustRun("accounts", "show", "--store", other); !strings.Contains(out, "12.5") {
		t.Error(out)
	}
	d.mustRun("accounts", "fund", "acme", "1", "--reference", "second", "--store", other)
	d.mustRun("store", "restore", file, "--replace", "--store", other)
	if out := d.mustRun("accounts", "show", "--store", other); !strings.Contains(out, "12.5") {
		t.Error(out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	d.mustFail(exitError, "damaged", "store", "restore", file, "--replace")
	if out := d.mustRun("accounts", "show"); !strings.Contains(out, "12.5") {
		t.Error(out)
	}
}
