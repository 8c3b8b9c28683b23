package yard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/serve/console"
	"github.com/toolyard/toolyard/internal/trust/inbound"
)

// drain is how long calls in flight may go on after the end was asked for.
const drain = 20 * time.Second

// bodyTimeout is how long a client may take to send the body of a request.
const bodyTimeout = 10 * time.Second

// boundBodies gives every body a deadline, on every route, also where nobody reads it:
// the server reads what is left itself. Whoever has read it lifts the deadline.
func boundBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// Serve answers on the listener until ctx ends, then lets the calls in flight finish.
// Run must be running beside it; ctx should end before Run's does, so that calls in
// flight still have their sources.
func (y *Yard) Serve(ctx context.Context, l net.Listener) error {
	stop, err := y.serveMetrics(ctx)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer stop()
	s := newServer(y.handler)
	l = inbound.LimitConnections(l, y.config.Load().Limits.Connections, y.refusedConnection())
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	y.server.Close() // open streams would hold the shutdown up
	y.live.Close()
	left, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := s.Shutdown(left); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

// refusedConnection logs that connections are refused, at most once in a minute.
func (y *Yard) refusedConnection() func(address string) {
	var last atomic.Int64
	return func(address string) {
		now := y.opts.Now().Unix()
		if before := last.Load(); now-before >= 60 && last.CompareAndSwap(before, now) {
			y.log.Warn("a connection was refused: too many are open, see limits.connections", "address", address)
		}
	}
}

// newServer is a server with bounds on what a client may take its time for.
func newServer(h http.Handler) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           h,
		Protocols:         &protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 1000},
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      60 * time.Second, // MCP sets its own for each write
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
}

// serveMetrics serves the metrics at an address of their own, if they have one, until stop.
func (y *Yard) serveMetrics(ctx context.Context) (stop func(), err error) {
	c := y.config.Load()
	if c.Metrics.Listen == "" {
		return func() {}, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Metrics.Listen)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", y.metrics.Handler())
	s := newServer(bounded(c.Source, mux))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			y.log.Error("metrics are not served any more", "error", err)
		}
	}()
	return func() {
		_ = s.Close()
		<-ended
	}, nil
}

// bounded keeps the pages of strangers out, and bounds bodies.
func bounded(c *config.Source, next http.Handler) http.Handler {
	return boundBodies(inbound.RefuseCrossOrigin(next, texts(c.Origins), texts(c.Hosts), console.Prefix, "/"))
}
