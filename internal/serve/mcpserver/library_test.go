package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/catalog"
)

var defaultGate = []*gates.Gate{{Name: "default", Mode: toolyard.Write}}

// modern sends a modern request and returns the response.
func modern(h http.Handler, method, name, params string) string {
	header := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	if name != "" {
		header["Mcp-Name"] = name
	}
	if params != "" {
		params += ","
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + goodMeta + `}}`
	return anyCall(post(h, []byte(body), header).Body.String())
}

// listen opens a subscriptions/listen stream and returns the methods of its notifications.
func listen(t *testing.T, url, filter string) <-chan string {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":` + filter + `,` + goodMeta + `}}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", "subscriptions/listen")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 100)
	go func() {
		defer close(told)
		defer func() { _ = res.Body.Close() }()
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			var m struct{ Method string }
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &m) == nil && m.Method != "" {
				told <- m.Method
			}
		}
	}()
	if first := <-told; first != "notifications/subscriptions/acknowledged" {
		t.Fatalf("first came %s", first)
	}
	return told
}

func TestChangesAreNotifiedByKind(t *testing.T) {
	s := mcpserver.New(mcpserver.Options{Call: callpath.Run})
	s.Publish(defaultGate, conversationOffer(), true)
	server := httptest.NewServer(s.Handler(func(*http.Request) string { return "default" }))
	all := listen(t, server.URL, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`)
	prompts := listen(t, server.URL, `{"promptsListChanged":true,"resourceSubscriptions":["docs://readme"]}`)
	session := open(t, s, `{}`)
	for _, step := range []struct {
		kind   string
		change func(*catalog.Offer)
	}{
		{"", func(*catalog.Offer) {}},
		{"", func(o *catalog.Offer) { o.Resources = slices.Delete(o.Resources, 1, 2) }}, // removes the unlisted resource
		{"tools", func(o *catalog.Offer) { o.Tools = o.Tools[1:] }},
		{"prompts", func(o *catalog.Offer) { o.Prompts = o.Prompts[1:] }},
		{"prompts", func(o *catalog.Offer) { o.Prompts[0].Definition = json.RawMessage(`{"name":"ask","title":"new"}`) }},
		{"resources", func(o *catalog.Offer) { o.Resources = o.Resources[1:] }},
		{"resources", func(o *catalog.Offer) { o.Resources = nil }},
	} {
		changed := conversationOffer()
		step.change(&changed)
		for _, offer := range []catalog.Offer{changed, conversationOffer()} { // apply the change, then undo it
			s.Publish(defaultGate, offer, true)
			if step.kind == "" {
				continue // an unexpected notification would show up in the next step
			}
			want := "notifications/" + step.kind + "/list_changed"
			if got := hear(all); got != want {
				t.Errorf("%q instead of %q", got, want)
			}
			if got := session.next(); !strings.Contains(got, want) {
				t.Errorf("legacy: %q instead of %q", got, want)
			}
			if step.kind == "prompts" && hear(prompts) != want {
				t.Error("a listener for prompts received something else")
			}
		}
	}
	session.close()
	s.Close()
	server.Close()
	for _, told := range []<-chan string{all, prompts} {
		for more := range told {
			t.Errorf("the last page is %q", more)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// hear returns the next notification.
func hear(told <-chan string) string {
	select {
	case method := <-told:
		return method
	case <-time.After(time.Minute):
		return "nothing"
	}
}

// Pages of a list neither repeat nor skip items.
func TestPages(t *testing.T) {
	const n = 2500
	var offer catalog.Offer
	reader := raw(toolyard.Spec{Name: "read"}, func(*toolyard.Call) (string, error) { return `{}`, nil })
	for i := range n {
		offer.Resources = append(offer.Resources, &toolyard.Resource{
			URI: fmt.Sprintf("a://%d", i), Definition: json.RawMessage(fmt.Sprintf(`{"uri":"a://%d"}`, i)), Reader: reader, Unlisted: i%2 == 0,
		})
		offer.Prompts = append(offer.Prompts, &toolyard.Prompt{Name: fmt.Sprint("p", i), Definition: json.RawMessage(`{"name":"x"}`), Getter: reader})
	}
	h := serveOffer(t, offer).Handler(func(*http.Request) string { return "default" })
	for method, want := range map[string]int{"resources/list": n / 2, "prompts/list": n, "resources/templates/list": 0} {
		seen := map[string]bool{}
		for cursor, more := "", true; more; {
			var m struct {
				Result struct {
					NextCursor         string
					Resources, Prompts []struct{ URI, Name string }
				}
			}
			if err := json.Unmarshal([]byte(modern(h, method, "", cursor)), &m); err != nil {
				t.Fatal(err)
			}
			for _, item := range append(m.Result.Resources, m.Result.Prompts...) {
				seen[item.URI+item.Name] = true
			}
			cursor, more = `"cursor":"`+m.Result.NextCursor+`"`, m.Result.NextCursor != ""
		}
		if len(seen) != want {
			t.Errorf("%s: %d of %d", method, len(seen), want)
		}
	}
}

// At gates of both error styles, failed reads and prompts are JSON-RPC errors. Their documents may
// be structured content.
func TestResourceAndPromptResults(t *testing.T) {
	type document struct {
		Contents []string `json:"contents"`
	}
	read := toolyard.Define(toolyard.Spec{Name: "read"}, func(_ context.Context, _ *toolyard.Call, in struct {
		URI string `json:"uri"`
	},
	) (any, error) {
		switch in.URI {
		case "a://data":
			return document{[]string{"x"}}, nil
		case "a://failure":
			return toolyard.Failure("the shelf is %s", "empty"), nil
		case "a://error":
			return nil, errors.New("boom")
		case "a://slow":
			return nil, &toolyard.Error{Code: toolyard.RateLimited, Message: "Not so fast.", RetryAfter: time.Second}
		}
		return "a text", nil
	})
	var offer catalog.Offer
	for _, name := range []string{"data", "failure", "error", "slow", "text"} {
		offer.Resources = append(offer.Resources, &toolyard.Resource{URI: "a://" + name, Definition: json.RawMessage(`{}`), Reader: read})
	}
	for _, style := range []gates.ErrorStyle{gates.ErrorsAsResults, gates.ErrorsAsProtocol} {
		s := mcpserver.New(mcpserver.Options{Name: "test", Version: "1", Call: callpath.Run})
		t.Cleanup(s.Close)
		s.Publish([]*gates.Gate{{Name: "default", Mode: toolyard.Write, Errors: style}}, offer, true)
		h := s.Handler(func(*http.Request) string { return "default" })
		for uri, want := range map[string]string{
			"a://data":    `"result":{"contents":["x"],"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"},"dev.toolyard/call":"…"}}`,
			"a://failure": `"error":{"code":-32000,"message":"the shelf is empty","data":{"error":"TOOL_EXECUTION_ERROR","message":"the shelf is empty","retryable":false,"correctable":false}}`,
			"a://error":   `"error":{"code":-32000,"message":"boom","data":{"error":"TOOL_EXECUTION_ERROR","message":"boom","retryable":false,"correctable":false}}`,
			"a://slow":    `"error":{"code":-32003,"message":"Not so fast.","data":{"error":"RATE_LIMITED","message":"Not so fast.","retryable":true,"correctable":false,"retryAfterMs":1000}}`,
			"a://text":    `"error":{"code":-32000,"message":"The result of read has no contents member.","data":{"error":"OUTPUT_ERROR","message":"The result of read has no contents member.","retryable":false,"correctable":false}}`,
			"a://nothing": `"error":{"code":-32602,"message":"Unknown resource \"a://nothing\".","data":{"uri":"a://nothing"}}`,
		} {
			if diff := cmp.Diff(`{"jsonrpc":"2.0","id":1,`+want+`}`, modern(h, "resources/read", uri, `"uri":"`+uri+`"`)); diff != "" {
				t.Errorf("%s %s: %s", style, uri, diff)
			}
		}
	}
}

func TestInvalidParamsAreRejected(t *testing.T) {
	h := serveOffer(t, conversationOffer()).Handler(func(*http.Request) string { return "default" })
	for _, tt := range []struct{ method, name, params, want string }{
		{"prompts/get", "mcp_docs__greet", `"name":"mcp_docs__greet","arguments":{"who":1}`, "-32602"},
		{"prompts/get", "mcp_docs__greet", `"name":"mcp_docs__greet","arguments":["who"]`, "-32602"},
		{"prompts/get", "mcp_docs__greet", `"name":"mcp_docs__greet","arguments":null`, `"arguments":{}`},
		{"prompts/get", "other", `"name":"mcp_docs__greet"`, "-32020"},
		{"resources/read", "docs://other", `"uri":"docs://readme"`, "-32020"},
		{"resources/read", "=?base64?ZG9jczovL3JlYWRtZQ==?=", `"uri":"docs://readme"`, `"contents"`},
		{"resources/read", "", `"name":"docs://readme"`, "-32020"},
		{"resources/read", "docs://readme", `"uri":"docs://readme","requestState":1`, "-32602"},
		{"completion/complete", "", `"argument":{"name":"x","value":""}`, "-32602"},
		{"completion/complete", "", `"ref":{"type":"ref/tool","name":"say"}`, "-32602"},
		{"completion/complete", "", `"ref":{"type":"ref/prompt"}`, "-32602"},
		{"completion/complete", "", `"ref":"mcp_docs__greet"`, "-32602"},
		{"completion/complete", "", `"ref":{"type":"ref/resource","uri":"docs://moby/page"}`, "-32602"},
		{"resources/subscribe", "", `"uri":"docs://readme"`, "-32601"},
	} {
		if got := modern(h, tt.method, tt.name, tt.params); !strings.Contains(got, tt.want) {
			t.Errorf("%s %s: %s", tt.method, tt.params, got)
		}
	}
}
