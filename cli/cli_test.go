package cli_test

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/toolyard/toolyard/cli"
	"github.com/toolyard/toolyard/packs/basics"
	"github.com/toolyard/toolyard/yard"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"toolyard": func() { cli.Main(yard.Options{Tools: basics.Tools(), Process: yard.Process{Version: "v0.0.0-test"}}) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
	})
}
