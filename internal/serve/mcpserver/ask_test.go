package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolyard/toolyard"
)

// greeter returns a tool that asks for a name and a color, one after the other, and counts the
// completed calls.
func greeter(done *atomic.Int64) *toolyard.Tool {
	type name struct {
		Name string `json:"name"`
	}
	type color struct {
		Color string `json:"color" enum:"red,blue"`
	}
	return toolyard.Define(toolyard.Spec{Name: "ask"}, func(ctx context.Context, c *toolyard.Call, _ struct{}) (string, error) {
		n, err := toolyard.Ask[name](ctx, c, toolyard.Question{Key: "name", Message: "Your name?", State: []byte("seen")})
		if err != nil {
			return "", err
		}
		if !n.Accepted() {
			return "no name", nil
		}
		color, err := toolyard.Ask[color](ctx, c, toolyard.Question{Key: "color", Message: n.Form.Name + ", your color?", Bind: n.Form.Name})
		if err != nil {
			return "", err
		}
		done.Add(1)
		return fmt.Sprintf("%s %s %s", n.State, n.Form.Name, color.Form.Color), nil
	})
}

func TestAskWorksWithLegacyClients(t *testing.T) {
	var done atomic.Int64
	c := open(t, newServer(t, greeter(&done)), `{"elicitation":{}}`)
	defer c.close()
	c.send(callAsk)
	c.answer(c.next(), `{"action":"accept","content":{"name":"Ann"}}`)
	question := c.next()
	if !strings.Contains(question, "Ann, your color?") {
		t.Error(question)
	}
	c.answer(question, `{"action":"accept","content":{"color":"blue"}}`)
	if line := c.next(); !strings.Contains(line, "seen Ann blue") || done.Load() != 1 {
		t.Error(line)
	}
	c.send(callAsk)
	c.answer(c.next(), `{"action":"decline"}`)
	if line := c.next(); !strings.Contains(line, "no name") || done.Load() != 1 {
		t.Error(line)
	}
}

func TestAskWorksWithModernClients(t *testing.T) {
	var done atomic.Int64
	h := newServer(t, greeter(&done)).Handler(func(*http.Request) string { return "default" })
	meta := strings.Replace(goodMeta, `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}`, 1)
	call := func(more string) (raw, state string) {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask",` + more + meta + `}}`
		raw = post(h, []byte(body), map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "ask"}).Body.String()
		var reply struct{ Result struct{ RequestState string } }
		if err := json.Unmarshal([]byte(raw), &reply); err != nil {
			t.Fatal(raw)
		}
		return raw, reply.Result.RequestState
	}
	answer := func(state, key, content string) string {
		return fmt.Sprintf(`"requestState":%q,"inputResponses":{%q:{"action":"accept","content":%s}},`, state, key, content)
	}
	first, state := call("")
	if !strings.Contains(first, `"name":{"method":"elicitation/create"`) || strings.Contains(first, "seen") || state == "" {
		t.Fatal(first)
	}
	second, next := call(answer(state, "name", `{"name":"Ann"}`))
	if !strings.Contains(second, "Ann, your color?") || strings.Contains(second, `"key"`) {
		t.Fatal(second)
	}
	if replayed, _ := call(answer(state, "name", `{"name":"Bob"}`)); !strings.Contains(replayed, "requestState is not valid for this call") {
		t.Error(replayed)
	}
	if stateless, _ := call(`"inputResponses":{"name":{"action":"accept","content":{"name":"Eve"}},"color":{"action":"accept","content":{"color":"red"}}},`); !strings.Contains(stateless, "Your name?") {
		t.Error(stateless)
	}
	if last, _ := call(answer(next, "color", `{"color":"red"}`)); !strings.Contains(last, "seen Ann red") || done.Load() != 1 {
		t.Errorf("%s, done %d times", last, done.Load())
	}
	if unable := modern(h, "tools/call", "ask", `"name":"ask"`); !strings.Contains(unable, string(toolyard.MissingCapability)) {
		t.Error(unable)
	}
}
