package config_test

import (
	"testing"

	"github.com/toolyard/toolyard/internal/config"
)

func TestStoreAddress(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"toolyard.yaml", "", "sqlite:toolyard.db"},
		{"/etc/yard/my.yard.yml", "", "sqlite:/etc/yard/my.yard.db"},
		{"/etc/yard/plain", "", "sqlite:/etc/yard/plain.db"},
		{"/etc/yard/a.yaml", "store: sqlite:data/b.db", "sqlite:/etc/yard/data/b.db"},
		{"/etc/yard/a.yaml", "store: sqlite:/var/b.db", "sqlite:/var/b.db"},
		{"a.yaml", "store: sqlite:b.db", "sqlite:b.db"},
		{"/etc/yard/a.yaml", "store: memory", "memory"},
		{"/etc/yard/a.yaml", "store: postgres://yard@db/yard", "postgres://yard@db/yard"},
	} {
		s, err := config.Parse(c.file, []byte(c.text), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
		} else if got := s.StoreAddress(); got != c.want {
			t.Errorf("%s with %q: %s, want %s", c.file, c.text, got, c.want)
		}
	}
	if got := (&config.Source{Config: config.Default()}).StoreAddress(); got != "memory" {
		t.Errorf("without a file: %s", got)
	}
}
