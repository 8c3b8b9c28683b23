package config

import (
	"path/filepath"
	"strings"
)

// StoreAddress is where the store is: where the file says, or else in a .db of its name
// beside it. Without a file there is no place, and it ends with the process.
func (s *Source) StoreAddress() string {
	const sqlite = "sqlite:"
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
