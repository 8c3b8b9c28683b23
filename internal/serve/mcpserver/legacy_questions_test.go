package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/catalog"
)

// session is a legacy client that uses stdio.
type session struct {
	t     *testing.T
	to    io.WriteCloser
	from  *bufio.Scanner
	ended chan error
}

// open starts a session. features are the client's capabilities.
func open(t *testing.T, s *mcpserver.Server, features string) *session {
	in, to := io.Pipe()
	from, out := io.Pipe()
	c := &session{t: t, to: to, from: bufio.NewScanner(from), ended: make(chan error, 1)}
	go func() {
		c.ended <- s.ServeStdio(t.Context(), "default", in, out)
		_ = out.Close()
	}()
	c.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + features + `,"clientInfo":{"name":"c","version":"1"}}}`)
	c.next()
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *session) send(line string) {
	if _, err := io.WriteString(c.to, line+"\n"); err != nil {
		c.t.Error(err)
	}
}

// next returns the next message from the server.
func (c *session) next() string {
	if !c.from.Scan() {
		c.t.Error("the server sent no more messages")
	}
	return c.from.Text()
}

// answer answers a question from the server.
func (c *session) answer(question, result string) {
	var m struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(question), &m); err != nil || m.ID == nil {
		c.t.Errorf("not a question: %s", question)
	}
	c.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`)
}

func (c *session) close() {
	_ = c.to.Close()
	for c.from.Scan() { // discard the rest
	}
	if err := <-c.ended; err != nil {
		c.t.Error(err)
	}
}

const callAsk = `{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"ask"}}`

// restless returns a tool that always asks again.
func restless(ran *atomic.Int64) *toolyard.Tool {
	return raw(toolyard.Spec{Name: "ask"}, func(c *toolyard.Call) (string, error) {
		return strings.Replace(unfinished, "inner", fmt.Sprint(ran.Add(1)), 1), nil
	})
}

func TestEndlessQuestionsAreStopped(t *testing.T) {
	var ran atomic.Int64
	c := open(t, newServer(t, restless(&ran)), `{"elicitation":{}}`)
	defer c.close()
	c.send(callAsk)
	questions := 0
	line := c.next()
	for ; strings.Contains(line, `"method":"elicitation/create"`); line = c.next() {
		questions++
		c.answer(line, `{"action":"accept","content":{"n":1}}`)
	}
	if questions != 8 || ran.Load() != 9 || !strings.Contains(line, "requesting input 8 times") || !strings.Contains(line, `"isError":true`) {
		t.Errorf("%d questions, ran %d times: %s", questions, ran.Load(), line)
	}
}

// Rounds that ask no questions count too.
func TestEndlessStatesAreStopped(t *testing.T) {
	var ran atomic.Int64
	c := open(t, newServer(t, raw(toolyard.Spec{Name: "ask"}, func(*toolyard.Call) (string, error) {
		ran.Add(1)
		return `{"resultType":"input_required","requestState":"again"}`, nil
	})), `{}`)
	defer c.close()
	c.send(callAsk)
	if line := c.next(); ran.Load() != 9 || !strings.Contains(line, "requesting input 8 times") {
		t.Errorf("ran %d times: %s", ran.Load(), line)
	}
}

func TestQuestionsKeepTheirBytes(t *testing.T) {
	questions := []struct{ key, method, params, answer string }{
		{"form", "elicitation/create", `{"message":"<é>","requestedSchema":{"type":"object","properties":{"a":{"type":"number","default":1.10}}},"later":9007199254740993}`, `{"action":"accept","content":{"a":1E2}}`},
		{"page", "elicitation/create", `{"mode":"url","message":"?","url":"https://example.com","elicitationId":"e1"}`, `{"action":"decline"}`},
		{"model", "sampling/createMessage", `{"messages":[{"role":"user","content":{"type":"hologram","beam":1.10}}],"maxTokens":1}`, `{"role":"assistant","content":{"type":"hologram"},"model":"m","later":[9007199254740993]}`},
		{"roots", "roots/list", `{}`, `{"roots":[{"uri":"file:///x","later":{}}]}`},
	}
	var asked, answered []string
	for _, q := range questions {
		asked = append(asked, fmt.Sprintf(`"%s":{"method":"%s","params":%s}`, q.key, q.method, q.params))
		answered = append(answered, fmt.Sprintf(`"%s":%s`, q.key, q.answer))
	}
	var got string
	c := open(t, newServer(t, raw(toolyard.Spec{Name: "ask"}, func(c *toolyard.Call) (string, error) {
		if got = string(c.InputResponses); got != "" {
			return `{"content":[]}`, nil
		}
		return `{"resultType":"input_required","inputRequests":{` + strings.Join(asked, ",") + `}}`, nil
	})), `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`)
	defer c.close()
	c.send(callAsk)
	for _, q := range questions {
		line := c.next()
		if !strings.Contains(line, `"method":"`+q.method+`","params":`+q.params) {
			t.Errorf("%s is asked as %s", q.key, line)
		}
		c.answer(line, q.answer)
	}
	c.next()
	if want := "{" + strings.Join(answered, ",") + "}"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestClientWithoutCapabilityIsNotAsked(t *testing.T) {
	c := open(t, newServer(t, raw(toolyard.Spec{Name: "ask"}, asker)), `{}`)
	defer c.close()
	c.send(callAsk)
	if line := c.next(); !strings.Contains(line, `"code":-32021`) || !strings.Contains(line, `"requiredCapabilities":{"elicitation":{}}`) {
		t.Error(line)
	}
}

func TestAnswersAreLimited(t *testing.T) {
	c := open(t, newServer(t, raw(toolyard.Spec{Name: "ask"}, asker)), `{"elicitation":{}}`)
	defer c.close()
	for size, fits := range map[int]bool{60 << 10: true, 64 << 10: false} {
		c.send(callAsk)
		c.answer(c.next(), `{"action":"accept","content":{"x":"`+strings.Repeat("x", size)+`"}}`)
		if line := c.next(); strings.Contains(line, "larger than 64 KiB") == fits || !fits && len(line) > 1000 {
			t.Errorf("%d bytes: %.200s", size, line)
		}
	}
}

// The wait for answers does not count toward the deadline of one minute, but has its own limit.
func TestWaitForAnswersSuspendsTheDeadline(t *testing.T) {
	for after, want := range map[time.Duration]string{9 * time.Minute: "inner", 11 * time.Minute: "did not answer elicitation/create within 10m0s"} {
		synctest.Test(t, func(t *testing.T) {
			s := newOpenServer(catalog.Offer{Tools: []*toolyard.Tool{raw(toolyard.Spec{Name: "ask"}, asker)}})
			c := open(t, s, `{"elicitation":{}}`)
			c.send(callAsk)
			question := c.next()
			go func() {
				time.Sleep(after)
				c.answer(question, `{"action":"accept"}`)
			}()
			line := c.next()
			for strings.Contains(line, "notifications/cancelled") {
				line = c.next()
			}
			if !strings.Contains(line, want) {
				t.Errorf("after %v: %s", after, line)
			}
			time.Sleep(time.Hour)
			c.close()
			s.Close()
			time.Sleep(time.Minute) // lets the sessions end
		})
	}
}

func TestClosedGateCancelsQuestions(t *testing.T) {
	s := newServer(t, raw(toolyard.Spec{Name: "ask"}, asker))
	c := open(t, s, `{"elicitation":{}}`)
	defer c.close()
	c.send(callAsk)
	c.next()
	s.Publish(nil, catalog.Offer{}, true)
	line := c.next()
	for strings.Contains(line, "notifications/cancelled") {
		line = c.next()
	}
	if !strings.Contains(line, `"isError":true`) {
		t.Error(line)
	}
}

// This covers both HTTP and HTTP+SSE.
func TestOfficialClientAnswersQuestions(t *testing.T) {
	s := newServer(t, raw(toolyard.Spec{Name: "ask"}, asker))
	gate := func(*http.Request) string { return "default" }
	stream, sse := httptest.NewServer(s.Handler(gate)), httptest.NewServer(s.SSEHandler(gate))
	defer stream.Close()
	defer sse.Close()
	for name, transport := range map[string]mcp.Transport{
		"streamable": &mcp.StreamableClientTransport{Endpoint: stream.URL, HTTPClient: stream.Client()},
		"SSE":        &mcp.SSEClientTransport{Endpoint: sse.URL, HTTPClient: sse.Client()},
	} {
		t.Run(name, func(t *testing.T) {
			client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"n": 7}}, nil
				},
			})
			session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			if err != nil {
				t.Fatal(err)
			}
			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})
			if err != nil || res.IsError || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, `{"n":7}`) {
				t.Errorf("%+v %v", res, err)
			}
			_ = session.Close()
		})
	}
}

func TestOnlyTheSameCallerContinuesACall(t *testing.T) {
	s := mcpserver.New(mcpserver.Options{
		Call: callpath.Run,
		Authorize: func(r *http.Request, _ *gates.Gate) (toolyard.Caller, error) {
			return toolyard.Caller{ID: r.Header.Get("Who")}, nil
		},
	})
	t.Cleanup(s.Close)
	s.Publish([]*gates.Gate{{Name: "default", Mode: toolyard.Write}}, catalog.Offer{Tools: []*toolyard.Tool{raw(toolyard.Spec{Name: "count"}, asker)}}, true)
	h := s.Handler(func(*http.Request) string { return "default" })
	call := func(who, more string) string {
		header := maps.Clone(modernHeader)
		header["Who"] = who
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count",` + more + strings.Replace(goodMeta, "{}", `{"elicitation":{}}`, 1) + `}}`
		return post(h, []byte(body), header).Body.String()
	}
	m := state.FindStringSubmatch(call("ann", ""))
	if m == nil {
		t.Fatal("there is no state")
	}
	resume := `"inputResponses":{"n":{"action":"accept"}},"requestState":"` + m[1] + `",`
	if got := call("bob", resume); !strings.Contains(got, "-32602") {
		t.Errorf("another caller got %s", got)
	}
	if got := call("ann", resume); !strings.Contains(got, "inner") {
		t.Errorf("the caller got %s", got)
	}
}
