package mcpserver

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

func TestForeignResultsKeepTheirBytes(t *testing.T) {
	const ours = `"io.modelcontextprotocol/serverInfo":{"name":"us"},"dev.toolyard/call":"c1"`
	modern := envelope{era: modernEra, server: []byte(`"io.modelcontextprotocol/serverInfo":{"name":"us"}`), call: "c1"}
	read, unfinished := modern, modern
	read.cached, unfinished.cached, unfinished.state = true, true, "SEALED"
	for name, tt := range map[string]struct {
		envelope envelope
		in, want string
	}{
		"nothing": {modern, `{}`, `{"resultType":"complete","_meta":{` + ours + `}}`},
		"all that nobody knows": {
			modern, `{"zeta":1.10,"content":[{"a":9007199254740993,"<":"é\u00e9"}],"_meta":{"z":1E2,"a":null},"resultType":"complete","future":{}}`,
			`{"zeta":1.10,"content":[{"a":9007199254740993,"<":"é\u00e9"}],"_meta":{` + ours + `,"z":1E2,"a":null},"resultType":"complete","future":{}}`,
		},
		"white space": {
			modern, " {\n \"a\" : 1 ,\n \"_meta\" : { } , \"b\" : [ ] } ",
			`{"a" : 1,"_meta":{` + ours + `}, "b" : [ ],"resultType":"complete"}`,
		},
		"another server": {
			modern, `{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"them"},"x":1,"io.modelcontextprotocol/subscriptionId":7,"dev.toolyard/call":"theirs","d\u0065v.toolyard/call":"theirs","y":2},"resultType":"complete"}`,
			`{"_meta":{` + ours + `,"x":1,"y":2},"resultType":"complete"}`,
		},
		"a strange _meta":      {modern, `{"_meta":[1],"a":1}`, `{"a":1,"resultType":"complete","_meta":{` + ours + `}}`},
		"a strange resultType": {modern, `{"resultType":7,"a":1}`, `{"a":1,"resultType":"complete","_meta":{` + ours + `}}`},
		"any data":             {modern, `{"structuredContent":[1],"_meta":{},"resultType":"complete"}`, `{"structuredContent":[1],"_meta":{` + ours + `},"resultType":"complete"}`},
		"a read": {
			read, `{"cacheScope":"public","contents":[],"ttlMs":99}`,
			`{"contents":[],"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{` + ours + `}}`,
		},
		"a question": {
			unfinished, `{"requestState":"inner","resultType":"input_required","inputRequests":{"a":{ }}}`,
			`{"resultType":"input_required","inputRequests":{"a":{ }},"requestState":"SEALED","_meta":{` + ours + `}}`,
		},
		"legacy": {
			envelope{era: legacyEra, call: "c1"},
			`{"resultType":"complete","content":[],"ttlMs":1,"structuredContent":[1],"cacheScope":"public","_meta":{"z":1,"io.modelcontextprotocol/serverInfo":{}},"b":1}`,
			`{"content":[],"_meta":{"z":1},"b":1}`,
		},
		"legacy, an object of data": {envelope{era: legacyEra}, `{"structuredContent":{"z":1E2},"content":[]}`, `{"structuredContent":{"z":1E2},"content":[]}`},
		"a failure with a schema": {
			envelope{era: legacyEra, typed: true},
			`{"isError":true,"_meta":{"z":1},"structuredContent":{"a":1},"content":[]}`,
			`{"isError":true,"_meta":{"dev.toolyard/structuredContent":{"a":1},"z":1},"content":[]}`,
		},
		"a failure with a schema and no _meta": {
			envelope{era: legacyEra, typed: true},
			`{"structuredContent":{"a":1},"isError":true}`,
			`{"isError":true,"_meta":{"dev.toolyard/structuredContent":{"a":1}}}`,
		},
		"a failure without a schema": {envelope{era: legacyEra}, `{"structuredContent":{"a":1},"isError":true}`, `{"structuredContent":{"a":1},"isError":true}`},
		"a success with a schema":    {envelope{era: legacyEra, typed: true}, `{"structuredContent":{"a":1}}`, `{"structuredContent":{"a":1}}`},
		"legacy, nothing":            {envelope{era: legacyEra}, `{"resultType":"complete"}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			in := slices.Clone([]byte(tt.in))
			if got := string(tt.envelope.append(nil, in)); got != tt.want || string(in) != tt.in {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Members outside the envelope keep their bytes and their order.
func FuzzForeignResults(f *testing.F) {
	f.Add([]byte(`{"a":1,"_meta":{"b":[1.10,"}"]},"resultType":"complete"}`), true, "")
	f.Add([]byte(" { \"_meta\" : 1 , \"a\" : { } } "), false, "sealed")
	f.Fuzz(func(t *testing.T, raw []byte, modern bool, state string) {
		if strictjson.Check(raw) != nil || strings.TrimLeft(string(raw), " \t\r\n")[0] != '{' || strings.Trim(state, "abc") != "" {
			return
		}
		h := envelope{server: []byte(`"io.modelcontextprotocol/serverInfo":{}`), call: "c", state: state}
		if modern {
			h.era = modernEra
		}
		out := h.append([]byte("before"), slices.Clone(raw))[len("before"):]
		if err := strictjson.Check(out); err != nil {
			t.Fatalf("%s became %s: %v", raw, out, err)
		}
		if in, got := foreign(raw), foreign(out); !slices.Equal(in, got) {
			t.Fatalf("%s became %s", raw, out)
		}
	})
}

// foreign returns the members of a result outside the envelope.
func foreign(object json.RawMessage) (members []string) {
	about := []string{"resultType", "ttlMs", "cacheScope", "requestState", "structuredContent"}
	for key, value := range strictjson.Members(object) {
		switch {
		case key == "_meta":
			for key, value := range strictjson.Members(value) {
				if !slices.Contains(envelopeMeta, key) {
					members = append(members, "_meta "+key+string(value))
				}
			}
		case !slices.Contains(about, key):
			members = append(members, key+string(value))
		}
	}
	return members
}

// Injected arguments are neither in the schema nor mirrored in headers.
func TestInjectedArgumentsAreHidden(t *testing.T) {
	spec := toolyard.Spec{
		Name: "t", Terms: toolyard.Terms{Contexts: []string{"wallet"}},
		Input: json.RawMessage(`{"type":"object","properties":{"z":{"type":"string","x-mcp-header":"Z"},` +
			`"portfolio":{"type":"object","properties":{"address":{"type":"string","x-mcp-header":"Address"}}}},"required":["portfolio","z"]}`),
	}
	tool, err := toolyard.NewTool(spec, func(context.Context, *toolyard.Call) (*toolyard.Result, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	bound := gates.NamedTool{Name: "t", Tool: tool}
	for _, e := range []era{legacyEra, modernEra} {
		definition := appendTool(nil, bound, e)
		const want = `{"type":"object","properties":{"z":{"type":"string","x-mcp-header":"Z"}},"required":["z"],"additionalProperties":false}`
		if got := string(strictjson.Member(definition, "inputSchema")); got != want {
			t.Errorf("%d: %s", e, got)
		}
		if got := string(strictjson.Member(strictjson.Member(definition, "_meta"), "contextRequirements")); got != `["wallet"]` {
			t.Errorf("%d: %s", e, got)
		}
	}
	if binds := bindHeaders([]gates.NamedTool{bound})[tool]; len(binds) != 1 || binds[0].Header != "Z" {
		t.Errorf("%+v", binds)
	}
}
