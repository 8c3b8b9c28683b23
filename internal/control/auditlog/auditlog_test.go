package auditlog_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard/internal/control/auditlog"
	"github.com/toolyard/toolyard/internal/store"
)

// write exports changes in a format and returns the output and the number of changes.
func write(t *testing.T, from auditlog.Source, format string, o auditlog.Options) (string, int) {
	t.Helper()
	var b bytes.Buffer
	sink, err := auditlog.NewWriter(&b, format)
	if err != nil {
		t.Fatal(err)
	}
	n, err := auditlog.Export(t.Context(), from, o, sink)
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), n
}

func TestExport(t *testing.T) {
	s, err := store.Open(t.Context(), "memory")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	start := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	const total = 250
	for i := range total {
		c := &store.Change{ID: fmt.Sprintf("c%03d", i), At: start.Add(time.Duration(i/3) * time.Second), Caller: "=HYPERLINK(\"http://x\")", Action: "key.create", Subject: "a,b\n\"c\"", Detail: []byte(`{"i":1}`), Status: 200}
		if err := s.BeginChange(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	text, n := write(t, s, auditlog.JSONL, auditlog.Options{})
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if n != total || len(lines) != total {
		t.Fatal(n, len(lines))
	}
	for i, line := range lines {
		var c store.Change
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.ID != fmt.Sprintf("c%03d", i) || string(c.Detail) != `{"i":1}` {
			t.Fatalf("line %d: %s %v", i, line, err)
		}
	}
	text, n = write(t, s, auditlog.CSV, auditlog.Options{Since: start.Add(time.Second), Until: start.Add(3 * time.Second)})
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || n != 6 || len(rows) != 7 {
		t.Fatal(n, rows, err)
	}
	if row := rows[1]; row[0] != "c003" || row[2] != "'=HYPERLINK(\"http://x\")" || row[5] != "a,b\n\"c\"" || row[6] != "200" {
		t.Errorf("%q", row)
	}
}

// entries is an in-memory audit log, sorted by time.
type entries []*store.Change

func (e *entries) Changes(_ context.Context, q store.ChangeQuery) (page []*store.Change, err error) {
	for _, c := range *e {
		after := c.At.After(q.Before.At) || c.At.Equal(q.Before.At) && c.ID > q.Before.ID
		if after && !c.At.Before(q.Since) && (q.Until.IsZero() || c.At.Before(q.Until)) && len(page) < q.Limit {
			page = append(page, c)
		}
	}
	return page, nil
}

func (e *entries) add(at time.Time, status int) *store.Change {
	c := &store.Change{ID: fmt.Sprintf("c%04d", len(*e)), At: at, Status: status}
	*e = append(*e, c)
	return c
}

// A change is exported once its outcome is known or its replica was killed, and never before older
// changes.
func TestExportSettled(t *testing.T) {
	var log entries
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	for range 230 {
		log.add(now.Add(-time.Hour), 200)
	}
	log.add(now.Add(-10*time.Minute), 0) // its replica was killed
	running := log.add(now.Add(-time.Minute), 0)
	log.add(now.Add(-30*time.Second), 200)
	log.add(now.Add(-9*time.Second), 200) // another replica may still store an older change

	var got []string
	var o auditlog.Options
	sink := func(_ context.Context, page []*store.Change) error {
		for _, c := range page {
			got = append(got, c.ID)
		}
		return nil
	}
	export := func(want int) {
		t.Helper()
		n, err := auditlog.ExportSettled(t.Context(), &log, &o, now, sink)
		if err != nil || n != want {
			t.Errorf("exported %d changes, want %d: %v", n, want, err)
		}
	}
	export(231)
	export(0)
	running.Status = 403
	export(2)
	now = now.Add(5 * time.Second)
	export(1)
	for i, id := range got {
		if id != log[i].ID {
			t.Fatalf("change %d is %s, want %s", i, id, log[i].ID)
		}
	}

	log.add(now.Add(-time.Hour), 200) // older than the position
	log.add(now, 200)
	now = now.Add(time.Minute)
	failed := errors.New("disk full")
	if _, err := auditlog.ExportSettled(t.Context(), &log, &o, now, func(context.Context, []*store.Change) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	export(1) // the failed export did not advance the position
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		log := entries{}
		log.add(time.Now().Add(-time.Hour), 200)
		log.add(time.Now(), 200)
		var got []time.Duration
		start, done := time.Now(), make(chan error)
		go func() {
			done <- auditlog.Follow(ctx, &log, &auditlog.Options{}, time.Now, func(_ context.Context, page []*store.Change) error {
				for range page {
					got = append(got, time.Since(start))
				}
				return nil
			})
		}()
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if want := []time.Duration{0, 11 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("exported after %v, want %v", got, want)
		}
	})
}
