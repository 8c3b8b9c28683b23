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

// server is the honest part of a server: what it would say if it behaved.
type server struct {
	Behaviour
	seed  uint64
	point string
	turns atomic.Uint64

	mu       sync.Mutex
	sessions map[string]*stream // nil for those without an event stream
	calls    int
	lists    int
}

func newServer(b Behaviour, seed uint64) *server {
	return &server{Behaviour: b, seed: seed, point: b.Point(seed), sessions: make(map[string]*stream)}
}

// message is what a client sends.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// take answers one message of a client.
func (s *server) take(t *turn) {
	switch {
	case t.Method == "":
		return // the client answers something; nobody asked honestly
	case t.struck() && s.strike != nil:
		s.strike(t)
	case t.modern && t.Method == "subscriptions/listen":
		t.acknowledge()
		t.hang()
	case t.ID != nil:
		t.answer()
	}
}

// pours reports whether a message is the one after which the server speaks of its own
// accord on a transport that needs no stream for that.
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

// tools are the tools of an honest server.
var tools = []string{
	`{"name":"echo","description":"Answers with its text.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}},"annotations":{"readOnlyHint":true}}`,
	`{"name":"bad","description":"Goes wrong.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}`,
}

// right is the body of an honest answer: its result, or its error.
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

// listOf is the body of an answer with tools.
func (t *turn) listOf(tools ...string) string { return t.listPage("", tools...) }

// listPage is listOf with another member of the result: the next cursor.
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

// called is the body of an honest answer to a call.
func (t *turn) called() string {
	var call struct {
		Name      string
		Arguments struct{ Text string }
	}
	_ = json.Unmarshal(t.Params, &call) // then it has no name
	switch call.Name {
	case "":
		return `"error":{"code":-32602,"message":"a call needs a name"}`
	case "echo":
		return t.complete(content(call.Arguments.Text))
	}
	return t.complete(content("well"))
}

// content is the members of a result that is a text.
func content(text string) string {
	quoted, _ := json.Marshal(text) // a string always has a JSON form
	return `"content":[{"type":"text","text":` + string(quoted) + `}]`
}

// complete is the body of an answer whose result has these members.
func (t *turn) complete(members string) string {
	if t.modern {
		members += `,"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":` + serverInfo + `}`
	}
	return `"result":{` + members + `}`
}

// poison is the body of an answer that nobody may take.
func (t *turn) poison() string { return t.complete(content(Poison)) }

// turn is the server's turn to speak: a request came, or a stream was opened.
type turn struct {
	*server
	message
	*route
	ctx    context.Context // ends when the client has gone
	modern bool
	rng    *rand.Rand
}

// newTurn makes the turn that a message gives to the server.
func (s *server) newTurn(ctx context.Context, m message, r *route, modern bool) *turn {
	n := s.turns.Add(1)
	return &turn{server: s, message: m, route: r, ctx: ctx, modern: modern, rng: rand.New(rand.NewPCG(s.seed, n))}
}

// struck reports whether this is the point at which the server strikes.
func (t *turn) struck() bool {
	point := t.point
	if t.modern && point == "initialize" {
		point = "server/discover"
	}
	return t.Method == point && (t.Method != "tools/call" || t.tool() != "echo")
}

// tool is the name of the tool that is called.
func (t *turn) tool() string {
	var call struct{ Name string }
	_ = json.Unmarshal(t.Params, &call) // then it has no name
	return call.Name
}

// envelope is the honest answer.
func (t *turn) envelope() string { return t.under(string(t.ID), t.right()) }

// under is an answer with any id and body.
func (t *turn) under(id, body string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,` + body + `}`
}

// forged is a poisoned answer to the request, or to the first one if nothing was asked.
func (t *turn) forged() string {
	if t.ID == nil {
		return t.under("1", t.poison())
	}
	return t.under(string(t.ID), t.poison())
}

// answer answers as an honest server does.
func (t *turn) answer() { t.say(t.envelope()) }

// body answers with any body.
func (t *turn) body(format string, args ...any) {
	t.say(t.under(string(t.ID), fmt.Sprintf(format, args...)))
}

// say sends one message.
func (t *turn) say(message string) bool {
	before, after := t.frame()
	return t.raw(before + message + after)
}

// raw sends bytes without a frame around them. It reports whether the client still listens.
func (t *turn) raw(text string) bool {
	return t.ctx.Err() == nil && t.write([]byte(text)) == nil
}

// flood sends text again and again, at most so many bytes or without end if that is zero.
// It makes pauses, so that what is tested is the client and not the machine.
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

// hang does nothing until the client has gone.
func (t *turn) hang() { <-t.ctx.Done() }

// pause waits, but not longer than the client.
func (t *turn) pause(d time.Duration) {
	select {
	case <-t.ctx.Done():
	case <-time.After(d):
	}
}

// between is a number between the two, by the seed.
func (t *turn) between(low, high int) int { return low + t.rng.IntN(high-low+1) }

// milliseconds is a duration between the two, by the seed.
func (t *turn) milliseconds(low, high int) time.Duration {
	return time.Duration(t.between(low, high)) * time.Millisecond
}

// size is a size that the seed varies by half: that of a long run, or a smaller one.
func (t *turn) size(long, short int) int {
	if !t.Long {
		long = short
	}
	return t.between(long/2, long)
}

// one takes one of several, by the seed.
func (t *turn) one(of ...string) string { return of[t.rng.IntN(len(of))] }

// number is the id of the request as a number, if it is one.
func (t *turn) number() int {
	n, _ := strconv.Atoi(strings.Trim(string(t.ID), `"`))
	return n
}

// like is n as an id of the kind that the client uses.
func (t *turn) like(n int) string {
	if strings.HasPrefix(string(t.ID), `"`) {
		return strconv.Quote(strconv.Itoa(n))
	}
	return strconv.Itoa(n)
}

// count counts calls and lists.
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
