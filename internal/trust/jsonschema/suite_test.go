package jsonschema

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// remote is the number of groups in the official test suite that refer to other documents. This is
// not supported by design, because a schema must not cause requests.
var remote = map[string]int{"draft2020-12": 20, "draft7": 11}

// suiteDir returns the folder with the official test suite. It is in the test data of a module that
// the MCP SDK depends on.
func suiteDir(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/jsonschema-go").Output()
	dir := filepath.Join(strings.TrimSpace(string(out)), "jsonschema", "testdata")
	if _, stat := os.Stat(dir); err != nil || stat != nil {
		t.Skipf("the test suite is not in the module cache: %v, %v", err, stat)
	}
	return dir
}

type suiteGroup struct {
	Description string
	Schema      json.RawMessage
	Tests       []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

func readSuite(t *testing.T, dir string) map[string][]suiteGroup {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(suiteDir(t), dir, "*.json"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	all := make(map[string][]suiteGroup)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var groups []suiteGroup
		if err := json.Unmarshal(data, &groups); err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = groups
	}
	return all
}

func TestOfficialSuite(t *testing.T) {
	for _, draft := range []string{"draft2020-12", "draft7"} {
		passed, skipped := 0, 0
		for file, groups := range readSuite(t, draft) {
			for _, g := range groups {
				name := draft + "/" + file + "/" + g.Description
				schema := g.Schema
				if draft == "draft7" && strings.HasPrefix(string(schema), "{") && !strings.Contains(string(schema), `"$schema"`) {
					schema = json.RawMessage(`{"$schema":"http://json-schema.org/draft-07/schema#",` + strings.TrimPrefix(string(schema), "{"))
					schema = json.RawMessage(strings.Replace(string(schema), ",}", "}", 1))
				}
				s, err := Compile(schema)
				if err != nil && strings.Contains(err.Error(), "other documents") {
					skipped++
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				for _, tt := range g.Tests {
					issues, err := s.Validate(t.Context(), tt.Data)
					if err != nil || (len(issues) == 0) != tt.Valid {
						t.Errorf("%s/%s: %v, %v", name, tt.Description, issues, err)
					}
					passed++
				}
			}
		}
		if skipped != remote[draft] {
			t.Errorf("%s: %d groups were skipped, want %d", draft, skipped, remote[draft])
		}
		t.Logf("%s: %d tests", draft, passed)
	}
}
