// Package assets holds what the binary carries beside Go code: the script engine, the
// runtime that scripts find in it, zod, and zod's types for editors. They are built from
// npm packages with pinned hashes by make assets; a binary built without them works, but
// for scripts.
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
	Runtime  = "runtime.js"    // what scripts find beside the language
	Zod      = "zod.js"        // zod as one ES module
	ZodTypes = "zod-types.zip" // its type definitions
)

// Read returns an asset.
func Read(name string) ([]byte, error) {
	data, err := built.ReadFile("built/" + name)
	if err != nil {
		return nil, fmt.Errorf("this program was built without %s, which scripts need; run make assets in the source and build it again", name)
	}
	return data, nil
}
