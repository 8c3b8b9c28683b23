package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// fake is the server and its statistics.
type fake struct {
	name   string
	server *mcp.Server

	mu    sync.Mutex
	seen  counts
	alive int
	last  request
}

// counts is the result of the tool count.
type counts struct {
	Server   string `json:"server"`
	Calls    int    `json:"calls"`    // calls to tools other than count and last
	Reads    int    `json:"reads"`    // reads of resources
	Peak     int    `json:"peak"`     // maximum number of concurrent calls
	Canceled int    `json:"canceled"` // calls whose caller disconnected
}

// request is the result of the tool last.
type request struct {
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Meta      map[string]any  `json:"meta"`
	Headers   http.Header     `json:"headers"`
	Env       string          `json:"env"` // value of TEST_ENV
	PID       int             `json:"pid"`
}

func newFake(name string, versions []string) *fake {
	f := &fake{name: name}
	f.server = mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ServerOptions{
		SupportedProtocolVersions: versions, Capabilities: &mcp.ServerCapabilities{},
	})
	f.server.AddReceivingMiddleware(f.watch)
	f.addTools()
	f.addResources()
	f.addPrompts()
	return f
}

// watch counts requests. It also handles the tool odd, whose result the SDK cannot encode.
func (f *fake) watch(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == "resources/read" {
			f.count(func(c *counts) { c.Reads++ })
		}
		call, ok := req.(*mcp.CallToolRequest)
		if !ok || method != "tools/call" || slices.Contains([]string{"count", "last"}, call.Params.Name) {
			return next(ctx, method, req)
		}
		f.begin(call)
		defer f.end(ctx)
		if call.Params.Name == "odd" {
			return &rawResult{text: oddResult}, nil
		}
		return next(ctx, method, req)
	}
}

func (f *fake) count(change func(*counts)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.seen)
}

func (f *fake) begin(call *mcp.CallToolRequest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen.Calls++
	f.alive++
	f.seen.Peak = max(f.seen.Peak, f.alive)
	f.last = request{
		Server: f.name, Tool: call.Params.Name, Arguments: call.Params.Arguments, Meta: call.Params.Meta,
		Env: os.Getenv("TEST_ENV"), PID: os.Getpid(),
	}
	if call.Extra != nil {
		f.last.Headers = call.Extra.Header
	}
}

func (f *fake) end(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alive--
	if ctx.Err() != nil {
		f.seen.Canceled++
	}
}

// rawResult is a result that is sent unchanged.
type rawResult struct {
	mcp.ResultBase
	text string
}

// MarshalJSON implements [json.Marshaler].
func (r *rawResult) MarshalJSON() ([]byte, error) { return []byte(r.text), nil }

// oddResult has everything that a typed client would lose: unknown fields, integers that float64
// cannot represent, key order, the spelling of numbers and text, and an unknown content type.
const oddResult = `{"future":{"zeta":1,"alpha":[2]},"content":[{"type":"text","text":"<b>&amp;</b>","zone":9007199254740993},` +
	`{"type":"hologram","depth":18446744073709551617,"data":"%%","angle":1.10}],` +
	`"structuredContent":{"zeta":1,"alpha":9007199254740993,"price":1.10,"more":{"b":[1E+2,-0.0],"a":"<p>"}},` +
	`"_meta":{"com.example/count":9007199254740993},"resultType":"complete"}`
