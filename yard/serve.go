package yard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/serve/console"
	"github.com/toolyard/toolyard/internal/trust/inbound"
	"github.com/toolyard/toolyard/internal/trust/serverauth"
)

// drainTimeout limits how long calls in flight may continue during shutdown.
const drainTimeout = 20 * time.Second

// bodyTimeout limits how long a client may take to send a request body.
const bodyTimeout = 10 * time.Second

// limitBodies sets a deadline for reading each request's body, even if the handler ignores the
// body, because net/http then reads the rest. Handlers that have read the body reset the deadline.
func limitBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// Serve serves HTTP on the listener until ctx ends, then waits for calls in flight. Run must be
// running; end ctx before Run's context, so that calls in flight can finish.
func (y *Yard) Serve(ctx context.Context, l net.Listener) error {
	stop, err := y.serveMetrics(ctx)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer stop()
	s := newServer(y.handler, y.log)
	serve := s.Serve
	if y.Scheme() == "https" {
		follow, err := y.tls.start(y.publisher, &y.opts)
		if err != nil {
			return errors.Join(err, l.Close())
		}
		defer follow()
		s.TLSConfig = y.tls.certificate.Load().Config()
		serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
	}
	l = inbound.LimitConnections(l, y.current.Load().Limits.Connections, logRefusedConnections(y.log, y.opts.Process.Now))
	failed := make(chan error, 1)
	go func() { failed <- serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	y.server.Close() // open streams would delay the shutdown
	y.live.Close()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := s.Shutdown(drain); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}

// logRefusedConnections logs refused connections, at most once a minute.
func logRefusedConnections(log *slog.Logger, now func() time.Time) func(address string) {
	var last atomic.Int64
	return func(address string) {
		at := now().Unix()
		if before := last.Load(); at-before >= 60 && last.CompareAndSwap(before, at) {
			log.Warn("connection refused: the limit limits.connections was reached", "address", address)
		}
	}
}

// newServer returns a server with timeouts against slow clients.
func newServer(h http.Handler, log *slog.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true) // used over TLS
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           h,
		ErrorLog:          slog.NewLogLogger(quietHandshakes{log.Handler()}, slog.LevelWarn),
		Protocols:         &protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 1000},
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      60 * time.Second, // the MCP server sets its own deadline for each write
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
}

// serveMetrics serves metrics at metrics.listen, if set, until stop is called.
func (y *Yard) serveMetrics(ctx context.Context) (stop func(), err error) {
	c := y.current.Load()
	if c.Metrics.Listen == "" {
		return func() {}, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Metrics.Listen)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", y.metrics.Handler())
	s := newServer(protect(c.Source, mux), y.log)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			y.log.Error("metrics server failed", "error", err)
		}
	}()
	return func() {
		_ = s.Close()
		<-ended
	}, nil
}

// protect rejects cross-origin browser requests and sets deadlines for bodies.
func protect(c *config.Source, next http.Handler) http.Handler {
	return limitBodies(inbound.RefuseCrossOrigin(next, stringsOf(c.Origins), stringsOf(c.Hosts), console.Prefix, "/", serverauth.CallbackPath))
}
