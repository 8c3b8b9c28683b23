// Command fakemcp is the MCP server behind Toolyard in the acceptance tests. It is a correct server
// of either era, written with the official SDK. Some of its tools report what the server received;
// others fail in known ways.
//
// It serves stdio or, with -http, streamable HTTP at /mcp and HTTP+SSE at /sse. A POST to /forget
// makes it forget all sessions.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	modernVersion = "2026-07-28"
	legacyVersion = "2025-11-25"
)

// options are the command-line flags.
type options struct{ address, era, name, tools, notes string }

func main() {
	var o options
	flag.StringVar(&o.address, "http", "", "serve HTTP at this address, not stdio")
	flag.StringVar(&o.era, "era", "both", "legacy, modern or both")
	flag.StringVar(&o.name, "name", "fakemcp", "what the tools last and count call this server")
	flag.StringVar(&o.tools, "tools", "", "a file that declares more tools, as MCP writes them")
	flag.StringVar(&o.notes, "notes", "", "a file in which their calls are noted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "fakemcp:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	versions, ok := map[string][]string{
		"legacy": {legacyVersion, "2025-06-18", "2025-03-26", "2024-11-05"},
		"modern": {modernVersion},
		"both":   nil,
	}[o.era]
	if !ok {
		return fmt.Errorf("-era %s: it is legacy, modern or both", o.era)
	}
	f := newFake(o.name, versions)
	if o.tools != "" {
		if err := f.declare(o.tools, o.notes); err != nil {
			return err
		}
	}
	if o.address == "" {
		return f.server.Run(ctx, &mcp.StdioTransport{})
	}
	return serveHTTP(ctx, o.address, handler(f.server, o.era))
}

func serveHTTP(ctx context.Context, address string, h http.Handler) error {
	s := &http.Server{Addr: address, Handler: h, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler serves both eras at one URL: the modern era, which has no sessions, and the legacy era,
// which does.
func handler(server *mcp.Server, era string) http.Handler {
	get := func(*http.Request) *mcp.Server { return server }
	modern := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	var legacy atomic.Pointer[mcp.StreamableHTTPHandler]
	forget := func() { legacy.Store(mcp.NewStreamableHTTPHandler(get, nil)) }
	forget()

	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if era == "modern" || era == "both" && r.Header.Get("Mcp-Protocol-Version") == modernVersion {
			modern.ServeHTTP(w, r)
			return
		}
		legacy.Load().ServeHTTP(w, r)
	})
	mux.Handle("/sse", mcp.NewSSEHandler(get, nil))
	mux.HandleFunc("POST /forget", func(http.ResponseWriter, *http.Request) { forget() })
	return mux
}
