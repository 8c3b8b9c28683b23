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

	"go.uber.org/goleak"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func TestWatchersAreToldOfWhatTheyWant(t *testing.T) {
	h := New(Options{Row: row})
	call(h, "before", "acme", nil)
	call(h, "other", "umbrella", nil)
	w, last := h.Watch(func(account, _, _, _, _ string) bool { return account == "acme" })
	if len(last) != 1 || last[0].ID != "before" {
		t.Errorf("before it: %v", last)
	}
	call(h, "other2", "umbrella", nil)
	call(h, "a", "acme", errors.New("no"))
	if e := <-w.Events(); e.Begun == nil || e.Begun.ID != "a" {
		t.Errorf("%+v", e)
	}
	if e := <-w.Events(); e.Call == nil || e.Call.ID != "a" || e.Call.Code != toolyard.Failed {
		t.Errorf("%+v", e)
	}
	w.Close()
	call(h, "b", "acme", nil)
	select {
	case e := <-w.Events():
		t.Errorf("after the end: %+v", e)
	default:
	}
	if c, ok := h.Find("b"); !ok || c.ID != "b" {
		t.Error("it is forgotten")
	}
}

// Who does not keep up hears how much was lost, and holds nobody up.
func TestSlowWatchers(t *testing.T) {
	h := New(Options{Row: row})
	w, _ := h.Watch(everything)
	defer w.Close()
	const n = 2000
	for i := range n {
		call(h, fmt.Sprint(i), "acme", nil)
	}
	for range waiting {
		<-w.Events()
	}
	call(h, "last", "acme", nil)
	if e := <-w.Events(); e.Lost != 2*n-waiting {
		t.Errorf("%+v", e)
	}
	if e := <-w.Events(); e.Begun == nil || e.Begun.ID != "last" {
		t.Errorf("%+v", e)
	}
}

func TestOnlySoManyAreRemembered(t *testing.T) {
	h := New(Options{Row: row})
	for i := range 3 * remembered {
		call(h, fmt.Sprint(i), "acme", nil)
	}
	list := h.lastCalls()
	if len(list) != remembered || len(h.byID) != remembered || list[0].ID != fmt.Sprint(2*remembered) {
		t.Errorf("%d are remembered, %d by id, from %s", len(list), len(h.byID), list[0].ID)
	}
	if _, ok := h.Find("0"); ok {
		t.Error("the first is remembered")
	}
}

// Calls of other replicas are told once, while somebody watches.
func TestOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		h := New(Options{Row: row, Others: func(context.Context, time.Time) ([]*store.CallRow, error) {
			if asked.Add(1)%3 == 0 {
				return nil, errors.New("away")
			}
			return []*store.CallRow{{ID: "there"}, {ID: "here"}}, nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); h.Run(ctx) }()
		time.Sleep(time.Minute)
		if asked.Load() != 0 {
			t.Error("it asks although nobody watches")
		}
		call(h, "here", "acme", nil)
		w, _ := h.Watch(everything)
		time.Sleep(10 * time.Second)
		if e := <-w.Events(); e.Call == nil || e.Call.ID != "there" {
			t.Errorf("%+v", e)
		}
		if len(w.Events()) != 0 {
			t.Error("it was told twice")
		}
		w.Close()
		call(h, "unseen", "acme", nil)
		if len(h.told) != 0 {
			t.Errorf("it keeps for nobody what was told: %v", h.told)
		}
		time.Sleep(time.Minute)
		before := asked.Load()
		if time.Sleep(time.Minute); asked.Load() != before {
			t.Error("it goes on asking")
		}
		cancel()
		<-ended
	})
}

// Whoever begins to watch on a busy day is told nothing twice, and what is remembered stays.
func TestOpeningOnABusyDay(t *testing.T) {
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
	for i := range remembered + 200 {
		now = now.Add(time.Millisecond)
		call(h, fmt.Sprint(i), "acme", nil)
	}
	now = now.Add(time.Millisecond)
	w, last := h.Watch(everything)
	h.look(t.Context())
	if c, _ := h.Find(last[0].ID); len(w.Events()) > 0 || c == nil || c.Result == nil {
		t.Errorf("%d calls are told that were before, and of those that are remembered there is %+v", len(w.Events()), c)
	}
}

// A call of another replica is told also when the store did not answer for a while.
func TestLateCalls(t *testing.T) {
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
	w, _ := h.Watch(everything)
	for _, at := range []time.Duration{20, 30, 40} {
		now, busy = start.Add(at*time.Second), at == 30
		h.look(t.Context())
	}
	if len(w.Events()) != 1 {
		t.Errorf("it was told %d times", len(w.Events()))
	}
}
