package toolyardtest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolyard/toolyard"
)

// Golden compares each tool's definition with the file testdata/NAME.json, so that no definition
// changes unnoticed. If UPDATE_GOLDEN is set in the environment, it writes the files instead.
func Golden(t *testing.T, tools ...*toolyard.Tool) {
	t.Helper()
	for _, tool := range tools {
		file := filepath.Join("testdata", tool.Name+".json")
		got := definition(t, tool)
		if os.Getenv("UPDATE_GOLDEN") != "" { //nolint:forbidigo // a switch for tests
			if err := os.MkdirAll("testdata", 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, got, 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file) //nolint:gosec // the test's own file
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("the definition of %s changed (%v). Run the test with UPDATE_GOLDEN=1 to accept:\n%s", tool.Name, err, got)
		}
	}
}

func definition(t *testing.T, tool *toolyard.Tool) []byte {
	t.Helper()
	raw, err := json.MarshalIndent(struct {
		Name         string                     `json:"name"`
		Title        string                     `json:"title,omitempty"`
		Description  string                     `json:"description"`
		Modes        []toolyard.Mode            `json:"modes"`
		InputSchema  json.RawMessage            `json:"inputSchema"`
		OutputSchema json.RawMessage            `json:"outputSchema,omitempty"`
		Meta         map[string]json.RawMessage `json:"_meta,omitempty"`
	}{tool.Name, tool.Title, tool.Description, tool.Modes(), tool.CallerInput(), tool.Output, tool.AllMeta()}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(raw, '\n')
}
