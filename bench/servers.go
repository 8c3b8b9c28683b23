package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/upstream"
	"github.com/toolyard/toolyard/yard"
)

// The size of a yard with many servers.
const (
	manyServers  = 200
	toolsPerEach = 50
)

// serveMany serves many small MCP servers in one process, at /0, /1, …
func serveMany(l net.Listener, ready func()) error {
	var tools []string
	for i := range toolsPerEach {
		name, description := searchTool(i)
		tools = append(tools, fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"What to look for"},"limit":{"type":"integer","minimum":1,"maximum":100}},"required":["query"]}}`, name, description))
	}
	list := `{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[` + strings.Join(tools, ",") + `]}`
	results := map[string]string{
		"server/discover": `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`,
		"tools/list":      list,
		"tools/call":      `{"resultType":"complete","content":[{"type":"text","text":"found"}]}`,
	}
	ready()
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(body, &m)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, results[m.Method])
	}))
}

// serveManyYard serves a yard in front of all of these servers.
func serveManyYard(l net.Listener, ready func(), server string) error {
	sources := make(map[string]toolyard.Source)
	for i := range manyServers {
		id := fmt.Sprintf("s%d", i)
		s, err := upstream.New(upstream.Options{ID: id, URL: "http://" + server + "/" + strconv.Itoa(i)})
		if err != nil {
			return err
		}
		sources[id] = s
	}
	return serveYard(l, ready, yard.Options{Sources: sources})
}

// measureServers measures a yard with many servers.
func measureServers(ctx context.Context, turn time.Duration) error {
	many, err := start(ctx, "many", 0)
	if err != nil {
		return err
	}
	defer many.stop()
	gateway, err := startWith(ctx, "gateway-many", nil, "-serve", "gateway-many", "-upstream", many.addr)
	if err != nil {
		return err
	}
	defer gateway.stop()
	memory, err := gateway.memory()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("mcp_s%d__search_collection_00007", manyServers/2)
	body := strings.Replace(strings.Replace(callBody, `"name":"echo"`, `"name":"`+name+`"`, 1), `{"text":"hello world"}`, `{"query":"x"}`, 1)
	calls, err := gateway.load(request("tools/call", name, body), 24, turn) // one server's concurrency and queue
	if err != nil {
		return err
	}
	fmt.Printf("%d servers with %d tools behind one process\n\n", manyServers, manyServers*toolsPerEach)
	fmt.Printf("Ready in %v; %d MiB when idle; %v of CPU per call.\n\n", gateway.boot.Round(time.Millisecond), memory>>20, calls.cpu.Round(time.Microsecond))
	return nil
}
