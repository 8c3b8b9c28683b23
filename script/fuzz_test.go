package script

import (
	"os"
	"path/filepath"
	"testing"
)

func FuzzDeclaration(f *testing.F) {
	f.Add([]byte(`{"tools":[{"name":"a","description":"b","parameters":{"type":"object"}}]}`))
	f.Add([]byte("{\n\"tools\": 1}"))
	file := filepath.Join(f.TempDir(), "x.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Skip(err)
		}
		d, err := readDeclaration(file)
		if err == nil {
			d.request()
			d.apply([]definition{{}})
		}
	})
}
