package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/catalog"
)

// backtests serves two gates: past, where callers may set the as-of time, and default. Its tool
// returns the as-of time and the metadata that it received.
func backtests(t *testing.T) *mcpserver.Server {
	t.Helper()
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	s := mcpserver.New(mcpserver.Options{Call: callpath.Run, Now: func() time.Time { return now }})
	t.Cleanup(s.Close)
	when := toolyard.Define(toolyard.Spec{Name: "when"}, func(_ context.Context, c *toolyard.Call, _ struct{}) (string, error) {
		if _, passed := c.Meta["dev.toolyard/asOf"]; passed {
			return "", toolyard.Errorf(toolyard.Failed, "the metadata was passed on")
		}
		return c.AsOf.Format(time.RFC3339Nano), nil
	})
	s.Publish([]*gates.Gate{{Name: "default", Mode: toolyard.Write}, {Name: "past", Mode: toolyard.Write, CallerClock: true}}, catalog.Offer{Tools: []*toolyard.Tool{when}}, true)
	return s
}

func TestCallersSetTheAsOfTime(t *testing.T) {
	s := backtests(t)
	for _, test := range []struct{ gate, asOf, want string }{
		{"default", `null`, "VALIDATION_ERROR"},
		{"default", `"2026-01-31T09:30:00Z"`, "VALIDATION_ERROR"},
		{"default", ``, "2026-11-15T12:00:00Z"},
		{"past", ``, "2026-11-15T12:00:00Z"},
		{"past", `"2026-01-31T09:30:00Z"`, "2026-01-31T09:30:00Z"},
		{"past", `"2026-01-31T10:30:00.000001+01:00"`, "2026-01-31T09:30:00.000001Z"},
		{"past", `"2026-11-15T12:00:00Z"`, "2026-11-15T12:00:00Z"},
		{"past", `"2026-11-15T12:00:00.000000001Z"`, "VALIDATION_ERROR"},
		{"past", `"2999-01-01T00:00:00Z"`, "VALIDATION_ERROR"},
		{"past", `"2026-01-31"`, "VALIDATION_ERROR"},
		{"past", `""`, "VALIDATION_ERROR"},
		{"past", `1769851800`, "VALIDATION_ERROR"},
		{"past", `["2026-01-31T09:30:00Z"]`, "VALIDATION_ERROR"},
	} {
		for era, talk := range map[string]string{
			"legacy": `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
				`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"when","arguments":{},"_meta":{"x":1%s}}}` + "\n",
			"modern": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"when","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
				`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}%s}}}` + "\n",
		} {
			member := ""
			if test.asOf != "" {
				member = `,"dev.toolyard/asOf":` + test.asOf
			}
			if got := talkTo(t, s, test.gate, fmt.Sprintf(talk, member)); !strings.Contains(got, `"`+test.want+`"`) {
				t.Errorf("%s %s %s: want %s, got %s", era, test.gate, test.asOf, test.want, got)
			}
		}
	}
}

// talkTo sends messages over stdio and returns the response with ID 1.
func talkTo(t *testing.T, s *mcpserver.Server, gate, messages string) string {
	t.Helper()
	in, toServer := io.Pipe()
	var out strings.Builder
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(t.Context(), gate, in, &out) }()
	if _, err := io.WriteString(toServer, messages); err != nil {
		t.Fatal(err)
	}
	_ = toServer.Close()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, `"id":1`) {
			return line
		}
	}
	return out.String()
}

func TestCallRequestSetsTheAsOfTime(t *testing.T) {
	s := backtests(t)
	call := func(r *serve.CallRequest) string {
		r.Tool, r.Args, r.Caller = "when", json.RawMessage("{}"), toolyard.Caller{ID: "ann"}
		res, err := s.Call(t.Context(), r)
		if err != nil {
			return string(toolyard.AsError(err).Code)
		}
		return string(res.Content[0].(toolyard.Text))
	}
	meta := func(text string) toolyard.Request {
		return toolyard.Request{Meta: map[string]json.RawMessage{"dev.toolyard/asOf": json.RawMessage(`"` + text + `"`)}}
	}
	const past, other = "2026-01-31T09:30:00Z", "2026-01-31T09:31:00Z"
	for name, test := range map[string]struct {
		request *serve.CallRequest
		want    string
	}{
		"field":     {&serve.CallRequest{Gate: "past", AsOf: past}, past},
		"same":      {&serve.CallRequest{Gate: "past", AsOf: past, Request: meta(past)}, past},
		"different": {&serve.CallRequest{Gate: "past", AsOf: past, Request: meta(other)}, "VALIDATION_ERROR"},
		"refused":   {&serve.CallRequest{Gate: "default", AsOf: past}, "VALIDATION_ERROR"},
		"nested":    {&serve.CallRequest{Gate: "default", Parent: &toolyard.Call{AsOf: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}}, "2020-01-01T00:00:00Z"},
	} {
		if got := call(test.request); got != test.want {
			t.Errorf("%s: want %s, got %s", name, test.want, got)
		}
	}
}
