package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/pgtest"
	"github.com/toolyard/toolyard/internal/store/record"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/yard"
)

// measureContract measures the cost of enforcing limits and prices: on one node, on several
// replicas that share a hot account, and with a growing number of replicas.
func measureContract(ctx context.Context, turn time.Duration, turns int, quick bool) error {
	span, replicas := 3*time.Second, []int{1, 3, 10, 30}
	if quick {
		turn, span, replicas = turn/2, 500*time.Millisecond, []int{1, 3}
	}
	if err := measureCost(ctx, turn, turns); err != nil {
		return err
	}
	c, err := pgtest.Start("")
	if err != nil {
		fmt.Printf("Charges on PostgreSQL were not measured: %v\n\n", err)
		return nil
	}
	if err = measureCharges(ctx, c, span); err == nil {
		err = measureGrowth(ctx, c, replicas, span)
	}
	return errors.Join(err, c.Close())
}

// way is a benchmark variant: a yard that serves a tool with part of the contract.
type way struct{ name, title, config string }

// ways serve the same tool, each with more of the contract than the previous one. All of them
// receive the same requests.
var ways = []way{
	{"open", "unauthenticated callers", ""},
	{"keyed", "an API key", ""},
	{"recorded", "an API key, recorded calls", "gates: {default: {mode: read, callers: keys}}\n"},
	{"contracted", "an API key, recorded calls, a limit per minute and on concurrency, a price", `
gates: {default: {mode: read, surface: execute, callers: keys}}
terms: {echo: {rate: {perMinute: 100000000, concurrency: 1000000}, executeUsd: "0.000001"}}
`},
}

// Files in a way's folder.
const (
	wayConfig = "toolyard.yaml"
	wayStore  = "toolyard.db"
)

// isWay reports whether a contender is one of the ways.
func isWay(name string) bool {
	return slices.ContainsFunc(ways, func(w way) bool { return w.name == name })
}

// serveWay serves a way from its folder.
func serveWay(name, dir string) error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	opts := yard.Options{Tools: goTools(0)}
	switch name {
	case "open":
	case "keyed": // an embedding program that identifies its callers with the same keys
		s, err := store.Open(context.Background(), "sqlite:"+filepath.Join(dir, wayStore))
		if err != nil {
			return err
		}
		opts.Identify = identity.NewVerifier(s, time.Now).Identify
	default:
		opts.ConfigFile = filepath.Join(dir, wayConfig)
	}
	return serveYard(l, func() { fmt.Println(l.Addr()) }, opts)
}

// prepareWay creates a benchmark variant's folder: its configuration, and a store with a key and
// funds.
func prepareWay(ctx context.Context, dir, config string, key identity.Key) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	config += fmt.Sprintf("store: %q\n", "sqlite:"+filepath.Join(dir, wayStore))
	if err := os.WriteFile(filepath.Join(dir, wayConfig), []byte(config), 0o600); err != nil {
		return err
	}
	s, err := store.Open(ctx, "sqlite:"+filepath.Join(dir, wayStore))
	if err != nil {
		return err
	}
	return errors.Join(s.PutKey(ctx, key), s.Fund(ctx, key.Account, funds, "bench"), s.Close())
}

// startWays starts all ways and returns the request for them.
func startWays(ctx context.Context, dir string) (all []*contender, req []byte, stop func(), err error) {
	stop = func() {
		for _, c := range all {
			c.stop()
		}
	}
	key, token, err := identity.New("bench", "bench", "", []string{identity.Write}, 0, time.Now())
	if err != nil {
		return nil, nil, nil, err
	}
	for _, w := range ways {
		own := filepath.Join(dir, w.name)
		err := prepareWay(ctx, own, w.config, key)
		if err == nil {
			var c *contender
			if c, err = startWith(ctx, w.name, nil, "-serve", w.name, "-dir", own); err == nil {
				all = append(all, c)
			}
		}
		if err != nil {
			stop()
			return nil, nil, nil, err
		}
	}
	text := strings.Replace(string(request("tools/call", "echo", callBody)), "\r\n", "\r\nAuthorization: Bearer "+token+"\r\n", 1)
	return all, []byte(text), stop, nil
}

// measureCost compares the ways on one node.
func measureCost(ctx context.Context, turn time.Duration, turns int) error {
	const connections = 16
	dir, err := os.MkdirTemp("", "toolyard-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	contenders, req, stop, err := startWays(ctx, dir)
	if err != nil {
		return err
	}
	defer stop()
	s, err := compare(contenders, req, connections, turn, turns)
	if err != nil {
		return err
	}
	took, err := compareLoaded(contenders, req, connections, turn/2, turns)
	if err != nil {
		return err
	}
	fmt.Printf("One call over HTTP, SQLite file, %d connections\n\n", connections)
	fmt.Printf("| with | calls/s | CPU per call | p50 / p99 |\n|---|---|---|---|\n")
	for i, w := range ways {
		fmt.Printf("| %s | %.0f | %v | %s |\n", w.title, s[i].perSecond, s[i].cpu.Round(100*time.Nanosecond), percentiles(took[i]))
	}
	ratio := func(a, b int) float64 { return float64(s[a].cpu) / float64(s[b].cpu) }
	fmt.Printf("\nLimits, a price and recording take %.2f times the CPU of a call with a key (goal: at most 1.3); recording\n", ratio(3, 1))
	fmt.Printf("alone takes %.2f times, and a key takes %.2f times the CPU of a call without one.\n\n", ratio(2, 1), ratio(1, 0))
	return nil
}

// compareLoaded returns the sorted durations of calls on several connections, measured in turns.
func compareLoaded(contenders []*contender, req []byte, connections int, turn time.Duration, turns int) ([][]time.Duration, error) {
	all := make([][]time.Duration, len(contenders))
	for range turns {
		for i, c := range contenders {
			var mu sync.Mutex
			var failed error
			var wg sync.WaitGroup
			for range connections {
				wg.Go(func() {
					took, err := latency(c.addr, req, turn)
					mu.Lock()
					defer mu.Unlock()
					all[i], failed = append(all[i], took...), errors.Join(failed, err)
				})
			}
			wg.Wait()
			if failed != nil {
				return nil, fmt.Errorf("%s: %w", c.name, failed)
			}
		}
	}
	for _, took := range all {
		slices.Sort(took)
	}
	return all, nil
}

// percentiles formats the p50 and p99 of sorted durations.
func percentiles(took []time.Duration) string {
	if len(took) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f / %.1f ms", took[len(took)/2].Seconds()*1e3, took[len(took)*99/100].Seconds()*1e3)
}

const (
	price    = toolyard.USD / 1_000_000
	funds    = 1_000_000 * toolyard.USD // per account
	callers  = 64                       // concurrent callers per replica
	accounts = 1_000                    // for the case with many accounts
)

// account returns the name of the i-th account.
func account(i int) string { return fmt.Sprintf("account-%04d", i) }

// charges are the results of a charging measurement.
type charges struct {
	perSecond float64
	took      []time.Duration // sorted durations
	exchanges float64         // exchanges with the store per second
	total     int64           // number of calls, including warm-up
}

// perCall returns the number of exchanges per call.
func (c *charges) perCall() float64 { return c.exchanges / c.perSecond }

// drive calls do from many goroutines and measures it after a warm-up.
func drive(ctx context.Context, workers int, span time.Duration, exchanges *atomic.Int64, do func(ctx context.Context, worker int) error) (c charges, failed error) {
	warmUp := span / 3
	began := time.Now().Add(warmUp)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			took, total, err := repeat(began, began.Add(span), func() error { return do(ctx, worker) })
			mu.Lock()
			defer mu.Unlock()
			c.took, c.total, failed = append(c.took, took...), c.total+total, errors.Join(failed, err)
		})
	}
	time.Sleep(warmUp)
	before := exchanges.Load()
	wg.Wait()
	seconds := time.Since(began).Seconds()
	slices.Sort(c.took)
	c.perSecond, c.exchanges = float64(len(c.took))/seconds, float64(exchanges.Load()-before)/seconds
	return c, failed
}

// repeat calls do repeatedly and returns the durations since from.
func repeat(from, until time.Time, do func() error) (took []time.Duration, total int64, err error) {
	for now := time.Now(); err == nil && now.Before(until); {
		err = do()
		end := time.Now()
		if total++; !now.Before(from) {
			took = append(took, end.Sub(now))
		}
		now = end
	}
	return took, total, err
}

// counted counts the exchanges with a store.
type counted struct {
	*store.Store
	n *atomic.Int64
}

// Exchange implements admission.Store.
func (c counted) Exchange(ctx context.Context, b *ledger.Batch) (*ledger.Results, error) {
	c.n.Add(1)
	return c.Store.Exchange(ctx, b)
}

// fleet contains the admission controllers of replicas that share a database.
type fleet struct {
	desks     []*admission.Controller
	stores    []*store.Store
	exchanges atomic.Int64
	cancel    context.CancelFunc
	running   sync.WaitGroup
}

// openFleet opens n controllers, each with its own connections.
func openFleet(ctx context.Context, address string, n int) (*fleet, error) {
	f := &fleet{}
	ctx, f.cancel = context.WithCancel(ctx)
	for i := range n {
		s, err := store.Open(ctx, address)
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.stores = append(f.stores, s)
		d := admission.New(counted{s, &f.exchanges}, admission.Options{
			Replica: fmt.Sprintf("%s-%d", rand.Text()[:8], i), Log: slog.New(slog.DiscardHandler),
			Row: func(c *toolyard.Call, o toolyard.Outcome) *store.CallRow { return record.Row(c, o, record.Arguments{}) },
		})
		f.desks = append(f.desks, d)
		f.running.Go(func() { d.Run(ctx) })
	}
	return f, nil
}

// rest closes the controllers, which return their leases. The stores stay open.
func (f *fleet) rest() {
	f.cancel()
	f.running.Wait()
}

func (f *fleet) close() (err error) {
	f.rest()
	for _, s := range f.stores {
		err = errors.Join(err, s.Close())
	}
	return err
}

// fund creates accounts.
func (f *fleet) fund(ctx context.Context, n int) error {
	for i := range n {
		if err := f.stores[0].Fund(ctx, account(i), funds, "bench"); err != nil {
			return err
		}
	}
	return nil
}

// charge admits and settles one paid call.
func charge(ctx context.Context, d *admission.Controller, tool *toolyard.Tool, result *toolyard.Result, who string) error {
	start := time.Now()
	id := fmt.Sprintf("%012x%s", start.UnixMilli(), rand.Text()[:14])
	call := &toolyard.Call{ID: id, Tool: tool, Args: []byte(`{"text":"hello world"}`), Caller: toolyard.Caller{ID: who, Account: who}, Gate: "default", Mode: toolyard.Read}
	t, err := d.Admit(ctx, &admission.Request{
		Call: call, CallID: id, Caller: who, Account: who, Balance: who, Seller: "local", Price: price, Timeout: 30 * time.Second, Wait: 10 * time.Second,
		Limits: []admission.LimitRef{{Key: "tool//echo", Name: "the tool echo", Limit: toolyard.Limit{PerMinute: 100_000_000}}},
	})
	if err != nil {
		return err
	}
	_, err = d.Settle(ctx, t, toolyard.Outcome{Result: result, Start: start, Elapsed: time.Since(start)})
	return err
}

// measureFleet charges accounts through several replicas and audits the ledger.
func measureFleet(ctx context.Context, address string, replicas, payers int, span time.Duration) (c charges, err error) {
	f, err := openFleet(ctx, address, replicas)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := f.fund(ctx, payers); err != nil {
		return c, err
	}
	tool := goTools(0)[0]
	result, err := toolyard.ResultOf("hello world")
	if err != nil {
		return c, err
	}
	c, err = drive(ctx, callers*replicas, span, &f.exchanges, func(ctx context.Context, worker int) error {
		return charge(ctx, f.desks[worker%replicas], tool, result, account(mathrand.N(payers)))
	})
	if err != nil {
		return c, err
	}
	f.rest()
	return c, check(ctx, f.stores[0], c.total)
}

// check returns an error unless the ledger is consistent and exactly the expected calls were
// charged.
func check(ctx context.Context, s *store.Store, calls int64) error {
	if err := s.Audit(ctx); err != nil {
		return err
	}
	balances, err := s.Accounts(ctx)
	if err != nil {
		return err
	}
	spent := toolyard.Money(0)
	for _, p := range balances {
		spent += p.Spent
	}
	if should := toolyard.Money(calls) * price; spent != should {
		return fmt.Errorf("%d calls were charged %s USD instead of %s", calls, spent, should)
	}
	return nil
}

// measureBare updates rows with one statement per call.
func measureBare(ctx context.Context, address string, rows int, span time.Duration) (c charges, err error) {
	db, err := sql.Open("pgx", address) // the store's driver
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(callers)
	db.SetMaxIdleConns(callers)
	for _, text := range []string{
		`CREATE TABLE bare (id int PRIMARY KEY, balance bigint NOT NULL) WITH (fillfactor = 50)`,
		fmt.Sprintf(`INSERT INTO bare SELECT n, 0 FROM generate_series(0, %d) AS n`, rows-1),
	} {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return c, err
		}
	}
	var exchanges atomic.Int64
	c, err = drive(ctx, callers, span, &exchanges, func(ctx context.Context, _ int) error {
		exchanges.Add(1)
		var balance int64
		return db.QueryRowContext(ctx, `UPDATE bare SET balance = balance + 1 WHERE id = $1 RETURNING balance`, mathrand.N(rows)).Scan(&balance)
	})
	if err != nil {
		return c, err
	}
	var sum int64
	err = db.QueryRowContext(ctx, `SELECT sum(balance) FROM bare`).Scan(&sum)
	if err == nil && sum != c.total {
		err = fmt.Errorf("%d updates left %d", c.total, sum)
	}
	return c, err
}

// newDatabase creates a database and returns its URL.
func newDatabase(c *pgtest.Cluster) (string, error) {
	name := "bench_" + strings.ToLower(rand.Text())
	if err := c.Exec("CREATE DATABASE " + name); err != nil {
		return "", err
	}
	u, err := url.Parse(c.URL())
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

// traces returns the number of committed transactions and the size of charges and calls, including
// indexes, in bytes. Connections report their commits no later than when they are closed.
func traces(ctx context.Context, address string) (commits, bytes int64, err error) {
	db, err := sql.Open("pgx", address)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return commits, bytes, db.QueryRowContext(ctx, `SELECT xact_commit, (SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('calls'))
		+ pg_total_relation_size('transfers') FROM pg_stat_database WHERE datname = current_database()`).Scan(&commits, &bytes)
}

// charging is a setup for charging calls.
type charging struct {
	title    string
	store    string // empty for a new PostgreSQL database
	replicas int    // zero for bare statements
	payers   int
}

// measure runs the measurement and returns the database's address.
func (w charging) measure(ctx context.Context, c *pgtest.Cluster, span time.Duration) (got charges, address string, err error) {
	if address = w.store; address == "" {
		if address, err = newDatabase(c); err != nil {
			return got, "", err
		}
	}
	if w.replicas == 0 {
		got, err = measureBare(ctx, address, w.payers, span)
	} else {
		got, err = measureFleet(ctx, address, w.replicas, w.payers, span)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", w.title, err)
	}
	return got, address, err
}

// measureCharges compares setups for charging calls.
func measureCharges(ctx context.Context, c *pgtest.Cluster, span time.Duration) error {
	dir, err := os.MkdirTemp("", "toolyard-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var all []charges
	var committed, bytes int64
	for i, w := range chargings(filepath.Join(dir, wayStore)) {
		got, address, err := w.measure(ctx, c, span)
		if err != nil {
			return err
		}
		if all = append(all, got); i == 0 {
			if committed, bytes, err = traces(ctx, address); err != nil {
				return err
			}
		}
	}
	fmt.Printf("Calls under one limit, charged and recorded; %d callers per replica, or in total for bare statements\n\n", callers)
	fmt.Printf("| way | per second | p50 / p99 | transactions per call |\n|---|---|---|---|\n")
	for i, w := range chargings("") {
		fmt.Printf("| %s | %.0f | %s | %.3f |\n", w.title, all[i].perSecond, percentiles(all[i].took), all[i].perCall())
	}
	hot, bare := all[0], all[1]
	fmt.Printf("\nThree replicas charge one account %.0f times per second (goal: at least 10000), %.1f times the rate of bare\n", hot.perSecond, hot.perSecond/bare.perSecond)
	fmt.Printf("statements on one row. The server counted %.3f commits per call, including opening the stores; a call takes %d bytes\n", float64(committed)/float64(hot.total), bytes/hot.total)
	fmt.Printf("in tables and indexes. All ledgers were consistent.\n\n")
	return nil
}

// chargings returns all setups, with the hot account first and bare statements second.
func chargings(file string) []charging {
	return []charging{
		{"PostgreSQL, one account", "", 3, 1},
		{"PostgreSQL, a bare UPDATE for each call, one row", "", 0, 1},
		{fmt.Sprintf("PostgreSQL, %d accounts", accounts), "", 3, accounts},
		{fmt.Sprintf("PostgreSQL, a bare UPDATE for each call, %d rows", accounts), "", 0, accounts},
		{"SQLite file, one account", "sqlite:" + file, 1, 1},
		{"memory, one account, not durable", "memory", 1, 1},
	}
}

// measureGrowth measures one hot account with a growing number of replicas.
func measureGrowth(ctx context.Context, c *pgtest.Cluster, replicas []int, span time.Duration) error {
	fmt.Printf("One hot account and one hot limit on PostgreSQL, all replicas in one process\n\n")
	fmt.Printf("| replicas | callers | calls/s | transactions/s | calls per transaction | p50 / p99 |\n|---|---|---|---|---|---|\n")
	for _, n := range replicas {
		got, _, err := charging{fmt.Sprint(n, " replicas"), "", n, 1}.measure(ctx, c, span)
		if err != nil {
			return err
		}
		fmt.Printf("| %d | %d | %.0f | %.0f | %.0f | %s |\n", n, n*callers, got.perSecond, got.exchanges, 1/got.perCall(), percentiles(got.took))
	}
	fmt.Println()
	return nil
}
