package acceptance

import (
	"flag"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unserved lists scenarios that need unsupported features, by prefix, with the reason. All other
// scenarios must pass.
var unserved = map[string]string{
	"server-sse-polling": "needs a server that ends the response stream of a running call and replays it by event ID to a later GET (SEP-1699, optional, 2025-11-25 only); responses are not stored, and a client that loses one repeats the call with an idempotency key",
}

var allScenarios = flag.Bool("all-scenarios", false, "run the scenarios of authorization of the older conformance suite too")

// further lists scenarios in the 2026-07-28 suite that this version does not require, with the
// version to run them with, if the suite needs one: sign-in with MCP 2025-03-26, and the extensions
// for client credentials and for enterprise-managed authorization.
var further = map[string]string{
	"auth/2025-03-26-oauth-metadata-backcompat": "2025-03-26", "auth/2025-03-26-oauth-endpoint-fallback": "2025-03-26",
	"auth/client-credentials-jwt": "", "auth/client-credentials-basic": "", "auth/enterprise-managed-authorization": "",
}

// starved matches the output of a scenario that the suite gave up on: it does not wait long for a
// connection, and a busy machine may be too slow.
var starved = regexp.MustCompile(`fetch failed|(?i:timed out)|ETIMEDOUT`)

// Toolyard passes the official conformance suites of both eras at one URL.
func TestConformance(t *testing.T) {
	heavy(t)
	p := serve(t, "testyard", "")
	eachScenario(t, "server", func(t *testing.T, run func(...string) (string, error)) {
		out, err := run("--url", p.url)
		if err != nil || !strings.Contains(out, "0 failed") || !strings.Contains(out, "0 warnings") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// The client that uses MCP servers passes the official conformance suites of both eras, including
// the authorization scenarios.
func TestConformanceClient(t *testing.T) {
	heavy(t)
	eachScenario(t, "client", func(t *testing.T, run func(...string) (string, error)) {
		t.Parallel()
		if out, err := run("--command", filepath.Join(bin, "conformanceclient")); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// eachScenario runs a test for every scenario that the suites of both eras have for one side of
// MCP.
func eachScenario(t *testing.T, side string, test func(t *testing.T, run func(...string) (string, error))) {
	scenario := regexp.MustCompile(`(?m)^\s+- (\S+) \[([^\]]*)\]`)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		suite := script(t, "node_modules/conformance-"+version+"/dist/index.js")
		list, err := node(t, suite, "list", "--"+side)
		found := scenario.FindAllStringSubmatch(list, -1)
		if err != nil || len(found) < 20 {
			t.Fatalf("%s: %v %s", version, err, list)
		}
		for _, s := range found {
			specification, more := further[s[1]]
			switch {
			case version == "2025-11-25" && strings.HasPrefix(s[1], "auth/") && !*allScenarios:
				continue // the other suite has the same scenarios and more
			case strings.Contains(s[2], version):
				specification = version
			case !more || version != "2026-07-28":
				continue // the scenario belongs to another version, or to an extension
			}
			t.Run(version+"/"+s[1], func(t *testing.T) {
				for prefix, reason := range unserved {
					if strings.HasPrefix(s[1], prefix) {
						t.Skip(reason)
					}
				}
				test(t, func(args ...string) (string, error) {
					args = append([]string{suite, side, "--scenario", s[1]}, args...)
					if version != "2025-11-25" && specification != "" { // the older suite covers only its own era
						args = append(args, "--spec-version", specification)
					}
					out, err := node(t, args...)
					for range 2 {
						if err == nil || !starved.MatchString(out+err.Error()) {
							break
						}
						t.Logf("again: %.2000s", out)
						out, err = node(t, args...)
					}
					return out, err
				})
			})
		}
	}
}
