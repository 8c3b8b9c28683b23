package admission_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/admission/admissiontest"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/base/leaktest"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/pgtest"
)

func TestMain(m *testing.M) {
	leaktest.Main(m, goleak.IgnoreAnyFunction("github.com/toolyard/toolyard/internal/store/pgtest.(*Cluster).wait"))
}

// stores runs a test with each kind of store.
func stores(t *testing.T, test func(t *testing.T, address func(*testing.T) string)) {
	t.Run("memory", func(t *testing.T) { test(t, func(*testing.T) string { return "memory" }) })
	t.Run("sqlite", func(t *testing.T) {
		test(t, func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "toolyard.db") })
	})
	t.Run("postgres", func(t *testing.T) {
		c := pgtest.ForTest(t)
		test(t, func(t *testing.T) string {
			return c.Copy(t, func(url string) error {
				s, err := store.Open(context.Background(), url)
				if err != nil {
					return err
				}
				return s.Close()
			})
		})
	})
}

func open(t *testing.T, address string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// start runs a controller until the test ends.
func start(t *testing.T, s admission.Store, name string) *admission.Controller {
	d := admission.New(s, options(name))
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { d.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return d
}

func options(name string) admission.Options {
	return admission.Options{
		Replica: name, Log: slog.New(slog.DiscardHandler),
		Row: func(c *toolyard.Call, o toolyard.Outcome) *ledger.CallRow {
			return &ledger.CallRow{ID: c.ID, Code: o.Code(), Price: c.Receipt.Price}
		},
	}
}

// replicas opens controllers. If the store is local to the process, they share it; otherwise, each
// opens its own.
func replicas(address func(*testing.T) string) admissiontest.Replicas {
	return func(t *testing.T, n int) (list []admission.Admitter, l ledger.Ledger) {
		at := address(t)
		s := open(t, at)
		for i := range n {
			if i > 0 && at != "memory" {
				s = open(t, at)
			}
			list = append(list, start(t, s, fmt.Sprint("replica-", i)))
		}
		return list, s
	}
}

func TestAdmit(t *testing.T) {
	stores(t, func(t *testing.T, address func(*testing.T) string) {
		admissiontest.TestAdmit(t, replicas(address))
	})
}

func TestLedger(t *testing.T) {
	stores(t, func(t *testing.T, address func(*testing.T) string) {
		admissiontest.TestLedger(t, func(t *testing.T) ledger.Ledger { return open(t, address(t)) })
	})
}
