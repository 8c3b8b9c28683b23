// Command fakemcp is the MCP server that the acceptance tests put behind Toolyard. It is a
// correct server of either era, written with the official SDK, with tools that show what
// reached it and tools that fail in known ways.
//
// It speaks stdio, or with -http streamable HTTP at /mcp and HTTP+SSE at /sse. A POST to
// /forget makes it forget all sessions.
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

func main() {
	address := flag.String("http", "", "serve HTTP at this address, not stdio")
	era := flag.String("era", "both", "legacy, modern or both")
	name := flag.String("name", "fakemcp", "what the tools last and count call this server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *era, *name); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "fakemcp:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, era, name string) error {
	versions, ok := map[string][]string{
		"legacy": {legacyVersion, "2025-06-18", "2025-03-26", "2024-11-05"},
		"modern": {modernVersion},
		"both":   nil,
	}[era]
	if !ok {
		return fmt.Errorf("-era %s: it is legacy, modern or both", era)
	}
	server := newFake(name, versions).server
	if address == "" {
		return server.Run(ctx, &mcp.StdioTransport{})
	}
	return serveHTTP(ctx, address, handler(server, era))
}

func serveHTTP(ctx context.Context, address string, h http.Handler) error {
	s := &http.Server{Addr: address, Handler: h, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler serves each era in its own way at one address: the modern one without sessions,
// the older ones with them.
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
