package config_test

import (
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/config"
)

// Contradictory settings of issuers, exchanges and spend limits are reported at their position.
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
		"two introspecting issuers":  {"  b: {issuer: \"https://b.example\", access: [{anyone: true, gates: [chat]}], introspect: {client: c, secretRef: s}}\n", "cannot also set introspect: b already does"},
		"unknown secret":             {"  b: {issuer: \"https://b.example\", access: [{anyone: true, gates: [chat]}], introspect: {client: c, secretRef: nothing}}\n", "nothing"},
		"exchange without an issuer": {auth + "{type: exchange, client: {id: c, secretRef: s}}}}\n", "must be the name of an issuer"},
		"exchange at another issuer": {auth + "{type: exchange, at: crop, client: {id: c, secretRef: s}}}}\n", `did you mean "corp"`},
		"exchange without a client":  {auth + "{type: exchange, at: corp}}}\n", "is required"},
		"exchange with an address":   {auth + "{type: exchange, at: corp, issuer: \"https://a.example\", client: {id: c, secretRef: s}}}}\n", "use at"},
		"audience for another type":  {auth + "{type: client, audience: x, client: {id: c, secretRef: s}}}}\n", "applies only to type exchange"},
		"issuer for another type":    {auth + "{type: client, at: corp, client: {id: c, secretRef: s}}}}\n", "applies only to the types exchange and assertion"},
		"assertion":                  {auth + "{type: assertion, at: corp, issuer: \"https://as.example\", scopes: [read], client: {id: c, secretRef: s}, atClient: {id: d, keyRef: s}}}}\n", ""},
		"assertion at no issuer":     {auth + "{type: assertion, client: {id: c, secretRef: s}, atClient: {id: d, secretRef: s}}}}\n", "must be the name of an issuer"},
		"assertion without a client": {auth + "{type: assertion, at: corp, atClient: {id: d, secretRef: s}}}}\n", "is required: set the ID and secret"},
		"assertion without atClient": {auth + "{type: assertion, at: corp, client: {id: c, secretRef: s}}}}\n", "is required: set it to the client that is registered with corp"},
		"assertion with an audience": {auth + "{type: assertion, at: corp, audience: x, client: {id: c, secretRef: s}, atClient: {id: d, secretRef: s}}}}\n", "applies only to type exchange"},
		"assertion, unknown secret":  {auth + "{type: assertion, at: corp, client: {id: c, secretRef: s}, atClient: {id: d, secretRef: nothing}}}}\n", "nothing"},
		"assertion, two secrets":     {auth + "{type: assertion, at: corp, client: {id: c, secretRef: s}, atClient: {id: d, secretRef: s, keyRef: s}}}}\n", "set either secretRef or keyRef"},
		"assertion by sign-in":       {"  b: {issuer: \"https://b.example\", access: [{anyone: true, gates: [chat]}], console: {client: c, secretRef: s}}\n" + auth + "{type: assertion, at: b, subject: signin, client: {id: c, secretRef: s}}}}\n", ""},
		"sign-in without a console":  {auth + "{type: assertion, at: corp, subject: signin, client: {id: c, secretRef: s}}}}\n", "set issuers.corp.console"},
		"sign-in and atClient":       {"  b: {issuer: \"https://b.example\", access: [{anyone: true, gates: [chat]}], console: {client: c, secretRef: s}}\n" + auth + "{type: assertion, at: b, subject: signin, client: {id: c, secretRef: s}, atClient: {id: d, secretRef: s}}}}\n", "which uses the console's client"},
		"sign-in without keys":       {"  b: {issuer: \"https://b.example\", access: [{anyone: true, gates: [chat]}], console: {client: c, secretRef: s}}\nstore: postgres://db.example/x\n" + auth + "{type: assertion, at: b, subject: signin, client: {id: c, secretRef: s}}}}\n", "user tokens for server pay are stored"},
		"subject for another type":   {auth + "{type: exchange, at: corp, subject: signin, client: {id: c, secretRef: s}}}}\n", "applies only to type assertion"},
		"atClient for another type":  {auth + "{type: exchange, at: corp, client: {id: c, secretRef: s}, atClient: {id: d, secretRef: s}}}}\n", "applies only to type assertion"},
		"spend without an amount":    {"terms: {a: {spend: {per: caller}}}\n", "must set perDayUsd, perMonthUsd or both"},
		"spend twice":                {"terms: {a: {spend: [{perDayUsd: \"1\"}, {perMonthUsd: \"2\"}]}}\n", "is a second limit with the same scope"},
		"spend that is no amount":    {"terms: {a: {spend: {perDayUsd: \"-1\"}}}\n", "perDayUsd"},
	} {
		_, err := config.Parse("toolyard.yaml", []byte(base+test.more), func(string) (string, bool) { return "", false })
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
