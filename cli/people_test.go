package cli

import (
	"strings"
	"testing"
)

func TestPeopleCommands(t *testing.T) {
	f := newFixture(t, "store: sqlite:people.db\n")
	if out, errs, code := f.run("people", "list"); out != "" || errs != "No matching people.\n" || code != 0 {
		t.Errorf("%q %q %d", out, errs, code)
	}
	if out, errs, code := f.run("people", "block", "corp:ann", "--reason", "left"); out != "Blocked corp:ann.\n" || code != 0 {
		t.Errorf("%q %q %d", out, errs, code)
	}
	if out, errs, code := f.run("people", "list", "--state", "blocked", "--find", "ANN"); !strings.Contains(out, "corp:ann") || !strings.Contains(out, "2026-11-15 12:00 by ") || code != 0 {
		t.Errorf("%q %q %d", out, errs, code)
	}
	if out, errs, code := f.run("people", "unblock", "corp:ann"); out != "Unblocked corp:ann.\n" || code != 0 {
		t.Errorf("%q %q %d", out, errs, code)
	}
	for _, args := range [][]string{{"block", "ann"}, {"block", ":ann"}, {"unblock", "corp:"}, {"unblock", "corp:nobody"}, {"list", "--state", "gone"}} {
		if out, _, code := f.run(append([]string{"people"}, args...)...); code == 0 {
			t.Errorf("%v: %q", args, out)
		}
	}
}
