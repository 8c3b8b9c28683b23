package yard_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // opens the store directly

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store/pgtest"
	"github.com/toolyard/toolyard/yard"
)

// saver returns a write tool that runs a function.
func saver(run func()) *toolyard.Tool {
	return toolyard.Define(toolyard.Spec{Name: "save", Description: "Saves something."}, func(context.Context, *toolyard.Call, struct{}) (string, error) {
		run()
		return "saved", nil
	})
}

func TestIntentOfAWriteIsStoredBeforeItRuns(t *testing.T) {
	address := pgtest.ForTest(t).Database(t)
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	stored := 0
	tool := saver(func() { err = db.QueryRow(`SELECT count(*) FROM intents`).Scan(&stored) })
	for writes, want := range map[string]int{"before": 1, "after": 0} {
		config := fmt.Sprintf("store: %q\nrecord: {writes: %s}\ngates: {all: {mode: write}}\n", address, writes)
		s := newTestAPI(t, config, yard.Options{Tools: []*toolyard.Tool{tool}})
		if status, answer := s.do(t, "none", "POST", "/api/v1/calls", `{"tool":"save"}`); status != http.StatusOK || err != nil || stored != want {
			t.Errorf("writes: %s: %d intents, %d %v %v", writes, stored, status, answer, err)
		}
		if _, err := db.Exec(`DELETE FROM intents`); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWriteDoesNotRunWithoutTheStore(t *testing.T) {
	cluster := pgtest.StartForTest(t)
	var ran atomic.Int64
	config := fmt.Sprintf("store: %q\nonStoreDown: local\ngates: {all: {mode: write}}\n", cluster.Database(t))
	s := newTestAPI(t, config, yard.Options{Tools: []*toolyard.Tool{saver(func() { ran.Add(1) })}})
	save := func() (int, map[string]any) { return s.do(t, "none", "POST", "/api/v1/calls", `{"tool":"save"}`) }
	if status, answer := save(); status != http.StatusOK || ran.Load() != 1 {
		t.Fatal(status, answer)
	}
	if err := cluster.Stop("fast"); err != nil {
		t.Fatal(err)
	}
	if status, answer := save(); status != http.StatusServiceUnavailable || !strings.Contains(fmt.Sprint(answer), string(toolyard.Unavailable)) || ran.Load() != 1 {
		t.Errorf("without the store: %d %v, the tool ran %d times", status, answer, ran.Load())
	}
	if status, answer := s.do(t, "none", "POST", "/api/v1/calls", `{"tool":"greet","args":{"name":"Ann"}}`); status != http.StatusOK {
		t.Errorf("a read without the store: %d %v", status, answer)
	}
	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	for ran.Load() == 1 && t.Context().Err() == nil {
		_, _ = save()
	}
}

// BenchmarkWrites measures write calls with a PostgreSQL store.
func BenchmarkWrites(b *testing.B) {
	for _, writes := range []string{"after", "before"} {
		for _, callers := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/%d", writes, callers), func(b *testing.B) {
				file := filepath.Join(b.TempDir(), "toolyard.yaml")
				config := fmt.Sprintf("store: %q\nrecord: {writes: %s}\ngates: {all: {mode: write}}\n", pgtest.ForTest(b).Database(b), writes)
				if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
					b.Fatal(err)
				}
				y, err := yard.New(yard.Options{Tools: []*toolyard.Tool{saver(func() {})}, ConfigFile: file})
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(b.Context())
				var run sync.WaitGroup
				run.Go(func() { y.Run(ctx) })
				<-y.Ready()
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				b.ResetTimer()
				for range callers {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/api/v1/calls", strings.NewReader(`{"tool":"save"}`))
							r.Header.Set("Content-Type", "application/json")
							w := httptest.NewRecorder()
							if y.Handler().ServeHTTP(w, r); w.Code != http.StatusOK {
								b.Error(w.Code, w.Body)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
				b.StopTimer()
				cancel()
				run.Wait()
			})
		}
	}
}
