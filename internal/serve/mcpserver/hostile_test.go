package mcpserver_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/catalog"
)

// newServer serves the tools at a write gate named default.
func newServer(t testing.TB, tools ...*toolyard.Tool) *mcpserver.Server {
	t.Helper()
	return serveOffer(t, catalog.Offer{Tools: tools})
}

// serveOffer serves an offer at a write gate named default.
func serveOffer(t testing.TB, offer catalog.Offer) *mcpserver.Server {
	t.Helper()
	s := newOpenServer(offer)
	t.Cleanup(s.Close)
	return s
}

// newOpenServer returns a server that the test must close.
func newOpenServer(offer catalog.Offer) *mcpserver.Server {
	s := mcpserver.New(mcpserver.Options{
		Name: "test", Version: "1",
		Call: callpath.Chain(callpath.Run, callpath.Record(time.Now), callpath.Recover(), callpath.Cap(256<<10, 1<<20), callpath.Validate(time.Minute), callpath.Deadline(time.Minute)),
	})
	s.Publish([]*gates.Gate{{Name: "default", Mode: toolyard.Write}}, offer, true)
	return s
}

func post(h http.Handler, body []byte, header map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/mcp", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var modernHeader = map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "count"}

const (
	goodMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	goodCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"n":1,"s":"x"},` + goodMeta + `}}`
)

// hostile generates a body that must not reach a tool, by corrupting a valid call.
func hostile(r *rand.Rand) string {
	size := 1 << r.IntN(8)
	if r.IntN(40) == 0 {
		size = 1 << 16
	}
	with := func(args string) string { return strings.Replace(goodCall, `{"n":1,"s":"x"}`, args, 1) }
	in := func(at, more string) string { return strings.Replace(goodCall, at, at+more, 1) }
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	ways := []func() string{
		// ambiguous JSON
		func() string {
			return in("{", pick(`"method":"x",`, `"id":2,`, `"jsonrpc":"2.0",`, `"params":{},`, `"m\u0065thod":"x",`))
		},
		func() string {
			return in(`"params":{`, pick(`"name":"other",`, `"n\u0061me":"other",`, `"arguments":{},`))
		},
		func() string { return in(`"arguments":{`, pick(`"n":2,`, `"\u006e":2,`)) },
		func() string { return in(`"_meta":{`, `"io.modelcontextprotocol/clientCapabilities":{"x":{}},`) },
		func() string { return goodCall + strings.Repeat(pick(" {}", "x", "]", goodCall), size%50+1) },
		func() string { return in("{", pick(`"Method":"x",`, `"METHOD":"x",`, `"\u212ae":1,"Id":3,`)) },
		func() string { return strings.Replace(goodCall, `"name"`, pick(`"Name"`, `"NAME"`, `"nam\u00e9"`), 1) },
		// not JSON
		func() string { return goodCall[:r.IntN(len(goodCall)-1)] },
		func() string {
			return with(`{"n":1,"s":"` + pick("\xff", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80") + `"}`)
		},
		func() string {
			return with(`{"n":1,"s":"` + pick(`\ud800`, `\udfff\ud800`, `\x41`, `\u12`, "\x00", "\n") + `"}`)
		},
		func() string {
			return with(`{"n":` + pick("01", "+1", "1.", ".1", "0x1", "NaN", "Infinity", "1e", "--1", "1e999999999", strings.Repeat("9", size+200)) + `,"s":"x"}`)
		},
		func() string { return with(strings.Repeat(pick("[", `{"a":`, "[[", `[{"a":`), size*15)) },
		func() string {
			depth := 65 + size*10
			return with(`{"n":1,"s":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`)
		},
		func() string { return strings.Repeat(" ", size*15) },
		// not a request
		func() string {
			return strings.Replace(goodCall, `"id":1`, `"id":`+pick("null", "1.5", "1e3", "{}", "[1]", "true"), 1)
		},
		func() string { return strings.Replace(goodCall, `"2.0"`, pick(`"1.0"`, "2.0", "null", `"2.0 "`), 1) },
		func() string {
			return strings.Replace(goodCall, `"tools/call"`, pick(`""`, "1", "null", `"tools/Call"`, `"tools/call "`), 1)
		},
		func() string { return "[" + strings.Repeat(goodCall+",", size%20) + goodCall + "]" },
		func() string { return pick("null", "1", `"x"`, "[]", "{}", "true") },
		func() string {
			return strings.Replace(goodCall, `"params":{`, `"params":[`+strings.Repeat("1,", size), 1)
		},
		// not the arguments of this tool
		func() string { return with(`{"n":1,"s":"x","` + strings.Repeat("k", size) + `":1}`) },
		func() string { return with(`{` + manyKeys(size*8) + `"n":1,"s":"x"}`) },
		func() string { return with(`{"n":1,"s":[` + strings.Repeat(`{"a":"\u0041\n"},`, size*4) + `1]}`) },
		func() string {
			return with(`{"n":` + pick("1e308", "-1e-308", "1.5", `"1"`, "null", "[]", "99999999999999999999999999999999") + `,"s":"x"}`)
		},
		func() string {
			return with(`{"n":1,"s":"` + strings.Repeat(pick("x", `\u00e9`, `\"`), 300<<10/2) + `"}`)
		},
		func() string { return with(pick("1", "[]", `"x"`, "true")) },
	}
	body := ways[r.IntN(len(ways))]()
	return body[:min(len(body), 1<<20)]
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"key%d":%d,`, i, i)
	}
	return b.String()
}

// counter is a tool that counts its calls.
func counter() (*toolyard.Tool, *atomic.Int64) {
	var reached atomic.Int64
	return toolyard.Define(toolyard.Spec{Name: "count"}, func(_ context.Context, _ *toolyard.Call, _ struct {
		N int    `json:"n" minimum:"0" maximum:"1000"`
		S string `json:"s" maxLength:"100"`
	},
	) (string, error) {
		reached.Add(1)
		return "reached", nil
	}), &reached
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure returns the result of a request and the CPU time that it takes. It repeats a request that
// takes too long, because a garbage collection may have interfered.
func measure(limit time.Duration, request func() *httptest.ResponseRecorder) (w *httptest.ResponseRecorder, cost time.Duration) {
	cost = limit + 1
	for range 6 {
		if cost > limit {
			before := cpu()
			w = request()
			cost = min(cost, cpu()-before)
		}
	}
	return w, cost
}

// Of ten thousand invalid bodies, none crashes the server, reaches a tool or costs more than 50 ms
// of CPU time.
func TestHostileBodies(t *testing.T) {
	const bodies, limit = 10_000 / slower, 50 * slower * time.Millisecond
	tool, reached := counter()
	h := newServer(t, tool).Handler(func(*http.Request) string { return "default" })
	if w := post(h, []byte(goodCall), modernHeader); reached.Load() != 1 || w.Code != http.StatusOK {
		t.Fatalf("the valid call fails: %d %s", w.Code, w.Body)
	}
	reached.Store(0)
	seed := uint64(20261115)
	r := rand.New(rand.NewPCG(seed, seed))
	var worst time.Duration
	for i := range bodies {
		body := []byte(hostile(r))
		header := modernHeader
		if i%4 == 0 {
			header = nil // sends the body in the legacy era
		}
		w, cost := measure(limit, func() *httptest.ResponseRecorder { return post(h, body, header) })
		worst = max(worst, cost)
		if cost > limit || reached.Load() > 0 || w.Code == http.StatusInternalServerError {
			t.Fatalf("seed %d, body %d: %v of CPU, reached %d, status %d: %.300s", seed, i, cost, reached.Load(), w.Code, body)
		}
	}
	t.Logf("worst of %d: %v of CPU", bodies, worst)
}

func TestBodyLimit(t *testing.T) {
	tool, _ := counter()
	h := newServer(t, tool).Handler(func(*http.Request) string { return "default" })
	body := append([]byte(goodCall), bytes.Repeat([]byte(" "), 1<<20-len(goodCall))...)
	if w := post(h, body, modernHeader); w.Code != http.StatusOK {
		t.Errorf("1 MiB: %d %s", w.Code, w.Body)
	}
	if w := post(h, append(body, ' '), modernHeader); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("one byte more: %d %s", w.Code, w.Body)
	}
}

func FuzzMessage(f *testing.F) {
	tool, _ := counter()
	h := newServer(f, tool).Handler(func(*http.Request) string { return "default" })
	f.Add([]byte(goodCall), true)
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`), false)
	f.Fuzz(func(t *testing.T, body []byte, modern bool) {
		header := modernHeader
		if !modern {
			header = nil
		}
		if w := post(h, body, header); w.Code == http.StatusInternalServerError {
			t.Errorf("%q: %s", body, w.Body)
		}
	})
}
