// Package assets embeds the script engine, the scripts' runtime library, zod, and zod's types for
// editors. "make build" builds them from npm packages with pinned hashes; they are not stored in
// git. A binary that was built without them serves everything except scripts.
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
	Runtime  = "runtime.js"    // the scripts' runtime library
	Zod      = "zod.js"        // zod as a single ES module
	ZodTypes = "zod-types.zip" // zod's type definitions
)

// Read returns an asset.
func Read(name string) ([]byte, error) {
	data, err := built.ReadFile("built/" + name)
	if err != nil {
		return nil, fmt.Errorf("this binary was built without %s, which TypeScript tools require; run \"make build\" in the source tree", name)
	}
	return data, nil
}
