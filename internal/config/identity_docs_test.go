package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/config"
)

// The configurations in the documentation of identity providers are valid.
func TestIdentityPagesHaveValidConfigurations(t *testing.T) {
	pages, err := filepath.Glob("../../docs/providers/*.md")
	if err != nil || len(pages) < 7 {
		t.Fatal(pages, err)
	}
	block := regexp.MustCompile("(?s)```yaml\\n(.*?)```")
	noEnv := func(string) (string, bool) { return "", false }
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := block.FindAllSubmatch(text, -1)
		if len(blocks) == 0 && filepath.Base(page) != "clients.md" && filepath.Base(page) != "README.md" {
			t.Errorf("%s has no configuration", page)
		}
		for _, b := range blocks {
			source, err := config.Parse("toolyard.yaml", b[1], noEnv)
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			name := strings.TrimSuffix(filepath.Base(page), ".md")
			if _, ok := source.Issuers[name]; !ok || !strings.Contains(string(text), source.URL+"/console/signin/"+name) {
				t.Errorf("%s: the issuer or its redirect URI is not called %s", page, name)
			}
		}
	}
}
