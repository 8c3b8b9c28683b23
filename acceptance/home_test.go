package acceptance

import (
	"strings"
	"testing"

	"github.com/toolyard/toolyard/acceptance/fakehome"
)

// The fake home is a Home Assistant to the official client.
func TestOfficialHomeAssistantClientUsesTheFake(t *testing.T) {
	t.Parallel()
	home := fakehome.New(fakehome.Options{})
	defer home.Close()
	out, err := node(t, script(t, "home.mjs"), home.URL, fakehome.Token)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"version":"2026.8.0"`, `"areas":["hall","kitchen","living_room","bedroom","garage"]`, `"exposed":false`, `"seen":["on","off"]`,
		`"brightness":128`, `"changed":"20"`, `"notFound":"not_found"`, `"unknown":"unknown_command"`, `"refused":2`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	if home.Logins() != 2 || len(home.Calls()) != 1 {
		t.Error(home.Logins(), home.Calls())
	}
}
