package trading

import (
	"encoding/json"
	"strings"
	"testing"
)

// Orders go to the testnet unless every account at the venue is declared live.
func TestNetwork(t *testing.T) {
	for name, test := range map[string]struct {
		settings string
		testnet  bool
		fault    string
	}{
		"no account":                   {`{}`, false, ""},
		"paper":                        {`{"accounts":{"a":{"broker":"paper"}}}`, false, ""},
		"venue":                        {`{"accounts":{"a":{"broker":"hyperliquid","agentKey":"k"}}}`, true, ""},
		"venue and paper":              {`{"accounts":{"a":{"broker":"hyperliquid"},"b":{"broker":"paper"}}}`, true, ""},
		"live":                         {`{"accounts":{"a":{"broker":"hyperliquid","live":true}}}`, false, ""},
		"live and testnet: false":      {`{"hyperliquid":{"testnet":false},"accounts":{"a":{"broker":"hyperliquid","live":true}}}`, false, ""},
		"read-only on main network":    {`{"hyperliquid":{"testnet":false},"accounts":{"a":{"broker":"hyperliquid"}}}`, false, ""},
		"testnet for paper":            {`{"hyperliquid":{"testnet":true},"accounts":{"a":{"broker":"paper"}}}`, true, ""},
		"testnet: false and no live":   {`{"hyperliquid":{"testnet":false},"accounts":{"a":{"broker":"hyperliquid","agentKey":"k"}}}`, false, "set live: true"},
		"live and testnet":             {`{"hyperliquid":{"testnet":true},"accounts":{"a":{"broker":"hyperliquid","live":true}}}`, false, "remove one of them"},
		"one is live, the other not":   {`{"accounts":{"a":{"broker":"hyperliquid","live":true},"b":{"broker":"hyperliquid"}}}`, false, "a is live and b is not"},
		"two of them, neither is live": {`{"accounts":{"a":{"broker":"hyperliquid"},"b":{"broker":"hyperliquid"}}}`, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var s settings
			if err := json.Unmarshal([]byte(test.settings), &s); err != nil {
				t.Fatal(err)
			}
			testnet, err := s.testnet()
			if testnet != test.testnet || (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) {
				t.Errorf("testnet is %t, error %v; want %t, %q", testnet, err, test.testnet, test.fault)
			}
		})
	}
}
