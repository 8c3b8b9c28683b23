package yard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// drain is how long calls in flight may go on after the end was asked for.
const drain = 30 * time.Second

// Serve answers on the listener until ctx ends, then lets the calls in flight finish.
// Run must be running beside it; ctx should end before Run's does, so that calls in
// flight still have their sources.
func (y *Yard) Serve(ctx context.Context, l net.Listener) error {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{
		Handler:           y.handler,
		Protocols:         &protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 1000},
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	y.server.Close() // open streams would hold the shutdown up
	left, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := s.Shutdown(left); err != nil {
		return errors.Join(err, s.Close())
	}
	return nil
}
