package config

import (
	"path/filepath"
	"strings"
)

// UseStore overrides the store in the file. Paths are relative to the working directory, not to the
// file.
func (s *Source) UseStore(address string) {
	if path, ok := strings.CutPrefix(address, sqlite); ok {
		if absolute, err := filepath.Abs(path); err == nil {
			address = sqlite + absolute
		}
	}
	s.Store = address
}

const sqlite = "sqlite:"

// StoreAddress returns the store's address: the configured one or, by default, a .db file next to
// the configuration file. If there is no configuration file, the store is in memory.
func (s *Source) StoreAddress() string {
	path, isPath := strings.CutPrefix(s.Store, sqlite)
	switch {
	case s.Store == "" && s.name == "":
		return "memory"
	case s.Store == "":
		return sqlite + strings.TrimSuffix(s.name, filepath.Ext(s.name)) + ".db"
	case isPath && !filepath.IsAbs(path):
		return sqlite + filepath.Join(filepath.Dir(s.name), path)
	}
	return s.Store
}
