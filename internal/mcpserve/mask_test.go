package mcpserve

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func TestMask(t *testing.T) {
	m := newMask()
	for _, id := range []string{"9007199254740993", "-9007199254740993", "99999999999999999999", strings.Repeat("9", 128)} {
		message := `{"method":"x","id":` + id + `,"params":{"requestId":` + id + `,"_meta":{"progressToken":` + id + `},"arguments":{"id":` + id + `}}}`
		hidden := m.hide([]byte(message))
		if got := strings.Count(string(hidden), m.secret); got != 3 || !json.Valid(hidden) {
			t.Errorf("%s: %d hidden in %s", id, got, hidden)
		}
		answer := "event: message\ndata: " + `{"jsonrpc":"2.0","id":"` + m.secret + id + `","result":{}}` + "\n\n"
		if want := "event: message\ndata: " + `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` + "\n\n"; string(m.show([]byte(answer))) != want {
			t.Errorf("shown as %s", m.show([]byte(answer)))
		}
	}
	for _, id := range []string{"1", "9007199254740", `"9007199254740993"`, "null"} {
		message := `{"id":` + id + `,"method":"x"}`
		if got := string(m.hide([]byte(message))); got != message {
			t.Errorf("%s became %s", message, got)
		}
	}
}

// What a client answers goes through the SDK as the bytes that it is.
func TestTheMaskCarriesAnswers(t *testing.T) {
	m := newMask()
	const answers = `{"z":1.10,"a":{"content":{"n":9007199254740993,"<é\n\u2028\"":[ ]}}}`
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"result":` + answers + `}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"inputResponses":` + answers + `,"_meta":{"progressToken":9007199254740993}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{ },"inputResponses":` + answers + `}}`,
	} {
		var got struct {
			Result, Params struct {
				InputResponses map[string]any
				Meta           map[string]any `json:"_meta"`
			}
		}
		hidden := m.hide([]byte(message))
		if err := json.Unmarshal(hidden, &got); err != nil || len(got.Params.InputResponses) > 0 {
			t.Fatalf("%s became %s: %v", message, hidden, err)
		}
		if carried := m.carried(got.Result.Meta); string(carried) != answers && string(m.carried(got.Params.Meta)) != answers {
			t.Errorf("%s became %s", message, hidden)
		}
	}
	legacy := `{"id":1,"method":"tools/call","params":{"inputResponses":` + answers + `}}`
	if got := string(m.hide([]byte(legacy))); got != `{"id":1,"method":"tools/call","params":{"inputResponses":{}}}` {
		t.Error(got)
	}
}

// Whoever learned the secret could not break a message with it, and nobody learns it.
func TestTheMaskKeepsItsSecret(t *testing.T) {
	m := newMask()
	for _, message := range []string{
		`{"id":1,"result":{"content":[{"type":"text","text":"\"` + m.secret + `1\""}]}}`,
		`{"id":"` + m.secret + `[{}]","result":{"a":"` + m.secret + `9007199254740993"}}`,
		`{"id":1,"error":{"code":0,"message":"duplicate id ` + m.secret + `9007199254740993"}}`,
	} {
		shown := m.show([]byte(message))
		if !json.Valid(shown) || strings.Contains(string(shown), m.secret) {
			t.Errorf("%s shown as %s", message, shown)
		}
	}
}

func TestErrorNumbers(t *testing.T) {
	m := newMask()
	hidden := m.hideError(&jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "x"})
	raw, _ := json.Marshal(hidden)
	shown := m.show([]byte(`{"jsonrpc":"2.0","id":1,"error":` + string(raw) + `}`))
	if want := `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x"}}`; string(shown) != want {
		t.Errorf("%s", shown)
	}
	if got := string(m.show([]byte(`{"id":1,"error":{"code":0,"message":"x"}}`))); got != `{"id":1,"error":{"code":-32600,"message":"x"}}` {
		t.Error(got)
	}
	if got := `{"id":1,"result":{"structuredContent":{"error":{"code":0}}}}`; string(m.show([]byte(got))) != got {
		t.Error("a result was changed")
	}
}
