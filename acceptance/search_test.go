package acceptance

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The official clients of both eras, and the Inspector, find and call a tool at a search gate that
// does not list it.
func TestOfficialClientsSearchForTools(t *testing.T) {
	t.Parallel()
	p := serve(t, "toolyard", "gates: {default: {mode: read, offer: search, pinned: [timestamp]}}\n")
	menu := []string{"search_tools", "describe_tools", "call_tool", "read_result", "timestamp"}
	for _, era := range []string{"legacy", "modern"} {
		out, err := node(t, script(t, "search.mjs"), era, p.url)
		var got struct {
			Tools                            []string
			Found, Described, Called, Direct string
		}
		if err != nil || json.Unmarshal([]byte(out), &got) != nil {
			t.Errorf("%s: %v %s", era, err, out)
			continue
		}
		if diff := cmp.Diff(menu, got.Tools); diff != "" {
			t.Errorf("%s: %s", era, diff)
		}
		if !strings.HasPrefix(got.Found, "hello(") || !strings.Contains(got.Described, "nothing") || got.Called != "Hello, Ann!" || got.Direct != "Hello, Bob!" {
			t.Errorf("%s: %+v", era, got)
		}
		inspected, err := node(t, script(t, "node_modules/.bin/mcp-inspector"), "--cli", p.url, "--transport", "http", "--protocol-era", era, "--format", "json",
			"--method", "tools/call", "--tool-name", "search_tools", "--tool-arg", "query=say hello")
		if err != nil || !strings.Contains(inspected, "hello(") {
			t.Errorf("%s Inspector: %v %s", era, err, inspected)
		}
	}
}
