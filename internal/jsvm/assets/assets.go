// Package assets embeds the script engine, the runtime library of scripts, zod, and zod's
// types for editors. "make build" builds them from npm packages with pinned hashes; they are
// not in git. A binary built without them serves everything except scripts.
package assets

import (
	"embed"
	"fmt"
)

//go:embed built
var built embed.FS

// The names of the assets.
const (
	Engine   = "quickjs.wasm"  // QuickJS-NG
	Runtime  = "runtime.js"    // the runtime library of scripts
	Zod      = "zod.js"        // zod as one ES module
	ZodTypes = "zod-types.zip" // its type definitions
)

// Read returns an asset.
func Read(name string) ([]byte, error) {
	data, err := built.ReadFile("built/" + name)
	if err != nil {
		return nil, fmt.Errorf("this binary was built without %s, which TypeScript tools require; run \"make build\" in the source tree", name)
	}
	return data, nil
}
