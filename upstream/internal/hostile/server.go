package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// server is the well-behaved part of a server.
type server struct {
	Behaviour
	seed  uint64
	point string
	turns atomic.Uint64

	mu       sync.Mutex
	sessions map[string]*stream // keyed by ID; nil if the session has no event stream
	calls    int
	lists    int
}

func newServer(b Behaviour, seed uint64) *server {
	return &server{Behaviour: b, seed: seed, point: b.Point(seed), sessions: make(map[string]*stream)}
}

// message is a message from a client.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// take handles one message from a client.
func (s *server) take(t *turn) {
	switch {
	case t.Method == "":
		return // the client's responses are ignored
	case t.struck() && s.strike != nil:
		s.strike(t)
	case t.modern && t.Method == "subscriptions/listen":
		t.acknowledge()
		t.hang()
	case t.ID != nil:
		t.answer()
	}
}

// pours reports whether the server starts sending unsolicited messages after this message.
func (s *server) pours(t *turn) bool {
	opened := "notifications/initialized"
	if t.modern {
		opened = "subscriptions/listen"
	}
	return s.pour != nil && t.Method == opened
}

const (
	legacyVersion = "2025-11-25"
	modernVersion = "2026-07-28"
	serverInfo    = `{"name":"hostile","version":"1"}`
)

// tools are a well-behaved server's tools.
var tools = []string{
	`{"name":"echo","description":"Answers with its text.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}},"annotations":{"readOnlyHint":true}}`,
	`{"name":"bad","description":"Goes wrong.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}`,
}

// right returns the body of a valid response: a result or an error.
func (t *turn) right() string {
	switch {
	case t.modern && t.Method == "server/discover":
		return t.complete(`"supportedVersions":["` + modernVersion + `"],"capabilities":{"tools":{"listChanged":true}},"ttlMs":1000,"cacheScope":"public"`)
	case !t.modern && t.Method == "initialize":
		return `"result":{"protocolVersion":"` + legacyVersion + `","capabilities":{"tools":{"listChanged":true}},"serverInfo":` + serverInfo + `}`
	case !t.modern && (t.Method == "ping" || t.Method == "logging/setLevel"):
		return `"result":{}`
	case t.Method == "tools/list":
		return t.listOf(tools...)
	case t.Method == "tools/call":
		return t.called()
	}
	return `"error":{"code":-32601,"message":"there is no such method"}`
}

// listOf returns the body of a response that lists tools.
func (t *turn) listOf(tools ...string) string { return t.listPage("", tools...) }

// listPage is like listOf, with an additional member in the result, such as the next cursor.
func (t *turn) listPage(member string, tools ...string) string {
	body := `"tools":[` + strings.Join(tools, ",") + `]`
	if t.modern {
		body += `,"ttlMs":1000,"cacheScope":"public"`
	}
	if member != "" {
		body += "," + member
	}
	return t.complete(body)
}

// called returns the body of a valid response to a call.
func (t *turn) called() string {
	var call struct {
		Name      string
		Arguments struct{ Text string }
	}
	_ = json.Unmarshal(t.Params, &call) // if there is no name, the call fails
	switch call.Name {
	case "":
		return `"error":{"code":-32602,"message":"a call needs a name"}`
	case "echo":
		return t.complete(content(call.Arguments.Text))
	}
	return t.complete(content("well"))
}

// content returns the members of a result with text.
func content(text string) string {
	quoted, _ := json.Marshal(text) // cannot fail for a string
	return `"content":[{"type":"text","text":` + string(quoted) + `}]`
}

// complete returns the body of a response whose result has these members.
func (t *turn) complete(members string) string {
	if t.modern {
		members += `,"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":` + serverInfo + `}`
	}
	return `"result":{` + members + `}`
}

// poison returns the body of a response that no client may accept.
func (t *turn) poison() string { return t.complete(content(Poison)) }

// turn is the server's chance to send messages: a request arrived or a stream was opened.
type turn struct {
	*server
	message
	*route
	ctx    context.Context // ends when the client disconnects
	modern bool
	rng    *rand.Rand
}

// newTurn returns the turn for a message.
func (s *server) newTurn(ctx context.Context, m message, r *route, modern bool) *turn {
	n := s.turns.Add(1)
	return &turn{server: s, message: m, route: r, ctx: ctx, modern: modern, rng: rand.New(rand.NewPCG(s.seed, n))}
}

// struck reports whether the server misbehaves at this point.
func (t *turn) struck() bool {
	point := t.point
	if t.modern && point == "initialize" {
		point = "server/discover"
	}
	return t.Method == point && (t.Method != "tools/call" || t.tool() != "echo")
}

// tool returns the name of the called tool.
func (t *turn) tool() string {
	var call struct{ Name string }
	_ = json.Unmarshal(t.Params, &call) // empty if there is no name
	return call.Name
}

// envelope returns the valid response.
func (t *turn) envelope() string { return t.under(string(t.ID), t.right()) }

// under returns a response with the given ID and body.
func (t *turn) under(id, body string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,` + body + `}`
}

// forged returns a poisoned response to the request, or to the first request if there is none.
func (t *turn) forged() string {
	if t.ID == nil {
		return t.under("1", t.poison())
	}
	return t.under(string(t.ID), t.poison())
}

// answer responds as a well-behaved server does.
func (t *turn) answer() { t.say(t.envelope()) }

// body sends a response with the given body.
func (t *turn) body(format string, args ...any) {
	t.say(t.under(string(t.ID), fmt.Sprintf(format, args...)))
}

// say sends one message.
func (t *turn) say(message string) bool {
	before, after := t.frame()
	return t.raw(before + message + after)
}

// raw sends bytes with no framing. It reports whether the client is still connected.
func (t *turn) raw(text string) bool {
	return t.ctx.Err() == nil && t.write([]byte(text)) == nil
}

// flood sends text repeatedly until total bytes are sent, or forever if total is zero. It pauses
// between writes, so that the test does not overload the machine.
func (t *turn) flood(text string, total int) bool {
	block, pause := strings.Repeat(text, max(1, 64<<10/len(text))), time.Millisecond
	if total == 0 {
		pause = 4 * time.Millisecond
	}
	for sent := 0; total == 0 || sent < total; sent += len(block) {
		if !t.raw(block) {
			return false
		}
		t.pause(pause)
	}
	return true
}

// hang waits until the client disconnects.
func (t *turn) hang() { <-t.ctx.Done() }

// pause waits for d or until the client disconnects.
func (t *turn) pause(d time.Duration) {
	select {
	case <-t.ctx.Done():
	case <-time.After(d):
	}
}

// between returns a number in the range, selected by the seed.
func (t *turn) between(low, high int) int { return low + t.rng.IntN(high-low+1) }

// milliseconds returns a duration in the range, selected by the seed.
func (t *turn) milliseconds(low, high int) time.Duration {
	return time.Duration(t.between(low, high)) * time.Millisecond
}

// size returns a size that the seed varies by half. It is the full size only in a long run.
func (t *turn) size(long, short int) int {
	if !t.Long {
		long = short
	}
	return t.between(long/2, long)
}

// one returns one of the values, selected by the seed.
func (t *turn) one(of ...string) string { return of[t.rng.IntN(len(of))] }

// number returns the ID of the request, if it is a number.
func (t *turn) number() int {
	n, _ := strconv.Atoi(strings.Trim(string(t.ID), `"`))
	return n
}

// like returns n as an ID of the same type as the client's.
func (t *turn) like(n int) string {
	if strings.HasPrefix(string(t.ID), `"`) {
		return strconv.Quote(strconv.Itoa(n))
	}
	return strconv.Itoa(n)
}

func (t *turn) count() (calls, lists int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.Method {
	case "tools/call":
		t.calls++
	case "tools/list":
		t.lists++
	}
	return t.calls, t.lists
}
