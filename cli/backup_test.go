package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
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
	if out := d.mustRun("store", "restore", "--check", file); !strings.Contains(out, "complete; created at ") {
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

func TestDeleteCallerAndExportAuditLog(t *testing.T) {
	d := newFixture(t, "store: sqlite:yard.db\ngates:\n  chat: {mode: read, callers: keys}\n")
	d.mustRun("keys", "create", "--name", "ci", "--caller", "ci", "--account", "acme")
	d.mustFail(exitError, "No data found for caller", "callers", "delete", "ci", "--account", "other")
	if out := d.mustRun("callers", "delete", "ci", "--account", "acme"); !strings.Contains(out, "deleted from keys: 1 row") {
		t.Error(out)
	}
	d.mustFail(exitError, "No data found for caller", "callers", "delete", "ci")
	if out := d.mustRun("audit", "export", "--format", "csv"); !strings.Contains(out, ",caller.delete,ci,200,") || !strings.HasPrefix(out, "id,at,caller,") {
		t.Error(out)
	}
	if out := d.mustRun("audit", "export", "--since", "2026-11-15"); strings.Count(out, "\n") != 4 {
		t.Error(out)
	}
	if out := d.mustRun("audit", "export", "--until", "2026-11-15"); out != "" {
		t.Error(out)
	}
	d.mustFail(exitUsage, "--format must be jsonl, csv or otlp", "audit", "export", "--format", "xml")
	d.mustFail(exitUsage, "is not a valid time", "audit", "export", "--since", "yesterday")
}

func TestExportAuditLogFromCursor(t *testing.T) {
	d := newFixture(t, "store: sqlite:yard.db\ngates:\n  chat: {mode: read, callers: keys}\n")
	file := filepath.Join(t.TempDir(), "audit.cursor")
	export := func() []string {
		return strings.FieldsFunc(d.mustRun("audit", "export", "--cursor-file", file), func(r rune) bool { return r == '\n' })
	}
	d.mustRun("keys", "create", "--name", "one", "--caller", "ci", "--account", "acme")
	if lines := export(); len(lines) != 0 {
		t.Errorf("a change was exported before others could be older: %q", lines)
	}
	d.now = d.now.Add(time.Minute)
	first := export()
	if len(first) != 1 || !strings.Contains(first[0], `"action":"key.create"`) {
		t.Errorf("first export: %q", first)
	}
	if lines := export(); len(lines) != 0 {
		t.Errorf("exported twice: %q", lines)
	}
	d.mustRun("keys", "create", "--name", "two", "--caller", "ci", "--account", "acme")
	d.now = d.now.Add(time.Minute)
	if second := export(); len(second) != 1 || second[0] == first[0] {
		t.Errorf("second export: %q", second)
	}
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.mustFail(exitError, "delete the file to export all changes again", "audit", "export", "--cursor-file", file)
	d.mustFail(exitUsage, "cannot be joined", "audit", "export", "--follow", "--format", "csv")
	d.mustFail(exitUsage, "cannot be combined", "audit", "export", "--follow", "--until", "24h")
	d.mustFail(exitError, "set OTEL_EXPORTER_OTLP_ENDPOINT", "audit", "export", "--format", "otlp")
}

// The commands in docs/OPERATE.md work in the given order.
func TestOperationDocs(t *testing.T) {
	doc, err := os.ReadFile("../docs/OPERATE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, config, _ := strings.Cut(string(doc), "```yaml\n")
	config, _, _ = strings.Cut(config, "```")
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	if err := os.WriteFile("toolyard.yaml", []byte("listen: 127.0.0.1:0\n"+config), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, file: "toolyard.yaml", now: time.Now()}
	ran := 0
	for i, block := range strings.Split(string(doc), "```sh\n") {
		block, _, _ = strings.Cut(block, "```")
		for line := range strings.Lines(block) {
			command, _, _ := strings.Cut(strings.TrimSpace(line), "#")
			command, _, _ = strings.Cut(command, " >") // the output is not checked
			args, ok := strings.CutPrefix(command, "toolyard ")
			if !ok || i == 0 {
				continue
			}
			ran++
			if strings.TrimSpace(args) != "doctor" {
				f.mustRun(strings.Fields(args)...)
			} else if out, _, _ := f.run("doctor"); !strings.Contains(out, "✓ store") { // may fail, because the check of clients needs a home directory
				t.Error(out)
			}
		}
	}
	if ran < 10 {
		t.Errorf("only %d commands", ran)
	}
}
