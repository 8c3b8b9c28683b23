// Package deploy_test checks deployment files that no other test covers.
package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/settings"
)

// The configurations shipped with packages and examples are valid.
func TestConfigurationsAreValid(t *testing.T) {
	for _, name := range []string{"systemd/toolyard.yaml", "compose/toolyard.yaml"} {
		if _, err := settings.ReadConfig(settings.Options{File: name, Getenv: func(string) (string, bool) { return "", false }}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if listen := config.Default().Listen; !strings.HasSuffix(listen, ":3001") {
		t.Errorf("the image, the chart and the Compose file use port 3001, and the default address is %s", listen)
	}
}

func TestSystemdUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	unit, err := os.ReadFile("systemd/toolyard.service")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "toolyard.service") // refers to a program that exists
	text := strings.Replace(string(unit), "/usr/bin/toolyard ", "/bin/true ", 1)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", name).CombinedOutput()
	if err != nil || strings.Contains(string(out), name) {
		t.Errorf("%v\n%s", err, out)
	}
}

// Versions that appear in several places agree.
func TestVersionsAgree(t *testing.T) {
	find := func(name, pattern string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(pattern).FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s: no match for %s", name, pattern)
		}
		return string(m[1])
	}
	chart := find("helm/toolyard/Chart.yaml", `(?m)^version: (.+)$`)
	for name, pattern := range map[string]string{
		"helm/toolyard/Chart.yaml": `(?m)^appVersion: (.+)$`,
		"compose/compose.yaml":     `image: ghcr.io/toolyard/toolyard:(.+)`,
	} {
		if got := find(name, pattern); got != chart {
			t.Errorf("%s has version %s, and the chart %s", name, got, chart)
		}
	}
}
