package yard

import (
	"cmp"
	"path/filepath"
	"time"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/script"
)

// Scripts is a folder of TypeScript tools. What is set here beats the configuration file.
type Scripts struct {
	Dir    string // empty for that of the configuration, or none
	Glob   string // empty for that of the configuration, or **/*.ts
	Cache  string // where compiled scripts are kept; nowhere when empty
	OnLoad func(script.Load)
}

// newScripts makes the source of the scripts, nil if there is none.
func (y *Yard) newScripts(c *config.Scripts, private []config.Network) (*script.Folder, error) {
	base := filepath.Dir(y.opts.ConfigFile) // "." without a file
	dir := y.opts.Scripts.Dir
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
		grants[name] = script.Grant{Net: texts(g.Net), Read: g.Read, Env: texts(g.Env)}
	}
	return script.New(script.Options{
		Dir: dir, Glob: cmp.Or(y.opts.Scripts.Glob, c.Glob), Base: base, Grants: grants, Private: prefixes(private),
		Memory: int(c.Memory), CPU: time.Duration(c.CPU), Workers: c.Workers, CacheDir: y.opts.Scripts.Cache,
		Log: y.log, Getenv: y.opts.Getenv, OnLoad: y.opts.Scripts.OnLoad,
	})
}
