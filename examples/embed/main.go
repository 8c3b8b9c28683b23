// Command embed serves a tool from its own web server.
package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/yard"
)

var now = toolyard.Define(toolyard.Spec{Name: "now", Description: "Returns the current time.", Effects: toolyard.ReadOnly},
	func(_ context.Context, call *toolyard.Call, _ struct{}) (string, error) {
		return call.AsOf.Format(time.Kitchen), nil
	})

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	y, err := yard.New(yard.Options{Tools: []*toolyard.Tool{now}, Log: log})
	if err != nil {
		log.Error("cannot create the yard", "error", err)
		os.Exit(1)
	}
	go y.Run(context.Background())
	http.Handle("/", y.Handler()) // serves /mcp, /api, /healthz and /metrics
	server := &http.Server{Addr: "127.0.0.1:8080", ReadHeaderTimeout: time.Second}
	log.Error("server stopped", "error", server.ListenAndServe())
}
