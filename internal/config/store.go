package config

import (
	"path/filepath"
	"strings"
)

// UseStore makes an address count instead of what the file says. A path is relative to the folder
// of the process, not to that of the file.
func (s *Source) UseStore(address string) {
	if path, ok := strings.CutPrefix(address, sqlite); ok {
		if absolute, err := filepath.Abs(path); err == nil {
			address = sqlite + absolute
		}
	}
	s.Store = address
}

const sqlite = "sqlite:"

// StoreAddress is where the store is: where the file says, or else in a .db of its name
// beside it. Without a file there is no place, and it ends with the process.
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
