package yard_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/yard"
)

// shelf is a pack with a tool, a resource template and a prompt. It publishes its offer twice.
type shelf struct{}

func (shelf) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	raw := func(spec toolyard.Spec, result string) *toolyard.Tool {
		spec.Effects, spec.Input = toolyard.ReadOnly, json.RawMessage(`{"type":"object"}`)
		tool, err := toolyard.NewTool(spec, func(context.Context, *toolyard.Call) (*toolyard.Result, error) {
			return &toolyard.Result{Structured: json.RawMessage(result)}, nil
		})
		if err != nil {
			panic(err)
		}
		return tool
	}
	offer := toolyard.Offer{
		Tools: []*toolyard.Tool{raw(toolyard.Spec{Name: "find_book"}, `{}`)},
		Resources: []*toolyard.Resource{{
			URI: "shelf://{book}", Template: true, Definition: json.RawMessage(`{"uriTemplate":"shelf://{book}","name":"books"}`),
			Reader: raw(toolyard.Spec{Name: "read"}, `{"contents":[]}`),
		}},
		Prompts: []*toolyard.Prompt{{Name: "review", Definition: json.RawMessage(`{"name":"review"}`), Getter: raw(toolyard.Spec{Name: "get"}, `{"messages":[]}`)}},
	}
	publish(offer)
	offer.Problems = []toolyard.Problem{{Message: "dusty"}}
	publish(offer)
	<-ctx.Done()
	return nil
}

func TestToolsetsIncludePacks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	text := `packs: {shelf: {}}
toolsets:
  books: {packs: [shelf]}
  named: {tools: [find_book]}
  greetings: {tools: [greet]}
gates:
  all: {mode: read}
  books: {mode: read, toolset: books}
  named: {mode: read, toolset: named}
  other: {mode: read, toolset: greetings}
`
	opts := yard.Options{
		ConfigFile: file, Tools: []*toolyard.Tool{toolyard.Define(toolyard.Spec{Name: "greet", Effects: toolyard.ReadOnly}, func(context.Context, *toolyard.Call, struct{}) (string, error) { return "hello", nil })},
		Packs: map[string]yard.Pack{"shelf": {Open: func(context.Context, yard.PackSetup) (toolyard.Source, error) { return shelf{}, nil }}},
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	y := start(t, opts)
	for gate, want := range map[string]struct {
		tools              []string
		resources, prompts int
	}{
		"all":   {[]string{"find_book", "greet"}, 1, 1},
		"books": {[]string{"find_book"}, 1, 1},
		"named": {[]string{"find_book"}, 0, 0},
		"other": {[]string{"greet"}, 0, 0},
	} {
		v, ok := y.View(gate)
		if got := names(t, y, gate); !ok || !slices.Equal(got, want.tools) || len(v.Resources) != want.resources || len(v.Prompts) != want.prompts {
			t.Errorf("gate %s offers %v, %d resources and %d prompts, want %+v", gate, got, len(v.Resources), len(v.Prompts), want)
		}
	}
	steps, err := y.Why("other", "find_book")
	if err != nil || len(steps) == 0 || steps[0] != (yard.Step{Rule: "source", Text: "pack shelf"}) {
		t.Errorf("%+v, %v", steps, err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(text, "packs: [shelf]", "packs: [shelv]", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = `toolsets.books.packs.0: the pack is not enabled (did you mean "shelf"?)`
	if _, err := yard.New(opts); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
