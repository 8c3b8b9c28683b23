package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/script"
	"github.com/toolyard/toolyard/yard"
)

var titles = map[string]string{
	"plain":    "plain net/http handler",
	"sdk":      "bare go-sdk server",
	"toolyard": "Toolyard",
	"proxy":    "httputil.ReverseProxy in front of it",
	"gateway":  "Toolyard in front of it",
}

// serveContender serves on a free loopback port and prints its address when it is ready.
func serveContender(name string, tools int, dir, server string) error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ready := func() { fmt.Println(l.Addr()) }
	switch name {
	case "plain":
		ready()
		return http.Serve(l, http.HandlerFunc(plain))
	case "model":
		return serveModel(l, ready, 0)
	case "slow-model":
		return serveModel(l, ready, 20*time.Millisecond)
	case "sessions":
		ready()
		return http.Serve(l, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return legacySDK() }, nil))
	case "sdk":
		h := bareSDK(tools)
		ready()
		return http.Serve(l, h)
	case "toolyard":
		return serveYard(l, ready, yard.Options{Tools: goTools(tools), Sources: map[string]toolyard.Source{"changing": changing{}}})
	case "listeners":
		return serveYard(l, ready, yard.Options{
			Tools: goTools(tools), Sources: map[string]toolyard.Source{"changing": changing{}},
			ConfigFile: filepath.Join(dir, listenersConfig), Identify: callerOf,
		})
	case "proxy":
		return serveProxy(l, ready, server)
	case "gateway":
		return serveGateway(l, ready, server)
	case "many":
		return serveMany(l, ready)
	case "gateway-many":
		return serveManyYard(l, ready, server)
	case "scripts":
		return serveYard(l, ready, yard.Options{Scripts: yard.Scripts{Dir: dir, Cache: script.DefaultCacheDir()}})
	}
	return fmt.Errorf("unknown contender %q", name)
}

// plain is a minimal handler: it decodes the body and writes the same bytes as Toolyard.
func plain(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var req struct {
		ID     json.RawMessage `json:"id"`
		Params struct {
			Name      string `json:"name"`
			Arguments struct {
				Text string `json:"text"`
			} `json:"arguments"`
		} `json:"params"`
	}
	if err != nil || json.Unmarshal(body, &req) != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	answer := `{"jsonrpc":"2.0","id":` + string(req.ID) + `,"result":{"resultType":"complete","content":[{"type":"text","text":` + strconv.Quote(req.Params.Arguments.Text) +
		`}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolyard","version":"bench"},"dev.toolyard/call":"06gxt3w1m18ffbp9h0rr5te5dc"}}}`
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = io.WriteString(w, answer)
}

type echoArgs struct {
	Text string `json:"text"`
}

// searchArgs are the arguments of a tool of realistic size.
type searchArgs struct {
	Query string   `json:"query" doc:"What to look for, in the words of the user" jsonschema:"What to look for, in the words of the user"`
	Limit int      `json:"limit,omitempty" doc:"How many results to return at most" jsonschema:"How many results to return at most"`
	Sort  string   `json:"sort,omitempty" doc:"How to order the results" jsonschema:"How to order the results"`
	Tags  []string `json:"tags,omitempty" doc:"Only results with all of these tags" jsonschema:"Only results with all of these tags"`
}

func searchTool(i int) (name, description string) {
	return fmt.Sprintf("search_collection_%05d", i),
		"Searches one collection of documents and returns the best matches, with a title, a link and a short excerpt of each."
}

// bareSDK returns the SDK's server with its fastest settings for this transport.
func bareSDK(tools int) http.Handler {
	s := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "bench"}, nil)
	addEcho(s)
	for i := range tools {
		name, description := searchTool(i)
		mcp.AddTool(s, &mcp.Tool{Name: name, Description: description}, func(_ context.Context, _ *mcp.CallToolRequest, in searchArgs) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Query}}}, nil, nil
		})
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
}

func addEcho(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in echoArgs) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
	})
}

// changing is a source whose only tool is replaced for each line on standard input.
type changing struct{}

// Run implements toolyard.Source.
func (changing) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	in := bufio.NewScanner(os.Stdin)
	for i := 0; ; i++ {
		publish(toolyard.Offer{Tools: []*toolyard.Tool{toolyard.Define(toolyard.Spec{Name: "changing", Description: fmt.Sprint("Version ", i), Effects: toolyard.ReadOnly},
			func(context.Context, *toolyard.Call, struct{}) (string, error) { return "", nil })}})
		if !in.Scan() {
			<-ctx.Done()
			return nil
		}
	}
}

func goTools(tools int) []*toolyard.Tool {
	list := []*toolyard.Tool{toolyard.Define(toolyard.Spec{Name: "echo", Effects: toolyard.ReadOnly},
		func(_ context.Context, _ *toolyard.Call, in echoArgs) (string, error) { return in.Text, nil })}
	for i := range tools {
		name, description := searchTool(i)
		list = append(list, toolyard.Define(toolyard.Spec{Name: name, Description: description, Effects: toolyard.ReadOnly},
			func(_ context.Context, _ *toolyard.Call, in searchArgs) (string, error) { return in.Query, nil }))
	}
	return list
}

// serveYard serves a complete yard: catalog, call path, metrics, and a log line for each call.
func serveYard(l net.Listener, ready func(), opts yard.Options) error {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	opts.Process.Version, opts.Log = "bench", slog.New(slog.NewJSONHandler(null, nil))
	y, err := yard.New(opts)
	if err != nil {
		return err
	}
	ctx := context.Background()
	go y.Run(ctx)
	<-y.Ready()
	ready()
	return y.Serve(ctx, l)
}
