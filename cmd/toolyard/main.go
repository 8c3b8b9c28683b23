// Command toolyard serves a governed set of tools to AI agents over MCP.
package main

import (
	"github.com/toolyard/toolyard/cli"
	"github.com/toolyard/toolyard/packs/basics"
	"github.com/toolyard/toolyard/packs/homeassistant"
	"github.com/toolyard/toolyard/packs/markets"
	"github.com/toolyard/toolyard/packs/trading"
	"github.com/toolyard/toolyard/yard"
)

func main() {
	cli.Main(yard.Options{
		ProviderKinds: markets.Kinds(), Command: yard.Command{Samples: basics.Tools()},
		Packs: map[string]yard.Pack{homeassistant.Name: homeassistant.Pack(), "trading": trading.Pack()},
	})
}
