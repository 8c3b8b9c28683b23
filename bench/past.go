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
	townSpan  = 30*24*time.Hour - time.Hour // how far back calls go
	townBatch = 5_000                       // calls that are written at once
)

// past has the generated history, as far as queries refer to it.
type past struct {
	token    string // of an operator
	sessions []string
	calls    []string // ids of some calls
	parents  []string // those that made others
	bytes    int64    // that the database takes
}

// seed fills a new database.
func (t town) seed(ctx context.Context, address string) (*past, error) {
	s, err := store.Open(ctx, address+"&statement_timeout=60s") // this much is not written at once otherwise
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	p := &past{}
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
	if err := s.Maintain(ctx, 0); err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, "VACUUM ANALYZE"); err != nil { // as a server does by itself, sooner or later
		return nil, err
	}
	return p, db.QueryRowContext(ctx, "SELECT pg_database_size(current_database())").Scan(&p.bytes)
}

// makeDays makes the partitions of the days that are over, as the store did when they were
// to come.
func makeDays(ctx context.Context, db *sql.DB) error {
	for at := time.Now().UTC().Add(-townSpan).Truncate(24 * time.Hour); at.Before(time.Now()); at = at.Add(24 * time.Hour) {
		text := fmt.Sprintf(`CREATE TABLE IF NOT EXISTS calls_%s PARTITION OF calls FOR VALUES FROM ('%s') TO ('%s')`,
			at.Format("20060102"), at.Format(time.RFC3339), at.Add(24*time.Hour).Format(time.RFC3339))
		if _, err := db.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// seedBooks makes accounts, sessions, keys, and changes that people made.
func (t town) seedBooks(ctx context.Context, s *store.Store, p *past) error {
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
		change := &store.Change{ID: ident.NewCallID(at), At: at, Caller: account(i % t.accounts), Action: []string{"toolset.put", "server.approve", "key.make"}[i%3], Subject: townServer(i % t.servers), Status: http.StatusOK}
		if err := s.BeginChange(ctx, change); err != nil {
			return err
		}
	}
	return nil
}

// seedCalls writes the calls, the oldest first, some batches at a time.
func (t town) seedCalls(ctx context.Context, s *store.Store, p *past) error {
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
	next, apart := t.caller(p), townSpan/time.Duration(t.calls)
	for n := 0; n < t.calls && failed.Load() == nil; n += townBatch {
		batch := make([]*store.CallRow, min(townBatch, t.calls-n))
		for i := range batch {
			batch[i] = next(time.Now().Add(-apart * time.Duration(t.calls-n-i)))
		}
		batches <- batch
		if n*5/t.calls > (n-townBatch)*5/t.calls {
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

// caller returns what makes up a call at a time. Some tools are much more popular than others,
// and who calls one calls it a few times in a row.
func (t town) caller(p *past) func(at time.Time) *store.CallRow {
	popular := mathrand.NewZipf(mathrand.New(mathrand.NewPCG(1, 2)), 1.1, 4, uint64(t.tools-1))
	n, left, who, tool, before := 0, 0, 0, "", ""
	return func(at time.Time) *store.CallRow {
		if left--; left < 0 {
			left, who, tool = mathrand.N(10), mathrand.N(t.accounts), townTool(int(popular.Uint64()))
		}
		r := &store.CallRow{
			ID: ident.NewCallID(at), At: at, Elapsed: time.Duration(mathrand.ExpFloat64() * float64(40*time.Millisecond)), Gate: "default", Mode: toolyard.Read,
			Caller: account(who), Account: account(who), Tool: tool, Generation: 1, Code: toolyard.OK, ArgsSize: 60, ResultSize: 900,
			Marks: []store.Mark{{Step: "record"}, {Step: "admit", At: 20 * time.Microsecond}, {Step: "run", At: 90 * time.Microsecond}, {Step: "ran", At: 10 * time.Millisecond}},
		}
		switch n++; n % 10 {
		case 0:
			r.Server = townServer(n / 10 % t.servers)
			r.Tool, _ = searchTool(mathrand.N(toolsPerEach))
		case 1, 2:
			r.Gate, r.Price, r.Session = "sdk", toolyard.USD/1000, p.sessions[mathrand.N(t.sessions/t.accounts)*t.accounts+who]
		case 4:
			r.Parent, p.parents = before, append(p.parents, before)
		}
		if n%20 == 13 {
			r.Code, r.Message = failures[n/20%len(failures)], "It did not work out this time."
		}
		if n%1000 == 0 {
			p.calls = append(p.calls, r.ID)
		}
		before = r.ID
		return r
	}
}

// failures are what calls fail with.
var failures = []toolyard.Code{toolyard.Failed, toolyard.Timeout, toolyard.Unavailable, toolyard.Invalid}
