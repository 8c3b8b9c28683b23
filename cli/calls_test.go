package cli

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
)

// record stores calls. The i-th call started i minutes ago.
func (f *fixture) record(calls ...*store.CallRow) {
	f.t.Helper()
	s, err := store.Open(f.t.Context(), "sqlite:"+strings.TrimSuffix(f.file, ".yaml")+".db")
	if err != nil {
		f.t.Fatal(err)
	}
	for i, c := range calls {
		c.ID, c.At, c.Gate, c.Mode = fmt.Sprintf("c%04d", i), f.now.Add(-time.Duration(i)*time.Minute), "chat", toolyard.Read
	}
	if err := s.AppendCalls(f.t.Context(), calls); err != nil {
		f.t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		f.t.Fatal(err)
	}
}

func recordedFixture(t *testing.T) *fixture {
	d := newFixture(t, "gates:\n  chat: {mode: read, callers: keys}\n")
	d.record(
		&store.CallRow{Tool: "greet", Caller: "alice", Code: toolyard.OK, Elapsed: 1500 * time.Microsecond, Price: toolyard.USD / 100},
		&store.CallRow{Server: "github", Tool: "search", Caller: "bob", Code: toolyard.Timeout, Message: "=cmd|' /C calc'!A0\x1b[2J\nsecond \"line\""},
		&store.CallRow{Tool: "search", Caller: "alice", Code: toolyard.Invalid, Message: "@x"},
	)
	return d
}

func TestCallsAreSelected(t *testing.T) {
	d := recordedFixture(t)
	for _, c := range []struct{ args, want string }{
		{"", "c0000 c0001 c0002"},
		{"--failed", "c0001 c0002"},
		{"--tool search", "c0001 c0002"},
		{"--tool github/search", "c0001"},
		{"--tool -/search", "c0002"},
		{"--caller alice", "c0000 c0002"},
		{"--since 90s", "c0000 c0001"},
		{"--limit 1", "c0000"},
		{"--failed --caller carol", ""},
	} {
		var rows []store.CallRow
		out := d.mustRun(append([]string{"calls", "--json"}, strings.Fields(c.args)...)...)
		if err := json.Unmarshal([]byte(out), &rows); err != nil || rows == nil {
			t.Fatalf("%s: %v: %s", c.args, err, out)
		}
		ids := make([]string, len(rows))
		for i, r := range rows {
			ids[i] = r.ID
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%q: %s, want %s", c.args, got, c.want)
		}
	}
}

func TestCallsTableIsPrintable(t *testing.T) {
	d := recordedFixture(t)
	out, errs, code := d.run("calls", "--limit", "2")
	if code != exitOK || !strings.Contains(errs, "store: sqlite:") || !strings.Contains(errs, "Showing the newest 2 calls; use --limit for more.") {
		t.Errorf("%d %s", code, errs)
	}
	for _, want := range []string{
		`^TIME \(UTC\) +TOOL +CODE +MS +USD +CALLER +GATE +ID +MESSAGE\n`,
		`\n2026-11-15 12:00:00 +greet +OK +1\.5 +0\.01 +alice +chat +c0000\s*\n`,
		`\n2026-11-15 11:59:00 +github/search +TIMEOUT +0 +- +bob +chat +c0001 +=cmd[^\n]*\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Errorf("%q", out)
	}
	if out := d.mustRun("calls", "--tool", "nothing"); out != "No calls.\n" {
		t.Error(out)
	}
	if _, errs, _ := d.run("calls"); strings.Contains(errs, "newest") {
		t.Error(errs)
	}
}

func TestCallsCSVHasNoFormulas(t *testing.T) {
	out := recordedFixture(t).mustRun("calls", "--failed", "--csv")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%v: %s", err, out)
	}
	message := len(rows[0]) - 1
	for i, want := range []string{"message", "'=cmd|' /C calc'!A0\x1b[2J\nsecond \"line\"", "'@x"} {
		if got := rows[i][message]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if rows[1][0] != "c0001" || rows[1][1] != "2026-11-15T11:59:00Z" {
		t.Error(rows[1])
	}
}

func TestCallsAreReadPageByPage(t *testing.T) {
	d := newFixture(t, "gates:\n  chat: {mode: read, callers: keys}\n")
	many := make([]*store.CallRow, store.MaxCalls+200)
	for i := range many {
		many[i] = &store.CallRow{Tool: "greet", Caller: "alice", Code: toolyard.OK}
	}
	d.record(many[:store.MaxCalls]...)
	d.now = d.now.Add(time.Hour * 24)
	s, err := store.Open(t.Context(), "sqlite:"+strings.TrimSuffix(d.file, ".yaml")+".db")
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range many[store.MaxCalls:] {
		c.ID, c.At = fmt.Sprintf("d%04d", i), d.now
	}
	if err := s.AppendCalls(t.Context(), many[store.MaxCalls:]); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for limit, want := range map[string]int{"1100": 1100, "5000": len(many)} {
		if got := strings.Count(d.mustRun("calls", "--csv", "--limit", limit), "\n") - 1; got != want {
			t.Errorf("--limit %s: %d calls, want %d", limit, got, want)
		}
	}
}

func TestCallsRefuse(t *testing.T) {
	d := newFixture(t, "gates:\n  chat: {mode: read, callers: keys}\n")
	d.mustFail(exitUsage, "--limit must be between 1 and 100000", "calls", "--limit", "0")
	d.mustFail(exitUsage, "must be a positive duration", "calls", "--since", "-1h")
	d.mustFail(exitUsage, "none of the others can be", "calls", "--csv", "--json")
	newFixture(t, "store: memory\n").mustFail(exitError, "the store is in memory", "calls")
}
