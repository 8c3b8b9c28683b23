package script

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard"
)

// sumBox has the tools that the code calls.
type sumBox struct{ toolyard.Toolbox }

func (sumBox) CallTool(_ context.Context, _ *toolyard.Call, server, tool string, args json.RawMessage) (*toolyard.Result, error) {
	if server == "shop" && tool == "sum" && string(args) == `{"a":1,"b":2}` {
		return &toolyard.Result{Structured: json.RawMessage(`{"sum":3}`)}, nil
	}
	return nil, toolyard.Errorf(toolyard.NoData, "There is no data.")
}

// A tool made from code returns the same value as the code.
func TestToolFromCodeRunsLikeTheCode(t *testing.T) {
	dir := t.TempDir()
	run := CodeOfRun{
		Run: "06e9", Mode: toolyard.Read, Tools: map[string][2]string{"shop__sum": {"shop", "sum"}, "fails": {"", "fails"}},
		Code: `const { sum }: any = await tools.shop__sum({ a: 1, b: 2 });
try { await tools.fails(); } catch (e) { return { sum, code: e.code }; }`,
	}
	if _, err := NewToolFromCode(dir, "twice", run); err != nil {
		t.Fatal(err)
	}
	if _, err := NewToolFromCode(dir, "twice", run); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("a second file: %v", err)
	}
	if _, err := NewToolFromCode(dir, "../x", run); err == nil {
		t.Error("a name with a path was accepted")
	}
	text, err := os.ReadFile(filepath.Join(dir, "twice.ts"))
	if err != nil {
		t.Fatal(err)
	}
	tool := runIn(t, Options{}, &running{dir: dir}).next(t)["twice"]
	if tool == nil || !tool.IsReadOnly() {
		t.Fatalf("%v\n%s", tool, text)
	}
	c := &toolyard.Call{Tool: tool, Args: []byte("{}")}
	c.Toolbox = sumBox{}
	res, err := tool.Run(t.Context(), c)
	if err != nil || string(res.Structured) != `{"sum":3,"code":"NO_DATA"}` {
		t.Errorf("%s %v\n%s", res.Structured, err, text)
	}
}
