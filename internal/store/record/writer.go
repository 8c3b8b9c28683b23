package record

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/store"
)

// Store stores calls and intents. Appending is idempotent.
type Store interface {
	AppendCalls(ctx context.Context, rows []*store.CallRow) error
	AppendIntents(ctx context.Context, intents []*ledger.Intent) error
}

// Options configures a Writer.
type Options struct {
	Arguments Arguments
	Intents   bool           // stores the intent of every write call before it runs
	Timeout   time.Duration  // maximum duration of a call
	OnDrop    func(rows int) // called when rows are lost; may be nil
	Log       *slog.Logger   // may be nil
}

const (
	batchRows  = 1_000                  // rows per batch
	batchWait  = 200 * time.Millisecond // longest time until an incomplete batch is written
	maxWaiting = 100_000                // maximum number of queued rows while the store is unavailable
	writeTime  = 10 * time.Second       // time limit for one batch
	endTime    = 5 * time.Second        // time limit for writing the queue at shutdown
	reportGap  = time.Minute            // minimum time between log lines about dropped rows

	firstPause = 100 * time.Millisecond // delay after a failed write; doubles each time
	maxPause   = 5 * time.Second
)

// Writer is a toolyard.Recorder that writes calls to a store while Run is running. It skips charged
// calls, which the store writes together with their charge.
type Writer struct {
	to       Store
	opts     Options
	intents  intents
	queue    *queue
	dropped  atomic.Uint64
	hand     []*store.CallRow // rows taken from the queue but not written yet; used only by Run
	reported uint64           // number of dropped rows that were logged; used only by Run
	reportAt time.Time
	refused  error // why the last rejected row was rejected
}

// New returns a Writer.
func New(to Store, opts Options) *Writer {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.OnDrop == nil {
		opts.OnDrop = func(int) {}
	}
	return &Writer{to: to, opts: opts, queue: newQueue(maxWaiting), intents: intents{store: to}}
}

// Outcome implements toolyard.Recorder. It does not wait for the store.
func (w *Writer) Outcome(_ context.Context, c *toolyard.Call, o toolyard.Outcome) {
	if charged(c) {
		return
	}
	row := Row(c, o, w.opts.Arguments)
	row.Intended = w.opts.Intents && needsIntent(c)
	if w.queue.push(row) {
		w.drop(1)
	}
}

// Dropped returns the number of rows that were lost because the store was unavailable for too long
// or rejected them.
func (w *Writer) Dropped() uint64 { return w.dropped.Load() }

func (w *Writer) drop(rows int) {
	w.dropped.Add(uint64(rows)) //nolint:gosec // a count
	w.opts.OnDrop(rows)
}

// Run writes rows until ctx ends, and then writes the rest of the queue for up to endTime.
func (w *Writer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-w.queue.some:
			w.gather(ctx)
			w.drain(ctx, batchRows)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	w.drain(last, 1)
	if left := w.queue.take(w.hand, maxWaiting); len(left) > 0 {
		w.drop(len(left))
	}
	w.hand = nil
	w.report(true)
}

// gather waits until a batch is complete or batchWait has passed.
func (w *Writer) gather(ctx context.Context) {
	select {
	case <-w.queue.full: // may be a token from an earlier batch
	default:
	}
	if w.queue.waiting() >= batchRows {
		return
	}
	timer := time.NewTimer(batchWait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-w.queue.full:
	}
}

// drain writes batches until fewer than least rows are queued. It retries while the store is
// unavailable. When ctx ends, rows that were not written remain in w.hand.
func (w *Writer) drain(ctx context.Context, least int) {
	pause := firstPause
	for {
		if w.hand = w.queue.take(w.hand, batchRows-len(w.hand)); len(w.hand) == 0 {
			return
		}
		done, err := w.write(ctx, w.hand)
		w.hand = slices.Delete(w.hand, 0, done)
		w.report(false)
		if err == nil {
			if pause = firstPause; w.queue.waiting() < least {
				return
			}
			continue
		}
		w.opts.Log.WarnContext(ctx, "cannot record calls; will retry", "error", err, "rows", len(w.hand), "again", pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			pause = min(2*pause, maxPause)
		}
	}
}

// write writes rows in order and returns the number of rows written or dropped. If the store
// rejects a batch, it splits the batch to drop only the rejected rows. An error means that the
// store is unavailable.
func (w *Writer) write(ctx context.Context, rows []*store.CallRow) (done int, err error) {
	within, cancel := context.WithTimeout(ctx, writeTime)
	err = w.to.AppendCalls(within, rows)
	ended := within.Err() != nil
	cancel()
	switch {
	case err == nil:
		return len(rows), nil
	case ended || errors.Is(err, store.ErrUnavailable):
		return 0, err
	case len(rows) == 1:
		w.refused = err
		w.drop(1)
		return 1, nil
	}
	half := len(rows) / 2
	if done, err = w.write(ctx, rows[:half]); err != nil {
		return done, err
	}
	done, err = w.write(ctx, rows[half:])
	return half + done, err
}

// report logs the number of rows dropped since the last report. It does so at most once per
// reportGap, unless last is set.
func (w *Writer) report(last bool) {
	dropped, now := w.dropped.Load(), time.Now()
	if dropped == w.reported || !last && now.Sub(w.reportAt) < reportGap {
		return
	}
	w.opts.Log.Error("calls were not recorded and are lost", "rows", dropped-w.reported, "refused", w.refused)
	w.reported, w.reportAt, w.refused = dropped, now, nil
}
