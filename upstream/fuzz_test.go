package upstream

import (
	"encoding/json"
	"testing"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Everything that a server sends is either a valid message, which encodes to valid JSON, or an
// error.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":7,"result":{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{},"a":1}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"x","error":{"code":-32602,"message":"no","data":{"supported":["2026-07-28"]}}}`))
	f.Add([]byte(`{"method":"notifications/progress","params":{"progressToken":7,"progress":1},"jsonrpc":"2.0"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = guessID(data, data)
		m, err := parse(data)
		if err != nil || m.result == nil {
			return
		}
		if out := withoutTransportMeta(m.result); strictjson.Check(out) != nil || strictjson.Member(strictjson.Member(out, "_meta"), metaServer) != nil {
			t.Errorf("%s became %s", m.result, out)
		}
		_ = checkResult("tools/call", m.result)
	})
}

// Every offered definition has passed all checks.
func FuzzDefine(f *testing.F) {
	f.Add([]byte(`{"name":"a","description":"x","inputSchema":{"type":"object","properties":{"p":{"type":"string","x-mcp-header":"P"}}},"annotations":{"readOnlyHint":true},"_meta":{"rateLimit":{"cooldownMs":3}}}`))
	f.Add([]byte(`{"name":"a","inputSchema":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if strictjson.Check(data) != nil {
			return
		}
		v, err := New(Options{ID: "up", URL: "http://127.0.0.1/", Exposure: Exposure{Pinning: PinOff}})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range v.definitions.evaluate(&listing{tools: []json.RawMessage{data}}) {
			if (o.tool == nil) == (o.reason == "") {
				t.Errorf("%q", o.reason)
			}
			if o.tool != nil && (untrusted.CheckJSONText(data) != nil || o.tool.IsReadOnly()) {
				t.Errorf("%s is offered", data)
			}
		}
	})
}
