package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/serve/offer"
	"github.com/toolyard/toolyard/internal/sources/catalog"
)

// longText returns a text in which every position is unique.
func longText() string {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "line %d ä漢😀\n", i)
	}
	return b.String()
}

// longYard returns a server whose gates show 2 KiB of a result. The Caller header contains the
// caller.
func longYard(t *testing.T, results offer.Results) (s *mcpserver.Server, clock *time.Time) {
	t.Helper()
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	clock = &now
	s = mcpserver.New(mcpserver.Options{
		Call: callpath.Run, Now: func() time.Time { return *clock }, Results: results,
		Authorize: func(r *http.Request, _ *gates.Gate) (toolyard.Caller, error) {
			return toolyard.Caller{ID: r.Header.Get("Caller"), Account: r.Header.Get("Account")}, nil
		},
	})
	t.Cleanup(s.Close)
	text, err := json.Marshal(longText())
	if err != nil {
		t.Fatal(err)
	}
	item := `{"type":"text","text":` + string(text) + `}`
	image := `{"type":"image","data":"AAAA","mimeType":"image/png"}`
	give := func(spec toolyard.Spec, result string) *toolyard.Tool {
		spec.Effects = toolyard.ReadOnly
		return raw(spec, func(*toolyard.Call) (string, error) { return result, nil })
	}
	type row struct {
		Text string `json:"text"`
	}
	tools := []*toolyard.Tool{
		give(toolyard.Spec{Name: "long"}, `{"content":[`+item+`,`+image+`],"_meta":{"a":1}}`),
		give(toolyard.Spec{Name: "short"}, `{"content":[{"type":"text","text":"short"}]}`),
		give(toolyard.Spec{Name: "failed"}, `{"content":[`+item+`],"isError":true}`),
		toolyard.Define(toolyard.Spec{Name: "typed", Effects: toolyard.ReadOnly},
			func(context.Context, *toolyard.Call, struct{}) (row, error) { return row{longText()}, nil }),
	}
	s.Publish([]*gates.Gate{
		{Name: "search", Mode: toolyard.Read, Presentation: gates.Presentation{Offer: gates.OfferSearch, Show: 2 << 10}},
		{Name: "tools", Mode: toolyard.Read, Presentation: gates.Presentation{Show: 2 << 10}},
		{Name: "whole", Mode: toolyard.Read},
	}, catalog.Offer{Tools: tools}, true)
	return s, clock
}

// as sends a modern request on behalf of a caller.
func as(s *mcpserver.Server, caller, gate, method, name, params string) string {
	account, id, _ := strings.Cut(caller, "/")
	header := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name, "Account": account, "Caller": id}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `,` + goodMeta + `}}`
	return post(s.Handler(func(*http.Request) string { return gate }), []byte(body), header).Body.String()
}

func callAs(s *mcpserver.Server, caller, gate, name, args string) string {
	return as(s, caller, gate, "tools/call", name, fmt.Sprintf(`"name":%q,"arguments":%s`, name, args))
}

var resultID = regexp.MustCompile(`toolyard://results/([a-z0-9]{26})"`)

func TestLongResultsAreAbridged(t *testing.T) {
	s, _ := longYard(t, nil)
	whole := longText()
	for _, c := range []struct {
		gate, tool, args string
		abridged         bool
	}{
		{"search", "call_tool", `{"name":"long"}`, true},
		{"search", "long", `{}`, true},
		{"tools", "long", `{}`, true},
		{"whole", "long", `{}`, false},
		{"search", "call_tool", `{"name":"short"}`, false},
		{"search", "call_tool", `{"name":"failed"}`, false},
		{"search", "call_tool", `{"name":"typed","arguments":{}}`, true},
		{"search", "typed", `{}`, false}, // a client that listed it requires its structured content
	} {
		response := callAs(s, "acme/ann", c.gate, c.tool, c.args)
		id := resultID.FindStringSubmatch(response)
		if (id == nil) == c.abridged || strings.Contains(response, `"structuredContent"`) == c.abridged && strings.Contains(c.tool+c.args, "typed") {
			t.Errorf("%s %s %s: %.300s", c.gate, c.tool, c.args, response)
		}
		if id == nil {
			continue
		}
		text, _ := textOf(t, response)
		mark := fmt.Sprintf(`Continue with: read_result {"id":%q,"offset":`, id[1])
		if !strings.Contains(text, mark) || len(text) > 2<<10+200 {
			t.Errorf("%s %s: %d bytes: %.300s", c.gate, c.tool, len(text), text)
		}
		if strings.Contains(c.tool+c.args, "typed") {
			continue
		}
		head, rest, _ := strings.Cut(text, "\n\n[")
		_, tail, _ := strings.Cut(rest, "]\n\n")
		if !strings.HasPrefix(whole, head) || len(head) < 1530 || !strings.HasSuffix(whole, tail) || len(tail) < 500 ||
			!strings.Contains(text, fmt.Sprintf("of %d bytes omitted", len(whole))) {
			t.Errorf("%s %s: %d bytes before and %d after the mark: %s", c.gate, c.tool, len(head), len(tail), text)
		}
		if !strings.Contains(response, `"type":"image"`) || !strings.Contains(response, `"a":1`) {
			t.Errorf("%s %s lost an image or _meta: %.4000s", c.gate, c.tool, response)
		}
	}
}

// Reading a long result in pieces yields the whole result, both with read_result and as a resource,
// in both eras.
func TestLongResultsAreReadInPieces(t *testing.T) {
	s, _ := longYard(t, nil)
	whole := longText()
	id := resultID.FindStringSubmatch(callAs(s, "acme/ann", "search", "call_tool", `{"name":"long"}`))[1]
	var read strings.Builder
	for read.Len() < len(whole) {
		text, failed := textOf(t, callAs(s, "acme/ann", "search", "read_result", fmt.Sprintf(`{"id":%q,"offset":%d}`, id, read.Len())))
		if failed || text == "" || len(text) > 2<<10 {
			t.Fatalf("%d bytes, failed %v: %.200s", len(text), failed, text)
		}
		read.WriteString(text)
	}
	if read.String() != whole {
		t.Error("read_result: the pieces differ from the result")
	}
	for _, size := range []int{1, 1000, 1 << 20} {
		read.Reset()
		for read.Len() < min(len(whole), 100*size) {
			uri := fmt.Sprintf("toolyard://results/%s?offset=%d&bytes=%d", id, read.Len(), size)
			var m struct {
				Result struct{ Contents []struct{ Text string } }
			}
			response := as(s, "acme/ann", "tools", "resources/read", uri, fmt.Sprintf(`"uri":%q`, uri))
			if err := json.Unmarshal([]byte(response), &m); err != nil || len(m.Result.Contents) != 1 || m.Result.Contents[0].Text == "" {
				t.Fatalf("%v: %.300s", err, response)
			}
			read.WriteString(m.Result.Contents[0].Text)
		}
		if !strings.HasPrefix(whole, read.String()) {
			t.Errorf("resources/read, %d bytes at a time: the pieces differ from the result", size)
		}
	}
	legacy := toolCall(t, s, "legacy", "search", "call_tool", `{"name":"long"}`)
	own := resultID.FindStringSubmatch(legacy)
	if own == nil {
		t.Fatalf("legacy: %.300s", legacy)
	}
	if text, failed := textOf(t, toolCall(t, s, "legacy", "search", "read_result", `{"id":"`+own[1]+`","offset":7}`)); failed || !strings.HasPrefix(whole[7:], text) {
		t.Errorf("legacy: failed %v: %.200s", failed, text)
	}
}

// A result can be read only by its caller, during its lifetime and within its size.
func TestReadResultRefuses(t *testing.T) {
	s, clock := longYard(t, nil)
	id := resultID.FindStringSubmatch(callAs(s, "acme/ann", "search", "call_tool", `{"name":"long"}`))[1]
	guessed := strings.Repeat("a", 26)
	size := len(longText())
	unknown := func(id string) string {
		return fmt.Sprintf("Unknown result %q: results are stored for an hour, and only the caller of the tool can read them.", id)
	}
	for _, c := range []struct{ name, caller, args, want string }{
		{"another caller", "acme/bob", `{"id":"` + id + `"}`, unknown(id)},
		{"another account", "other/ann", `{"id":"` + id + `"}`, unknown(id)},
		{"a guessed id", "acme/ann", `{"id":"` + guessed + `"}`, unknown(guessed)},
		{"a negative offset", "acme/ann", `{"id":"` + id + `","offset":-1}`, "Invalid arguments for read_result: offset: must be an integer from 0 to the size of the result"},
		{"a huge offset", "acme/ann", `{"id":"` + id + `","offset":99999999999999999999}`, "Invalid arguments for read_result: offset: must be an integer from 0 to the size of the result"},
		{"an offset beyond the end", "acme/ann", `{"id":"` + id + `","offset":2000000000}`, fmt.Sprintf("Offset 2000000000 is beyond the end of the result, which is %d bytes long.", size)},
		{"no id", "acme/ann", `{}`, "Invalid arguments for read_result: id: is required: pass the id from a long result"},
	} {
		if text, failed := textOf(t, callAs(s, c.caller, "search", "read_result", c.args)); !failed || text != c.want {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
	}
	for _, query := range []string{"?offset=-1", "?bytes=0", "?offset=x", "?offset=1&offset=2", "?size=1", "?%zz"} {
		uri := "toolyard://results/" + id + query
		if text, failed := textOf(t, as(s, "acme/ann", "search", "resources/read", uri, fmt.Sprintf(`"uri":%q`, uri))); !failed {
			t.Errorf("%s: %s", query, text)
		}
	}
	uri := "toolyard://results/" + id
	if text, _ := textOf(t, as(s, "acme/ann", "whole", "resources/read", uri, fmt.Sprintf(`"uri":%q`, uri))); !strings.HasPrefix(text, "rpc: Unknown resource") {
		t.Errorf("at a gate that shows whole results: %s", text)
	}
	*clock = clock.Add(time.Hour + time.Second)
	if text, failed := textOf(t, callAs(s, "acme/ann", "search", "read_result", `{"id":"`+id+`"}`)); !failed || text != unknown(id) {
		t.Errorf("after an hour: %q", text)
	}
}

// brokenResults fails to store results.
type brokenResults struct{ offer.Results }

func (brokenResults) PutResult(context.Context, string, string, string, string, time.Time, time.Time) error {
	return errors.New("the store is down")
}

// A result that cannot be stored is sent in full, because the call has run and may have been
// charged.
func TestLongResultIsSentWholeIfItCannotBeStored(t *testing.T) {
	s, _ := longYard(t, brokenResults{})
	if text, failed := textOf(t, callAs(s, "acme/ann", "search", "call_tool", `{"name":"long"}`)); failed || text != longText() {
		t.Errorf("failed %v: %.200s", failed, text)
	}
}
