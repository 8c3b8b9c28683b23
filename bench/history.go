package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard/internal/base/ident"

	mathrand "math/rand/v2"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

const (
	historySpan  = 30*24*time.Hour - time.Hour // age of the oldest call
	historyBatch = 5_000                       // calls per batch
)

// history contains the parts of the generated history that queries refer to.
type history struct {
	token    string // an operator's API key
	sessions []string
	calls    []string // IDs of some calls
	parents  []string // IDs of calls that made other calls
	bytes    int64    // size of the database, in bytes
}

// seed fills a new database.
func (t scenario) seed(ctx context.Context, address string) (*history, error) {
	s, err := store.Open(ctx, address+"&statement_timeout=60s") // large batches take a long time
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	p := &history{}
	if err := t.seedBooks(ctx, s, p); err != nil {
		return nil, err
	}
	db, err := sql.Open("pgx", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	if err := makeDays(ctx, db); err != nil {
		return nil, err
	}
	if err := t.seedCalls(ctx, s, p); err != nil {
		return nil, err
	}
	if err := s.Maintain(ctx, store.Retention{}); err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, "VACUUM ANALYZE"); err != nil { // autovacuum would do this eventually
		return nil, err
	}
	return p, db.QueryRowContext(ctx, "SELECT pg_database_size(current_database())").Scan(&p.bytes)
}

// makeDays creates partitions for past days, as the store would have done in advance.
func makeDays(ctx context.Context, db *sql.DB) error {
	for at := time.Now().UTC().Add(-historySpan).Truncate(24 * time.Hour); at.Before(time.Now()); at = at.Add(24 * time.Hour) {
		text := fmt.Sprintf(`CREATE TABLE IF NOT EXISTS calls_%s PARTITION OF calls FOR VALUES FROM ('%s') TO ('%s')`,
			at.Format("20060102"), at.Format(time.RFC3339), at.Add(24*time.Hour).Format(time.RFC3339))
		if _, err := db.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// seedBooks creates accounts, sessions, keys and audited changes.
func (t scenario) seedBooks(ctx context.Context, s *store.Store, p *history) error {
	for i := range t.accounts {
		if err := s.Fund(ctx, account(i), funds, "bench"); err != nil {
			return err
		}
		key, token, err := identity.New("bench", account(i), "", []string{identity.Operator, identity.Write}, 0, time.Now())
		if err == nil {
			p.token = token
			err = s.PutKey(ctx, key)
		}
		if err != nil {
			return err
		}
	}
	for i := range t.sessions {
		id := "sess_" + strings.ToLower(rand.Text())
		p.sessions = append(p.sessions, id)
		if _, err := s.OpenSession(ctx, ledger.Session{ID: id, Account: account(i % t.accounts), Limit: toolyard.USD, TTL: 24 * time.Hour}); err != nil {
			return err
		}
		if i%3 == 0 {
			if _, err := s.CloseSession(ctx, id); err != nil {
				return err
			}
		}
		at := time.Now().Add(-time.Duration(i) * time.Minute)
		change := &store.Change{ID: ident.NewCallID(at), At: at, Caller: account(i % t.accounts), Action: []string{"toolset.put", "server.approve", "key.create"}[i%3], Subject: serverName(i % t.servers), Status: http.StatusOK}
		if err := s.BeginChange(ctx, change); err != nil {
			return err
		}
	}
	return nil
}

// seedCalls writes the calls in batches, oldest first.
func (t scenario) seedCalls(ctx context.Context, s *store.Store, p *history) error {
	batches := make(chan []*store.CallRow)
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for batch := range batches {
				if err := s.AppendCalls(ctx, batch); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	next, apart := t.caller(p), historySpan/time.Duration(t.calls)
	for n := 0; n < t.calls && failed.Load() == nil; n += historyBatch {
		batch := make([]*store.CallRow, min(historyBatch, t.calls-n))
		for i := range batch {
			batch[i] = next(time.Now().Add(-apart * time.Duration(t.calls-n-i)))
		}
		batches <- batch
		if n*5/t.calls > (n-historyBatch)*5/t.calls {
			fmt.Printf("%d calls …\n", n)
		}
	}
	close(batches)
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// caller returns a function that generates calls. Some tools are much more popular than others,
// and callers call a tool several times in a row.
func (t scenario) caller(p *history) func(at time.Time) *store.CallRow {
	popular := mathrand.NewZipf(mathrand.New(mathrand.NewPCG(1, 2)), 1.1, 4, uint64(t.tools-1))
	n, left, who, tool, before := 0, 0, 0, "", ""
	return func(at time.Time) *store.CallRow {
		if left--; left < 0 {
			left, who, tool = mathrand.N(10), mathrand.N(t.accounts), toolName(int(popular.Uint64()))
		}
		r := &store.CallRow{
			ID: ident.NewCallID(at), At: at, Elapsed: time.Duration(mathrand.ExpFloat64() * float64(40*time.Millisecond)), Gate: "default", Mode: toolyard.Read,
			Caller: account(who), Account: account(who), Tool: tool, Generation: 1, Code: toolyard.OK, ArgsSize: 60, ResultSize: 900,
			Marks: []store.Mark{{Step: "record"}, {Step: "admit", At: 20 * time.Microsecond}, {Step: "run", At: 90 * time.Microsecond}, {Step: "ran", At: 10 * time.Millisecond}},
		}
		switch n++; n % 10 {
		case 0:
			r.Server = serverName(n / 10 % t.servers)
			r.Tool, _ = searchTool(mathrand.N(toolsPerEach))
		case 1, 2:
			r.Gate, r.Price, r.Session = "sdk", toolyard.USD/1000, p.sessions[mathrand.N(t.sessions/t.accounts)*t.accounts+who]
		case 4:
			r.Parent, p.parents = before, append(p.parents, before)
		}
		if n%20 == 13 {
			r.Code, r.Message = failures[n/20%len(failures)], "The upstream service failed."
		}
		if n%1000 == 0 {
			p.calls = append(p.calls, r.ID)
		}
		before = r.ID
		return r
	}
}

// failures are the codes of failed calls.
var failures = []toolyard.Code{toolyard.Failed, toolyard.Timeout, toolyard.Unavailable, toolyard.Invalid}
