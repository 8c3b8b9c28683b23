package yard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
)

// Time limits for packs. A pack that exceeds one is abandoned, because it must not block the yard.
const (
	packOpenTimeout  = 30 * time.Second
	packStopTimeout  = 10 * time.Second // for Run to return and for Close
	packOfferTimeout = 10 * time.Second // for a new instance to publish its tools
	packDrainTimeout = time.Minute      // for calls in flight
	packGrace        = time.Second      // between the last publication of a tool and closing its pack
)

// openPack is an instance of a pack, opened with certain settings.
type openPack struct {
	name     string
	source   toolyard.Source
	actions  []*toolyard.Tool // operator actions, sorted by name
	settings json.RawMessage  // includes secrets
	private  []config.Network // private networks that its HTTP client may reach
	http     *http.Client     //nolint:forbidigo // made by internal/trust/outbound
	log      *slog.Logger
	origin   *packOrigin

	offered  chan struct{} // closed once the pack has published its tools
	offering sync.Once

	mu      sync.Mutex
	calls   int // number of calls in flight
	running int // number of running Run calls
	closed  bool
	changed chan struct{} // closed and replaced when calls or running drops to zero
}

func newOpenPack(name string, log *slog.Logger) *openPack {
	return &openPack{name: name, log: log, origin: newPackOrigin(name), offered: make(chan struct{}), changed: make(chan struct{})}
}

// acquire keeps the pack open during a call. It returns false if the pack is closed.
func (p *openPack) acquire() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.calls++
	}
	return !p.closed
}

func (p *openPack) release() { p.decrease(&p.calls) }

func (p *openPack) decrease(counter *int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *counter--; *counter == 0 {
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// run runs the source. It returns an error if the source panics.
func (p *openPack) run(ctx context.Context, publish func(toolyard.Offer)) (err error) {
	p.mu.Lock()
	p.running++
	p.mu.Unlock()
	defer p.decrease(&p.running)
	defer recoverPack(p.log, &err)
	return p.source.Run(ctx, func(offer toolyard.Offer) {
		publish(p.origin.sign(offer))
		p.offering.Do(func() { close(p.offered) })
	})
}

// recoverPack turns a pack's panic into an error.
func recoverPack(log *slog.Logger, err *error) {
	if v := recover(); v != nil {
		log.Error("pack panicked", "panic", v, "stack", string(debug.Stack()))
		*err = fmt.Errorf("panic: %v", v)
	}
}

// close refuses further calls, waits for those in flight, and closes the source. It waits until the
// time limits expire or hurry is closed.
func (p *openPack) close(hurry <-chan struct{}) {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	if !p.await(&p.calls, packDrainTimeout, hurry) {
		p.log.Warn("closing a pack while a call is still running")
	}
	if !p.await(&p.running, packStopTimeout, nil) {
		p.log.Error("pack did not stop: its Run method ignores context cancellation")
	}
	closed := make(chan error, 1)
	go func() { closed <- closeSource(p.source, p.log) }()
	select {
	case err := <-closed:
		if err != nil {
			p.log.Warn("could not close pack", "error", err)
		}
	case <-time.After(packStopTimeout):
		p.log.Error("pack did not close in time")
	}
	p.http.CloseIdleConnections()
}

func closeSource(s toolyard.Source, log *slog.Logger) (err error) {
	defer recoverPack(log, &err)
	if c, ok := s.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// await waits until a counter is zero.
func (p *openPack) await(counter *int, limit time.Duration, hurry <-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		p.mu.Lock()
		zero, changed := *counter == 0, p.changed
		p.mu.Unlock()
		if zero {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-hurry:
			return false
		}
	}
}

// packSlot is the source of a pack in the catalog. It outlives the pack's instances: an instance's
// tools stay listed until the next instance has published its own, so that no call fails because of
// a reload.
type packSlot struct {
	mu       sync.Mutex
	current  *openPack
	replaced chan struct{} // closed when current is replaced
}

// use replaces the instance.
func (s *packSlot) use(p *openPack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == p {
		return
	}
	if s.current != nil {
		close(s.replaced)
	}
	s.current, s.replaced = p, make(chan struct{})
}

func (s *packSlot) now() (p *openPack, replaced <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, s.replaced
}

// Run implements [toolyard.Source].
func (s *packSlot) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	for {
		p, replaced := s.now()
		err := s.runOne(ctx, p, replaced, publish)
		if _, latest := s.now(); latest == replaced || ctx.Err() != nil {
			return err
		}
	}
}

// runOne runs an instance until it fails or is replaced.
func (s *packSlot) runOne(ctx context.Context, p *openPack, replaced <-chan struct{}, publish func(toolyard.Offer)) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	withdraw := time.AfterFunc(packOfferTimeout, func() { // withdraws the predecessor's tools
		select {
		case <-p.offered:
		default:
			publish(toolyard.Offer{})
		}
	})
	defer withdraw.Stop()
	ended := make(chan error, 1)
	go func() {
		ended <- p.run(running, func(offer toolyard.Offer) {
			if running.Err() == nil {
				publish(offer)
			}
		})
	}()
	select {
	case err := <-ended:
		if err != nil {
			return err
		}
		select {
		case <-p.offered: // the tools no longer change
		default:
			return errors.New("the pack returned without publishing an offer")
		}
		select {
		case <-replaced:
		case <-ctx.Done():
		}
	case <-replaced:
		stop()
		waitEnd(ended)
	case <-ctx.Done():
		waitEnd(ended)
	}
	return nil
}

func waitEnd(ended <-chan error) {
	select {
	case <-ended:
	case <-time.After(packStopTimeout):
	}
}
