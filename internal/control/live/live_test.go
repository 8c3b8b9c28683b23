package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/leaktest"
	"github.com/toolyard/toolyard/internal/store"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func row(c *toolyard.Call, o toolyard.Outcome) *store.CallRow {
	return &store.CallRow{ID: c.ID, Account: c.Caller.Account, Tool: c.Tool.Name, Code: o.Code()}
}

// call sends a call through the hub.
func call(h *Hub, id, account string, err error) {
	tool := &toolyard.Tool{Spec: toolyard.Spec{Name: "greet"}}
	handler := h.Policy()(func(context.Context, *toolyard.Call) (*toolyard.Result, error) {
		return &toolyard.Result{}, err
	})
	_, _ = handler(context.Background(), &toolyard.Call{ID: id, Tool: tool, Caller: toolyard.Caller{ID: "ann", Account: account}})
}

func everything(string, string, string, string, string) bool { return true }

func TestObserversReceiveMatchingCalls(t *testing.T) {
	h := New(Options{Row: row})
	call(h, "before", "acme", nil)
	call(h, "other", "umbrella", nil)
	w, last := h.Observe(func(account, _, _, _, _ string) bool { return account == "acme" })
	if len(last) != 1 || last[0].ID != "before" {
		t.Errorf("recent calls: %v", last)
	}
	call(h, "other2", "umbrella", nil)
	call(h, "a", "acme", errors.New("no"))
	if e := <-w.Events(); e.Start == nil || e.Start.ID != "a" {
		t.Errorf("%+v", e)
	}
	if e := <-w.Events(); e.Call == nil || e.Call.ID != "a" || e.Call.Code != toolyard.Failed {
		t.Errorf("%+v", e)
	}
	w.Close()
	call(h, "b", "acme", nil)
	select {
	case e := <-w.Events():
		t.Errorf("event after Close: %+v", e)
	default:
	}
	if c, ok := h.Find("b"); !ok || c.ID != "b" {
		t.Error("a recent call is missing")
	}
}

// A slow observer receives the number of lost events and does not block calls.
func TestSlowObserversLoseEvents(t *testing.T) {
	h := New(Options{Row: row})
	w, _ := h.Observe(everything)
	defer w.Close()
	const n = 2000
	for i := range n {
		call(h, fmt.Sprint(i), "acme", nil)
	}
	for range maxQueued {
		<-w.Events()
	}
	call(h, "last", "acme", nil)
	if e := <-w.Events(); e.Lost != 2*n-maxQueued {
		t.Errorf("%+v", e)
	}
	if e := <-w.Events(); e.Start == nil || e.Start.ID != "last" {
		t.Errorf("%+v", e)
	}
}

func TestRecentCallsAreBounded(t *testing.T) {
	h := New(Options{Row: row})
	for i := range 3 * maxRecent {
		call(h, fmt.Sprint(i), "acme", nil)
	}
	list := h.recentCalls()
	if len(list) != maxRecent || len(h.byID) != maxRecent || list[0].ID != fmt.Sprint(2*maxRecent) {
		t.Errorf("%d recent calls, %d by id, from %s", len(list), len(h.byID), list[0].ID)
	}
	if _, ok := h.Find("0"); ok {
		t.Error("the oldest call is still there")
	}
}

// Other replicas' calls are published once, while there is an observer.
func TestCallsOfOtherReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var polls atomic.Int64
		h := New(Options{Row: row, Others: func(context.Context, time.Time) ([]*store.CallRow, error) {
			if polls.Add(1)%3 == 0 {
				return nil, errors.New("store is down")
			}
			return []*store.CallRow{{ID: "there"}, {ID: "here"}}, nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); h.Run(ctx) }()
		time.Sleep(time.Minute)
		if polls.Load() != 0 {
			t.Error("polled without an observer")
		}
		call(h, "here", "acme", nil)
		w, _ := h.Observe(everything)
		time.Sleep(10 * time.Second)
		if e := <-w.Events(); e.Call == nil || e.Call.ID != "there" {
			t.Errorf("%+v", e)
		}
		if len(w.Events()) != 0 {
			t.Error("published twice")
		}
		w.Close()
		call(h, "unseen", "acme", nil)
		if len(h.seen) != 0 {
			t.Errorf("entries without an observer: %v", h.seen)
		}
		time.Sleep(time.Minute)
		before := polls.Load()
		if time.Sleep(time.Minute); polls.Load() != before {
			t.Error("polled after the last observer left")
		}
		cancel()
		<-ended
	})
}

// A new observer on a busy yard receives no call twice, and recent calls keep their results.
func TestNewObserverOnABusyYard(t *testing.T) {
	now, rows := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC), []*store.CallRow(nil)
	h := New(Options{
		Now: func() time.Time { return now },
		Row: func(c *toolyard.Call, _ toolyard.Outcome) *store.CallRow {
			rows = append(rows, &store.CallRow{ID: c.ID, At: now})
			return rows[len(rows)-1]
		},
		Result: func(*toolyard.Result) json.RawMessage { return json.RawMessage(`{}`) },
		Others: func(_ context.Context, since time.Time) (list []*store.CallRow, err error) {
			for _, r := range slices.Backward(rows) {
				if !r.At.Before(since) {
					list = append(list, &store.CallRow{ID: r.ID, At: r.At})
				}
			}
			return list, nil
		},
	})
	for i := range maxRecent + 200 {
		now = now.Add(time.Millisecond)
		call(h, fmt.Sprint(i), "acme", nil)
	}
	now = now.Add(time.Millisecond)
	w, last := h.Observe(everything)
	h.poll(t.Context())
	if c, _ := h.Find(last[0].ID); len(w.Events()) > 0 || c == nil || c.Result == nil {
		t.Errorf("%d calls were published again; the recent call is %+v", len(w.Events()), c)
	}
}

// Another replica's call is published even if a poll failed in between.
func TestCallsAreNotLostByAFailedPoll(t *testing.T) {
	start := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	now, busy := start, false
	h := New(Options{Now: func() time.Time { return now }, Others: func(_ context.Context, since time.Time) ([]*store.CallRow, error) {
		row := &store.CallRow{ID: "x", At: start.Add(21 * time.Second)}
		switch {
		case busy:
			return nil, errors.New("no connection is free")
		case row.At.Before(since) || now.Before(row.At):
			return nil, nil
		}
		return []*store.CallRow{row}, nil
	}})
	w, _ := h.Observe(everything)
	for _, at := range []time.Duration{20, 30, 40} {
		now, busy = start.Add(at*time.Second), at == 30
		h.poll(t.Context())
	}
	if len(w.Events()) != 1 {
		t.Errorf("published %d times", len(w.Events()))
	}
}
