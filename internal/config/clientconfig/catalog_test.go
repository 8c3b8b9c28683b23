package clientconfig_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/clientconfig"
)

func TestCatalogEntriesAreValidConfiguration(t *testing.T) {
	list, err := clientconfig.Catalog()
	if err != nil || len(list) != 4 {
		t.Fatalf("%d entries, %v", len(list), err)
	}
	for _, e := range list {
		tr := &clientconfig.Translator{}
		err := tr.AddCatalog(e.ID)
		if (err != nil) != (e.Missing != "") || e.Provides == "" {
			t.Errorf("%s: %v, %+v", e.ID, err, e)
		}
		if err != nil {
			continue
		}
		text := string(tr.Sections().YAML())
		if !strings.Contains(text, "pin: approve") {
			t.Errorf("%s needs no approval: %s", e.ID, text)
		}
		file := filepath.Join(t.TempDir(), "toolyard.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := config.Load(file, func(string) (string, bool) { return "x", true })
		if err != nil || len(s.Servers) != 1 {
			t.Errorf("%s: %v", e.ID, err)
		}
	}
	if err := (&clientconfig.Translator{}).AddCatalog("coingeko-mcp"); err == nil || !strings.Contains(err.Error(), `did you mean "coingecko-mcp"`) {
		t.Errorf("unknown entry: %v", err)
	}
}

func TestCatalogDoesNotReplaceServers(t *testing.T) {
	tr := &clientconfig.Translator{}
	if err := tr.Existing([]byte("servers:\n  glassnode-mcp:\n    url: https://example.com\n")); err != nil {
		t.Fatal(err)
	}
	if err := tr.AddCatalog("glassnode-mcp"); err != nil || tr.Sections().Len() != 0 || len(tr.Notes()) != 1 {
		t.Errorf("%v, %v", err, tr.Notes())
	}
}
