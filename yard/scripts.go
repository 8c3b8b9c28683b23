package yard

import (
	"cmp"
	"path/filepath"
	"time"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/script"
)

// Scripts configures a directory of TypeScript tools. Its fields override the configuration
// file.
type Scripts struct {
	Dir    string            // defaults to the configured directory, if any
	Glob   string            // defaults to the configured pattern, or to **/*.ts
	Cache  string            // directory for compiled scripts; no cache if empty
	OnLoad func(script.Load) // called after each load; may be nil
}

// newScripts returns the source of TypeScript tools, or nil if there is none.
func (b *assembler) newScripts(c *config.Scripts, private []config.Network) (*script.Folder, error) {
	base := filepath.Dir(b.opts.ConfigFile) // "." if there is no file
	dir := b.opts.Scripts.Dir
	switch {
	case c == nil && dir == "":
		return nil, nil
	case c == nil:
		c = &config.Scripts{}
	case dir == "" && filepath.IsAbs(c.Dir):
		dir = c.Dir
	case dir == "":
		dir = filepath.Join(base, c.Dir)
	}
	grants := make(map[string]script.Grant, len(c.Grants))
	for name, g := range c.Grants {
		grants[name] = grantOf(g)
	}
	return script.New(script.Options{
		Dir: dir, Glob: cmp.Or(b.opts.Scripts.Glob, c.Glob), Base: base, Grants: grants, Private: config.Prefixes(private),
		Memory: int(c.Memory), CPU: time.Duration(c.CPU), Workers: c.Workers, CacheDir: b.opts.Scripts.Cache,
		Log: b.log, Getenv: b.opts.Process.Getenv, OnLoad: b.opts.Scripts.OnLoad,
	})
}

func grantOf(g config.Grant) script.Grant {
	return script.Grant{Net: stringsOf(g.Net), Read: g.Read, Env: stringsOf(g.Env)}
}
