package yard

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard"
)

// stubborn is a pack that ignores canceled contexts.
type stubborn struct {
	stop   chan struct{}
	closed atomic.Bool
}

func (s *stubborn) Run(_ context.Context, publish func(toolyard.Offer)) error {
	publish(toolyard.Offer{})
	<-s.stop
	return nil
}

func (s *stubborn) Close() error {
	s.closed.Store(true)
	<-s.stop
	return nil
}

func testHost() *packHost {
	opts := &Options{}
	_ = opts.complete() // the zero value is valid
	return newPackHost(opts, slog.New(slog.DiscardHandler), newMemoryJournal(), false)
}

func testPack(source toolyard.Source) *openPack {
	p := newOpenPack("test", slog.New(slog.DiscardHandler))
	p.source, p.settings, p.http = source, json.RawMessage("{}"), &http.Client{}
	return p
}

// A pack that takes too long to open is abandoned, and closed if it opens later.
func TestOpenOfAPackIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, opens := &stubborn{stop: make(chan struct{})}, make(chan struct{})
		start := time.Now()
		_, err := testHost().callOpen(testPack(nil), func(context.Context, PackSetup) (toolyard.Source, error) {
			<-opens
			return s, nil
		})
		if err == nil || !strings.Contains(err.Error(), "did not open within 30s") || time.Since(start) != packOpenTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		close(s.stop)
		close(opens)
		synctest.Wait()
		if !s.closed.Load() {
			t.Error("the late pack stays open")
		}
	})
}

func TestAStubbornPackDoesNotBlockTheYard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stubborn{stop: make(chan struct{})}
		p := testPack(s)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = p.run(ctx, func(toolyard.Offer) {}) }()
		synctest.Wait()
		cancel()
		if !p.acquire() {
			t.Fatal("the pack is closed")
		}
		start := time.Now()
		p.close(nil)
		if took, want := time.Since(start), packDrainTimeout+2*packStopTimeout; took != want || p.acquire() {
			t.Errorf("closed after %v, want %v", took, want)
		}
		close(s.stop)
	})
}

// A pack's tools stay listed until its successor publishes, and are withdrawn if it never does.
func TestSlotKeepsToolsUntilTheSuccessorPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		publishes := make(chan struct{})
		offerOf := func(name string, when <-chan struct{}) toolyard.Source {
			return sourceFunc(func(ctx context.Context, publish func(toolyard.Offer)) error {
				select {
				case <-when:
				case <-ctx.Done():
					return nil
				}
				publish(toolyard.Offer{Tools: []*toolyard.Tool{toolyard.Define(toolyard.Spec{Name: name}, func(context.Context, *toolyard.Call, struct{}) (string, error) { return name, nil })}})
				<-ctx.Done()
				publish(toolyard.Offer{}) // too late
				return nil
			})
		}
		now := make(chan struct{})
		close(now)
		var slot packSlot
		slot.use(testPack(offerOf("first", now)))
		var last atomic.Pointer[toolyard.Offer]
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- slot.Run(ctx, func(o toolyard.Offer) { last.Store(&o) }) }()
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			got := ""
			for _, tool := range last.Load().Tools {
				got += tool.Name
			}
			if got != want {
				t.Errorf("the slot offers %q, want %q", got, want)
			}
		}
		expect("first")
		slot.use(testPack(offerOf("second", publishes)))
		time.Sleep(packOfferTimeout - time.Second)
		expect("first")
		time.Sleep(2 * time.Second)
		expect("")
		close(publishes)
		expect("second")
		slot.use(testPack(sourceFunc(func(context.Context, func(toolyard.Offer)) error { return nil })))
		if err := <-ended; err == nil || err.Error() != "the pack returned without publishing an offer" {
			t.Error(err)
		}
		go func() { ended <- slot.Run(ctx, func(o toolyard.Offer) { last.Store(&o) }) }()
		<-ended
		slot.use(testPack(sourceFunc(func(context.Context, func(toolyard.Offer)) error { return errors.New("lost") })))
		go func() { ended <- slot.Run(ctx, func(o toolyard.Offer) { last.Store(&o) }) }()
		if err := <-ended; err == nil || err.Error() != "lost" {
			t.Error(err)
		}
		cancel()
	})
}

type sourceFunc func(context.Context, func(toolyard.Offer)) error

func (f sourceFunc) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	return f(ctx, publish)
}
