package export

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/toolyard/toolyard/internal/serve/gates"
)

// Namespaces contain fewer than ten functions, have unique names, and include every function once.
func TestNamespaces(t *testing.T) {
	var list []gates.NamedTool
	for i, server := range []string{"crm", "crm", "web.shop", "web shop", ""} {
		for j := range 10 {
			tool := named(t, fmt.Sprintf("t%d_%d", i, j), "Does something.", "", `{"type":"object"}`)
			tool.Server = server
			list = append(list, tool)
		}
	}
	raw, err := Functions(OpenAIDeferred, list)
	if err != nil {
		t.Fatal(err)
	}
	var got []struct {
		Type, Name, Description string
		Tools                   []struct {
			Name     string
			Deferred bool `json:"defer_loading"`
			Strict   *bool
		}
	}
	if err := json.Unmarshal(raw, &got); err != nil || got[0].Type != "tool_search" {
		t.Fatalf("%v: %s", err, raw)
	}
	names, functions := make(map[string]bool), make(map[string]bool)
	for _, n := range got[1:] {
		if n.Type != "namespace" || n.Description == "" || names[n.Name] || len(n.Tools) == 0 || len(n.Tools) > maxNamespace {
			t.Errorf("%+v", n)
		}
		names[n.Name] = true
		for _, f := range n.Tools {
			if functions[f.Name] || !f.Deferred || f.Strict == nil || *f.Strict {
				t.Errorf("%+v", f)
			}
			functions[f.Name] = true
		}
	}
	if len(functions) != len(list) {
		t.Errorf("%d functions of %d", len(functions), len(list))
	}
}
