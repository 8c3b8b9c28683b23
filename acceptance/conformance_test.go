package acceptance

import (
	"regexp"
	"strings"
	"testing"
)

// later names the scenarios that need what Toolyard does not have yet, or will not have, by
// how they begin, and what that is. Every other server scenario of the suites runs, and must pass.
var later = []struct{ prefix, reason string }{
	{"resources-subscribe", "needs sources that tell when a resource has changed"},
	{"resources-unsubscribe", "needs sources that tell when a resource has changed"},
	{"server-sse-polling", "needs a tool that closes its own stream, which no tool here may"},
}

// The official conformance suites, both eras, against one URL.
func TestConformance(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "")
	scenario := regexp.MustCompile(`(?m)^\s+- (\S+) \[([^\]]*)\]`)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		suite := script(t, "node_modules/conformance-"+version+"/dist/index.js")
		list, err := node(t, suite, "list", "--server")
		found := scenario.FindAllStringSubmatch(list, -1)
		if err != nil || len(found) < 20 {
			t.Fatalf("%s: %v %s", version, err, list)
		}
		for _, s := range found {
			if !strings.Contains(s[2], version) {
				continue // of another version, or an extension
			}
			t.Run(version+"/"+s[1], func(t *testing.T) {
				for _, l := range later {
					if strings.HasPrefix(s[1], l.prefix) {
						t.Skip(l.reason)
					}
				}
				args := []string{suite, "server", "--url", p.url, "--scenario", s[1]}
				if version != "2025-11-25" { // that suite knows only its own
					args = append(args, "--spec-version", version)
				}
				out, err := node(t, args...)
				if err != nil || !strings.Contains(out, "0 failed") || !strings.Contains(out, "0 warnings") {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}
