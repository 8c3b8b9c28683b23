package settings_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/sources/catalog"
)

func TestLabelsOfTheOperatorReplaceDefaults(t *testing.T) {
	loader := settings.NewLoader(settings.Options{File: "toolyard.yaml", Text: []byte(`
terms:
  notes: {labels: [private]}
  sms: {labels: []}
servers:
  mail: {url: "https://mail.example.com/mcp", labels: [private, untrusted], terms: {send: {labels: [egress]}}}
  web: {url: "https://web.example.com/mcp"}
`)})
	source, err := loader.Read()
	if err != nil {
		t.Fatal(err)
	}
	s, err := loader.Load(source, nil)
	if err != nil {
		t.Fatal(err)
	}
	define := func(server, name string, effects toolyard.Effects, labels ...string) *toolyard.Tool {
		tool, err := toolyard.NewTool(toolyard.Spec{Server: server, Name: name, Effects: effects, Terms: toolyard.Terms{Labels: labels}},
			func(context.Context, *toolyard.Call) (*toolyard.Result, error) { return nil, nil })
		if err != nil {
			t.Fatal(err)
		}
		return tool
	}
	offer := catalog.Offer{Tools: []*toolyard.Tool{
		define("", "notes", toolyard.ReadOnly), define("", "vat", toolyard.ReadOnly), define("", "sms", "", "egress"), define("", "fax", "", "egress"),
		define("mail", "list", toolyard.ReadOnly), define("mail", "send", ""), define("web", "get", toolyard.ReadOnly), define("web", "post", ""),
	}}
	got := make(map[string][]string)
	for _, tool := range s.Terms.Apply(offer).Tools {
		got[tool.Name] = tool.Labels
	}
	want := map[string][]string{
		"notes": {"private"}, "vat": nil, "sms": {}, "fax": {"egress"},
		"list": {"private", "untrusted"}, "send": {"egress"}, "get": {"untrusted"}, "post": {"untrusted", "egress"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
