package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/pgtest"
)

// forSale is a configuration with priced tools: calls are paid at the gate sdk and free at the gate
// chat.
const forSale = `
store: %q
limits: {timeout: 4s, wait: 2s}
log: {level: warn}
gates:
  sdk: {mode: write, surface: execute, callers: keys}
  chat: {mode: read, surface: answer, callers: anyone}
terms:
  note_read: {executeUsd: "0.001"}
  note_write: {executeUsd: "0.001"}
`

// fleet is a set of replicas that share a store.
type fleet struct {
	t        *testing.T
	store    string
	notes    string // file in which tools record their runs
	config   string
	replicas []*replica
}

// replica is a process in a fleet that can be killed and restarted.
type replica struct {
	address, dir, program string
	env                   []string

	mu  sync.Mutex
	cmd *exec.Cmd
}

// newFleet configures and starts replicas of the test program.
func newFleet(t *testing.T, n int, storeURL, config string) *fleet {
	t.Helper()
	return newFleetOf(t, "testyard", n, storeURL, config)
}

// newFleetOf configures and starts replicas of a program.
func newFleetOf(t *testing.T, program string, n int, storeURL, config string) *fleet {
	t.Helper()
	f := &fleet{t: t, store: storeURL, notes: filepath.Join(t.TempDir(), "notes"), config: config}
	for range n {
		r := &replica{address: freeAddress(t), dir: t.TempDir(), program: program, env: []string{"TESTYARD_NOTES=" + f.notes}}
		if err := os.WriteFile(filepath.Join(r.dir, "toolyard.yaml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		f.replicas = append(f.replicas, r)
		t.Cleanup(r.kill)
		if err := r.start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range f.replicas {
		if err := r.ready(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// salesFleet returns a fleet with priced tools and a caller with a funded account.
func salesFleet(t *testing.T, n int, storeURL string) (*fleet, *buyer) {
	t.Helper()
	f := newFleet(t, n, storeURL, fmt.Sprintf(forSale, storeURL))
	return f, f.buyer("alice", "acme", "1000000")
}

func (r *replica) start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	log, err := os.OpenFile(filepath.Join(r.dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	r.cmd = exec.Command(filepath.Join(bin, r.program), "serve", "--listen", r.address)
	r.cmd.Dir, r.cmd.Env, r.cmd.Stderr = r.dir, append(os.Environ(), r.env...), log
	return r.cmd.Start()
}

// kill kills the process with SIGKILL and waits until it has exited.
func (r *replica) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd != nil && r.cmd.Process != nil {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
	}
	r.cmd = nil
}

// ready waits until the replica accepts calls.
func (r *replica) ready(limit time.Duration) error {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		res, err := shop.Get("http://" + r.address + "/readyz")
		if err != nil {
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return nil
		}
	}
	log, _ := os.ReadFile(filepath.Join(r.dir, "log"))
	return fmt.Errorf("the replica is not ready after %s:\n%s", limit, log[max(0, len(log)-4<<10):])
}

// command runs a Toolyard command in the first replica's folder.
func (f *fleet) command(args ...string) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "toolyard"), args...)
	var errs bytes.Buffer
	cmd.Dir, cmd.Stderr = f.replicas[0].dir, &errs
	out, err := cmd.Output()
	if err != nil {
		f.t.Fatalf("toolyard %s: %v\n%s%s", strings.Join(args, " "), err, out, errs.String())
	}
	return string(out) + errs.String()
}

var tokenShape = regexp.MustCompile(`ty_[a-z0-9]+_[A-Za-z0-9_-]+`)

// buyer creates a key for a caller and funds the account.
func (f *fleet) buyer(caller, account, usd string) *buyer {
	f.t.Helper()
	b := &buyer{t: f.t, token: tokenShape.FindString(f.command("keys", "create", "--name", "test", "--caller", caller, "--account", account, "--scope", "write"))}
	if b.token == "" {
		f.t.Fatal("keys create printed no token")
	}
	if usd != "" {
		f.command("accounts", "fund", account, usd)
	}
	for _, r := range f.replicas {
		b.bases = append(b.bases, "http://"+r.address)
	}
	return b
}

// shop is the buyers' HTTP client. It allows many connections and has a timeout for every request.
var shop = &http.Client{
	Timeout:   30 * time.Second,
	Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true},
}

// buyer is a program that pays for calls over the HTTP API of any replica.
type buyer struct {
	t     *testing.T
	token string
	bases []string
}

// order is the body of tools/execute.
type order struct {
	Tool    string `json:"tool"`
	Args    work   `json:"args"`
	Session string `json:"session,omitempty"`
	Key     string `json:"idempotencyKey,omitempty"`
}

// work contains the arguments of the tools that record their runs.
type work struct {
	MS   int  `json:"ms"`
	Fail bool `json:"fail"`
}

// sale is the response to an order, or a problem.
type sale struct {
	status  int
	after   string // value of Retry-After
	replica int

	Result  result            `json:"result"`
	Receipt *toolyard.Receipt `json:"receipt"`
	Error   string            `json:"error"`
	Message string            `json:"message"`
}

// good reports whether a call succeeded and was acknowledged.
func (s *sale) good() bool { return s.status == http.StatusOK && !s.Result.IsError }

// session is an open budget as returned by the API.
type session struct {
	ID        string         `json:"id"`
	Status    string         `json:"status"`
	Limit     toolyard.Money `json:"limitUsd"`
	Remaining toolyard.Money `json:"remainingUsd"`
	Held      toolyard.Money `json:"heldUsd"`
	Spent     toolyard.Money `json:"spentUsd"`
}

// send sends a request to a replica and decodes the response, regardless of its status.
func (b *buyer) send(ctx context.Context, replica int, method, path string, body, answer any) (*http.Response, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, b.bases[replica]+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+b.token)
	r.Header.Set("Content-Type", "application/json")
	res, err := shop.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if data, err = io.ReadAll(res.Body); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return nil, fmt.Errorf("%s: %q: %w", res.Status, data, err)
	}
	return res, nil
}

// buy sends an order to a replica. An error means that there was no response.
func (b *buyer) buy(replica int, o order) (*sale, error) {
	s := &sale{replica: replica}
	res, err := b.send(context.Background(), replica, http.MethodPost, "/api/v1/tools/execute", o, s)
	if err != nil {
		return nil, err
	}
	s.status, s.after = res.StatusCode, res.Header.Get("Retry-After")
	return s, nil
}

// must is like buy but requires a response.
func (b *buyer) must(replica int, o order) *sale {
	b.t.Helper()
	s, err := b.buy(replica, o)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// open opens a session on any replica that responds.
func (b *buyer) open(limit string) (s session, err error) {
	for range 100 {
		s = session{}
		var res *http.Response
		res, err = b.send(context.Background(), rand.IntN(len(b.bases)), http.MethodPost, "/api/v1/sessions", map[string]any{"limitUsd": limit, "ttl": "2h"}, &s)
		if err == nil && res.StatusCode == http.StatusCreated {
			return s, nil
		}
		if err == nil {
			err = fmt.Errorf("open: %s", res.Status)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return s, err
}

func (b *buyer) mustOpen(limit string) session {
	b.t.Helper()
	s, err := b.open(limit)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// look reads a session.
func (b *buyer) look(id string) (s session) {
	b.t.Helper()
	res, err := b.send(context.Background(), 0, http.MethodGet, "/api/v1/sessions/"+id, nil, &s)
	if err != nil || res.StatusCode != http.StatusOK {
		b.t.Fatal(res, err)
	}
	return s
}

// books contains a store's charges and recorded calls.
type books struct {
	charges map[string]charge // keyed by call
	calls   map[string]bool
}

type charge struct {
	balance string
	amount  toolyard.Money
}

// audit checks that the ledger is consistent with itself and with the recorded calls, and returns
// it.
func audit(t *testing.T, address string) books {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	s, err := store.Open(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.Audit(ctx); err != nil {
		t.Errorf("the audit: %v", err)
	}
	b := readBooks(ctx, t, address)
	for id := range b.charges {
		if !b.calls[id] {
			t.Errorf("%s was charged but not recorded", id)
		}
	}
	return b
}

func readBooks(ctx context.Context, t *testing.T, address string) books {
	t.Helper()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	b := books{charges: make(map[string]charge), calls: make(map[string]bool)}
	var id, balance string
	var amount toolyard.Money
	rows, err := conn.Query(ctx, "select id, case when session <> '' then session else account end, price from calls where price > 0")
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&id, &balance, (*int64)(&amount)}, func() error {
			if _, twice := b.charges[id]; twice {
				t.Errorf("%s was charged twice", id)
			}
			b.charges[id] = charge{balance, amount}
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	if rows, err = conn.Query(ctx, "select id from calls"); err == nil {
		_, err = pgx.ForEachRow(rows, []any{&id}, func() error { b.calls[id] = true; return nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// spent returns the charges to an account or session.
func (b books) spent(balance string) (sum toolyard.Money, calls int) {
	for _, c := range b.charges {
		if c.balance == balance {
			sum, calls = sum+c.amount, calls+1
		}
	}
	return sum, calls
}

// noted is a line that one of the test yard's tools wrote when it ran.
type noted struct {
	Event, Call, Key, Tool, Caller, Label string
	At                                    time.Time
	PID                                   int
}

// readNotes reads the lines that a fleet's tools wrote.
func (f *fleet) readNotes() (notes []noted) {
	f.t.Helper()
	data, err := os.ReadFile(f.notes)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		f.t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var n noted
		if err := json.Unmarshal(line, &n); err != nil {
			f.t.Fatalf("%q: %v", line, err)
		}
		notes = append(notes, n)
	}
	return notes
}

// runs returns how many times each call ran.
func (f *fleet) runs() map[string]int {
	f.t.Helper()
	runs := make(map[string]int)
	for _, n := range f.readNotes() {
		if n.Event == "began" {
			runs[n.Call]++
		}
	}
	return runs
}

// load makes calls from many clients in the background and counts them.
type load struct {
	buyer  *buyer
	orders func(worker int) order // returns the next order

	mu     sync.Mutex
	good   map[string]toolyard.Money // acknowledged calls and their reported prices
	status map[int]int               // number of responses by status
	slow   time.Duration             // duration of the slowest response
	lost   atomic.Int64              // number of requests that received no response
	away   atomic.Int64              // time when the store became unavailable, in Unix nanoseconds; 0 if it is available
	forged atomic.Int64              // number of requests sent after that and acknowledged before the store was back
	last   atomic.Int64              // time when the last call succeeded, in Unix nanoseconds
}

func newLoad(b *buyer, orders func(worker int) order) *load {
	return &load{buyer: b, orders: orders, good: make(map[string]toolyard.Money), status: make(map[int]int)}
}

// run sends orders from many workers until ctx ends.
func (l *load) run(ctx context.Context, workers int) {
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				if s := l.one(w); s == nil || !s.good() {
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
}

// one sends one order to any replica and counts the response.
func (l *load) one(worker int) *sale {
	start := time.Now()
	s, err := l.buyer.buy(rand.IntN(len(l.buyer.bases)), l.orders(worker))
	if err != nil {
		l.lost.Add(1)
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status[s.status]++
	l.slow = max(l.slow, time.Since(start))
	if s.good() && s.Receipt != nil && !s.Receipt.Replayed {
		l.good[s.Receipt.Call] = s.Receipt.Price
		if away := l.away.Load(); away != 0 && start.UnixNano() > away {
			l.forged.Add(1)
		}
		l.last.Store(time.Now().UnixNano())
	}
	return s
}

// figures formats the counts in one line.
func (l *load) figures() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d acknowledged, answers by status %v, %d without an answer, slowest answer %s", len(l.good), l.status, l.lost.Load(), l.slow.Round(time.Millisecond))
}

// paid checks that every acknowledged call was charged exactly once, at its price, and that no call
// was charged unless it ran.
func (l *load) paid(t *testing.T, f *fleet, b books) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, price := range l.good {
		if c, ok := b.charges[id]; !ok || c.amount != price || price == 0 {
			t.Errorf("%s was acknowledged at %s, but the ledger has %s", id, price, c.amount)
		}
	}
	runs := f.runs()
	for id := range b.charges {
		if runs[id] != 1 {
			t.Errorf("%s was charged and ran %d times", id, runs[id])
		}
	}
}

// settled waits until the store has no more holds.
func settled(t *testing.T, address string, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var holds, held int64
	for ctx.Err() == nil {
		if err := conn.QueryRow(ctx, "select (select count(*) from holds), (select coalesce(sum(held), 0)::bigint from balances)").Scan(&holds, &held); err == nil && holds == 0 && held == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("after %s there are %d holds of %s", limit, holds, toolyard.Money(held))
}

// absence is a way in which PostgreSQL becomes unavailable and recovers.
type absence struct {
	url      string // URL of the database
	leave    func() error
	comeback func() error
	silent   bool // whether nothing can be committed while PostgreSQL is unavailable
}

// absences are ways in which PostgreSQL becomes unavailable, each with its own cluster.
var absences = map[string]func(t *testing.T) absence{
	"stopped": func(t *testing.T) absence {
		c := pgtest.StartForTest(t)
		return absence{c.Database(t), func() error { return c.Stop("fast") }, c.Start, true}
	},
	"crashed": func(t *testing.T) absence {
		c := pgtest.StartForTest(t)
		return absence{c.Database(t), func() error { return c.Stop("immediate") }, c.Start, true}
	},
	"killed": func(t *testing.T) absence {
		c := pgtest.StartForTest(t)
		return absence{c.Database(t), c.Kill, c.Start, true}
	},
	"failed over": func(t *testing.T) absence {
		c := pgtest.StartForTest(t)
		s, err := c.Standby("")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		both := strings.Replace(c.Database(t), c.Address(), c.Address()+","+s.Address(), 1) + "&target_session_attrs=read-write"
		return absence{both, c.Kill, s.Promote, true}
	},
	"disk full": func(t *testing.T) absence {
		c := pgtest.SmallForTest(t, 128)
		return absence{c.Database(t), c.FillDisk, c.FreeDisk, false}
	},
}

// TestChaosStoreDown makes PostgreSQL unavailable under load. Paid calls are refused during that
// time, free calls continue, and nothing is lost.
func TestChaosStoreDown(t *testing.T) {
	for name, begin := range absences {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := begin(t)
			f, b := salesFleet(t, 3, a.url)
			s := b.mustOpen("1000")
			l := newLoad(b, func(worker int) order {
				return order{Tool: []string{"note_read", "note_write"}[worker%2], Session: s.ID}
			})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { l.run(ctx, 16); close(done) }()
			soon(t, "calls succeed", func() bool { return l.count() > 50 })
			if err := a.leave(); err != nil {
				t.Fatal(err)
			}
			l.whileAway(t, f, a)
			if err := a.comeback(); err != nil {
				t.Fatal(err)
			}
			back := l.recovered(t)
			time.Sleep(2 * time.Second)
			stop()
			<-done
			settled(t, a.url, time.Minute)
			books := audit(t, a.url)
			l.paid(t, f, books)
			t.Logf("PostgreSQL %s: back after %s; %d charges; %s", name, back.Round(time.Millisecond), len(books.charges), l.figures())
		})
	}
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.good)
}

// refused returns the number of calls refused because a dependency was unavailable.
func (l *load) refused() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status[http.StatusServiceUnavailable]
}

// whileAway makes calls for several seconds while the store is unavailable.
func (l *load) whileAway(t *testing.T, f *fleet, a absence) {
	t.Helper()
	l.away.Store(time.Now().UnixNano())
	defer l.away.Store(0)
	soon(t, "a call is refused", func() bool { return l.refused() > 0 })
	var wg sync.WaitGroup // paid calls wait before they are refused
	for i := range 12 {
		wg.Go(func() {
			start := time.Now()
			text(t, call(t, modernHTTP{t: t, url: "http://" + f.replicas[i%3].address + "/mcp/chat"}, "note_free", "{}"))
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("a tool that needs no store took %s", took)
			}
			if !a.silent {
				return
			}
			start = time.Now()
			if sale, err := l.buyer.buy(i%3, l.orders(i)); err != nil || sale.status != http.StatusServiceUnavailable { // the client waits up to 30 s
				t.Errorf("a paid call returned %+v after %s (%v)", sale, time.Since(start), err)
			}
		})
	}
	wg.Wait()
	if n := l.forged.Load(); a.silent && n != 0 {
		t.Errorf("%d calls were acknowledged without a store", n)
	}
}

// recovered waits for the first successful call.
func (l *load) recovered(t *testing.T) time.Duration {
	t.Helper()
	start := time.Now()
	for time.Since(start) < 2*time.Minute {
		if l.last.Load() > start.UnixNano() {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	took := time.Since(start)
	if took > time.Minute {
		t.Errorf("calls succeed %s after the store is back", took)
	}
	return took
}
