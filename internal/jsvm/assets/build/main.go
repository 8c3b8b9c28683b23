// Command build creates the assets that the binary embeds. It uses the npm packages in
// internal/jsvm/assets/node_modules and the runtime's own sources. Run it with make assets.
package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

const (
	packages = "internal/jsvm/assets/node_modules"
	built    = "internal/jsvm/assets/built"
	runtime  = "internal/jsvm/runtime/main.js"
)

func main() {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func build() error {
	for name, make := range map[string]func() ([]byte, error){
		"quickjs.wasm":  func() ([]byte, error) { return os.ReadFile(packages + "/quickjs-wasi/quickjs.wasm") },
		"runtime.js":    bundleRuntime,
		"zod.js":        bundleZod,
		"zod-types.zip": zipTypes,
	} {
		data, err := make()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(built, name), data, 0o600); err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "%-14s %7d bytes\n", name, len(data))
	}
	return nil
}

func bundleRuntime() ([]byte, error) {
	return bundle(api.BuildOptions{EntryPoints: []string{runtime}, Format: api.FormatIIFE, KeepNames: true})
}

// bundleZod bundles zod into one module that contains only English messages.
func bundleZod() ([]byte, error) {
	return bundle(api.BuildOptions{
		Stdin:   &api.StdinOptions{Contents: `export * from "zod"; export { default } from "zod";`, ResolveDir: "internal/jsvm/assets"},
		Format:  api.FormatESModule,
		Plugins: []api.Plugin{{Name: "english", Setup: onlyEnglish}},
	})
}

func onlyEnglish(b api.PluginBuild) {
	b.OnLoad(api.OnLoadOptions{Filter: `v4/locales/index\.js$`}, func(api.OnLoadArgs) (api.OnLoadResult, error) {
		text := `export { default as en } from "./en.js";`
		return api.OnLoadResult{Contents: &text, ResolveDir: packages + "/zod/v4/locales"}, nil
	})
}

func bundle(o api.BuildOptions) ([]byte, error) {
	o.Bundle, o.Target, o.Charset = true, api.ES2022, api.CharsetUTF8
	o.MinifyWhitespace, o.MinifySyntax, o.MinifyIdentifiers = true, true, true
	o.LegalComments = api.LegalCommentsNone
	result := api.Build(o)
	if len(result.Errors) > 0 {
		return nil, errors.New(strings.Join(api.FormatMessages(result.Errors, api.FormatMessagesOptions{}), ""))
	}
	return result.OutputFiles[0].Contents, nil
}

// zipTypes packs zod's type definitions, excluding its older and smaller editions.
func zipTypes() ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	root := os.DirFS(packages + "/zod")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "src" || path == "v3" || path == "mini" || path == "v4-mini" || path == "v4/mini"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".d.ts"):
			return nil
		}
		data, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		w, err := z.Create(path)
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	})
	err = errors.Join(err, z.Close())
	return out.Bytes(), err
}
