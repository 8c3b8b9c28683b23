package trading

import (
	"slices"

	"github.com/toolyard/toolyard/yard"
)

// commands returns the commands that the pack adds to the command line.
func commands() []yard.PackCommand { return slices.Concat(backtestCommands(), barsCommands()) }
