package acceptance

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// laterClient names the client scenarios that cannot pass yet, by how they begin, and why.
// Every other one of the suites runs, and must pass.
var laterClient = []struct{ prefix, reason string }{
	{"auth/", "needs OAuth, which comes with the credentials of upstream servers"},
}

// The official conformance suites, both eras, against the client that uses MCP servers.
func TestConformanceClient(t *testing.T) {
	t.Parallel()
	scenario := regexp.MustCompile(`(?m)^\s+- (\S+) \[([^\]]*)\]`)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		suite := script(t, "node_modules/conformance-"+version+"/dist/index.js")
		list, err := node(t, suite, "list", "--client")
		found := scenario.FindAllStringSubmatch(list, -1)
		if err != nil || len(found) < 20 {
			t.Fatalf("%s: %v %s", version, err, list)
		}
		for _, s := range found {
			if !strings.Contains(s[2], version) {
				continue // of another version, or an extension
			}
			t.Run(version+"/"+s[1], func(t *testing.T) {
				t.Parallel()
				for _, l := range laterClient {
					if strings.HasPrefix(s[1], l.prefix) {
						t.Skip(l.reason)
					}
				}
				args := []string{suite, "client", "--command", filepath.Join(bin, "conformanceclient"), "--scenario", s[1]}
				if version != "2025-11-25" { // that suite knows only its own
					args = append(args, "--spec-version", version)
				}
				out, err := node(t, args...)
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}
