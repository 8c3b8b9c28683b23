package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/serve/offer"
	"github.com/toolyard/toolyard/internal/sources/catalog"
)

// manyTools serves n tools at a search gate.
func manyTools(t testing.TB, n int) *mcpserver.Server {
	t.Helper()
	tools := make([]*toolyard.Tool, n)
	for i := range tools {
		spec := toolyard.Spec{
			Name: fmt.Sprintf("report_%d", i), Server: fmt.Sprintf("s%d", i%100), Description: fmt.Sprintf("Returns report %d of a department. It has many columns.", i), Effects: toolyard.ReadOnly,
			Input: json.RawMessage(`{"type":"object","properties":{"from":{"type":"string","description":"First day"},"to":{"type":"string"},"format":{"enum":["csv","json"]}},"required":["from"]}`),
		}
		tool, err := toolyard.NewTool(spec, func(context.Context, *toolyard.Call) (*toolyard.Result, error) {
			return &toolyard.Result{Content: []toolyard.Content{toolyard.Text("ok")}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		tools[i] = tool
	}
	s := mcpserver.New(mcpserver.Options{Call: callpath.Run})
	t.Cleanup(s.Close)
	search := gates.Presentation{Offer: gates.OfferSearch, Show: gates.DefaultShow}
	s.Publish([]*gates.Gate{{Name: "read", Mode: toolyard.Read, Presentation: search}, {Name: "write", Mode: toolyard.Write, Presentation: search}}, catalog.Offer{Tools: tools}, true)
	return s
}

// At a search gate with 10,000 tools, a prompt starts with at most 1,500 tokens, including at most
// 250 for the meta-tools, and a page of 15 lines has at most 700. A token is estimated as four
// bytes.
func TestSearchGateIsSmall(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	s := manyTools(t, n)
	for _, gate := range []string{"read", "write"} {
		list := modern(s.Handler(func(*http.Request) string { return gate }), "tools/list", "", "")
		menu := 0
		v, _ := s.View(gate)
		for _, d := range offer.Definitions(v.Gate) {
			menu += d.Tokens()
		}
		page, _ := textOf(t, toolCall(t, s, "modern", gate, "search_tools", `{"query":"report of a department"}`))
		t.Logf("gate %s: list %d tokens, meta-tools %d, page %d", gate, len(list)/4, menu, len(page)/4)
		if len(list)/4 > 1500 || menu > 250 || len(page)/4 > 700 {
			t.Errorf("gate %s: list %d tokens, meta-tools %d, page %d", gate, len(list)/4, menu, len(page)/4)
		}
	}
}

// BenchmarkMetaTool compares a call through a meta-tool with a direct call. It measures the CPU
// time of the process, which other processes affect less than the elapsed time.
func BenchmarkMetaTool(b *testing.B) {
	s := manyTools(b, 100)
	h := s.Handler(func(*http.Request) string { return "read" })
	for name, params := range map[string][2]string{
		"direct":    {"mcp_s1__report_1", `"name":"mcp_s1__report_1","arguments":{"from":"2026-01-01"}`},
		"call_tool": {"call_tool", `"name":"call_tool","arguments":{"name":"mcp_s1__report_1","arguments":{"from":"2026-01-01"}}`},
	} {
		header := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": params[0]}
		body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + params[1] + `,` + goodMeta + `}}`)
		b.Run(name, func(b *testing.B) {
			before := cpu()
			for b.Loop() {
				post(h, body, header)
			}
			b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}
