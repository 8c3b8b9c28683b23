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

// fake is the server and what it has seen.
type fake struct {
	name   string
	server *mcp.Server

	mu    sync.Mutex
	seen  counts
	alive int
	last  request
}

// counts are what the tool count returns.
type counts struct {
	Server   string `json:"server"`
	Calls    int    `json:"calls"`    // without those of count and last
	Reads    int    `json:"reads"`    // of resources
	Peak     int    `json:"peak"`     // most calls at once
	Canceled int    `json:"canceled"` // calls whose caller went away
}

// request is what the tool last returns.
type request struct {
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Meta      map[string]any  `json:"meta"`
	Headers   http.Header     `json:"headers"`
	Env       string          `json:"env"` // TEST_ENV
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

// watch counts what arrives, and answers odd, whose result the SDK could not carry.
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

// rawResult is a result that goes out as it is.
type rawResult struct {
	mcp.ResultBase
	text string
}

// MarshalJSON implements [json.Marshaler].
func (r *rawResult) MarshalJSON() ([]byte, error) { return []byte(r.text), nil }

// oddResult has what a typed client loses: fields of the future, integers that float64
// cannot hold, the order of keys, the spelling of numbers and text, and a kind of content
// that nobody knows.
const oddResult = `{"future":{"zeta":1,"alpha":[2]},"content":[{"type":"text","text":"<b>&amp;</b>","zone":9007199254740993},` +
	`{"type":"hologram","depth":18446744073709551617,"data":"%%","angle":1.10}],` +
	`"structuredContent":{"zeta":1,"alpha":9007199254740993,"price":1.10,"more":{"b":[1E+2,-0.0],"a":"<p>"}},` +
	`"_meta":{"com.example/count":9007199254740993},"resultType":"complete"}`
