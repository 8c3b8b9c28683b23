package config_test

import (
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/config"
)

// Settings of issuers, exchanges and spend limits that contradict each other are reported at their place.
func TestIdentitySettingsAreChecked(t *testing.T) {
	const base = `
url: https://tools.example.com
secrets: {s: env:S}
gates: {chat: {mode: read, callers: tokens}}
issuers:
  corp: {issuer: "https://a.example", access: [{anyone: true, gates: [chat]}], introspect: {client: c, secretRef: s}}
`
	const auth = "servers: {pay: {url: \"https://pay.example/mcp\", auth: "
	for name, test := range map[string]struct{ more, want string }{
		"valid":                      {auth + "{type: exchange, at: corp, client: {id: c, secretRef: s}}}}\n", ""},
		"two introspecting issuers":  {"  b: {issuer: \"https://b.example\", access: [{anyone: true, gates: [chat]}], introspect: {client: c, secretRef: s}}\n", "is the second issuer with introspect"},
		"unknown secret":             {"  b: {issuer: \"https://b.example\", access: [{anyone: true, gates: [chat]}], introspect: {client: c, secretRef: nothing}}\n", "nothing"},
		"exchange without an issuer": {auth + "{type: exchange, client: {id: c, secretRef: s}}}}\n", "must be the name of an issuer"},
		"exchange at another issuer": {auth + "{type: exchange, at: crop, client: {id: c, secretRef: s}}}}\n", `did you mean "corp"`},
		"exchange without a client":  {auth + "{type: exchange, at: corp}}}\n", "is required"},
		"exchange with an address":   {auth + "{type: exchange, at: corp, issuer: \"https://a.example\", client: {id: c, secretRef: s}}}}\n", "use at"},
		"audience for another type":  {auth + "{type: client, audience: x, client: {id: c, secretRef: s}}}}\n", "apply only to type exchange"},
		"spend without an amount":    {"terms: {a: {spend: {per: caller}}}\n", "needs perDayUsd, perMonthUsd or both"},
		"spend twice":                {"terms: {a: {spend: [{perDayUsd: \"1\"}, {perMonthUsd: \"2\"}]}}\n", "is a second limit with the same scope"},
		"spend that is no amount":    {"terms: {a: {spend: {perDayUsd: \"-1\"}}}\n", "perDayUsd"},
	} {
		_, err := config.Parse("toolyard.yaml", []byte(base+test.more), func(string) (string, bool) { return "", false })
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
