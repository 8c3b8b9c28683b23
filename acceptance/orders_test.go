package acceptance

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/toolyard/toolyard/acceptance/fakemarkets"
	"github.com/toolyard/toolyard/internal/store/pgtest"
	"github.com/toolyard/toolyard/packs/trading/market"
)

var (
	orderKills        = flag.Int("order-kills", 30, "how often the server is killed while it places orders")
	replicaOrderKills = flag.Int("replica-order-kills", 10, "how often replicas are killed while they place orders")
)

// marketsConfig enables the trading pack with a live account at a fake venue.
func marketsConfig(venue *fakemarkets.Hyperliquid, more string) string {
	return fmt.Sprintf(`packs:
  trading:
    hyperliquid: {url: %q, testnet: true}
    accounts:
      main: {broker: hyperliquid, address: "%s", agentKey: "%s", submit: auto}
    risk: {maxPositionPct: 1000, maxExposurePct: 1000, maxLeverage: 20, ordersPerMinute: 10000, collarBps: 500, maxDailyLossPct: 90, maxDrawdownPct: 90}
gates:
  default: {mode: write, packs: {trading: {account: main}}}
%s`, venue.URL, tradingAccount, agentKey, more)
}

// orderBook is the client's view of its orders: the answers that it received.
type orderBook struct {
	mu      sync.Mutex
	open    []string          // client order IDs with no final answer yet
	answers map[string]string // final answers, by client order ID
	unknown int               // number of OUTCOME_UNKNOWN answers
}

func (b *orderBook) pending() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.open)
}

// settle records a final answer.
func (b *orderBook) settle(id, kind string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[id] = kind
	b.open = slices.DeleteFunc(b.open, func(o string) bool { return o == id })
}

// propose proposes an order until the server answers or dies. Proposals with the same client order
// ID are the same order, so a client repeats a proposal until it has a final answer.
func (b *orderBook) propose(t *testing.T, url, id string) {
	const args = `{"symbol":"ETH","action":"open","side":"buy","size":"0.003","reasoning":"Orders under kills of the server.","clientOrderId":%q}`
	c := modernHTTP{t: t, url: url}
	res, err := c.post(t.Context(), "1", "tools/call", fmt.Sprintf(`{"name":"propose_order","arguments":`+args+`}`, id))
	if err != nil {
		return // the server was killed
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return
	}
	text := string(body)
	switch {
	case strings.Contains(text, `"OUTCOME_UNKNOWN"`):
		b.mu.Lock()
		b.unknown++
		b.mu.Unlock()
	case strings.Contains(text, `"kind":"executed"`):
		b.settle(id, "executed")
	case strings.Contains(text, `"kind":"rejected"`):
		b.settle(id, "rejected")
	case strings.Contains(text, `"RATE_LIMITED"`), strings.Contains(text, `"UNAVAILABLE"`), strings.Contains(text, `"CANCELED"`):
	default:
		t.Errorf("unexpected answer: %.400s", text)
	}
}

// maxPending is the number of orders with no final answer from which the client stops proposing new
// orders.
const maxPending = 24

// Orders are placed exactly once, although the server is killed again and again between the intent
// and the answer, and the venue loses responses. After each kill, another server continues.
func TestOrdersSurviveKills(t *testing.T) {
	heavy(t)
	venue := newVenue(t)
	venue.Deposit(tradingAccount, "10000000")
	venue.Budget(1 << 40)
	venue.Delay(5 * time.Millisecond)
	dir := t.TempDir()
	config := marketsConfig(venue, fmt.Sprintf("store: %q\nlog: {level: error}\n", "sqlite:"+filepath.Join(dir, "yard.db")))
	book := &orderBook{answers: map[string]string{}}
	random := rand.New(rand.NewPCG(1, 2))
	proposed := 0
	for range *orderKills {
		p := serveIn(t, dir, "toolyard", config)
		if random.IntN(5) == 0 {
			venue.LoseAnswers(1)
		}
		for range 3 {
			if len(book.pending()) >= maxPending {
				break
			}
			book.mu.Lock()
			book.open = append(book.open, market.ClientID("kills", fmt.Sprint(proposed)))
			book.mu.Unlock()
			proposed++
		}
		var all sync.WaitGroup
		todo := book.pending()
		random.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
		for _, id := range todo[:min(len(todo), 8)] {
			all.Go(func() { book.propose(t, p.url, id) })
		}
		time.Sleep(time.Duration(20+random.IntN(400)) * time.Millisecond)
		p.signal(syscall.SIGKILL)
		all.Wait()
		p.end()
	}
	finishOrders(t, book, dir, config)
	checkOrders(t, book, venue, proposed, *orderKills)
}

// newOrder adds an open order, unless there are too many.
func (b *orderBook) newOrder(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.open) >= maxPending {
		return false
	}
	b.open = append(b.open, id)
	return true
}

// Three replicas share an account in PostgreSQL and place its orders at the same time, while the
// replicas are killed in turn and the venue loses responses. Clients repeat orders on any replica.
func TestOrdersSurviveKillsOfReplicas(t *testing.T) {
	heavy(t)
	venue := newVenue(t)
	venue.Deposit(tradingAccount, "10000000")
	venue.Budget(1 << 40)
	venue.Delay(5 * time.Millisecond)
	database := pgtest.ForTest(t).Database(t)
	config := marketsConfig(venue, fmt.Sprintf("store: %q\nlog: {level: error}\n", database))
	f := newFleetOf(t, "toolyard", 3, database, config)
	book := &orderBook{answers: map[string]string{}}
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var proposed atomic.Int64
	for worker := range 4 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 3))
			for ctx.Err() == nil {
				if id := market.ClientID("replicas", fmt.Sprint(worker, proposed.Load())); random.IntN(2) == 0 && book.newOrder(id) {
					proposed.Add(1)
				}
				open := book.pending()
				if len(open) == 0 {
					continue
				}
				id := open[random.IntN(len(open))]
				var twice sync.WaitGroup // sends the same order to two replicas at once
				for range 1 + random.IntN(2) {
					url := "http://" + f.replicas[random.IntN(len(f.replicas))].address + "/mcp"
					twice.Go(func() { book.propose(t, url, id) })
				}
				twice.Wait()
				time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
			}
		})
	}
	for i := range *replicaOrderKills {
		if i%5 == 0 {
			venue.LoseAnswers(1)
		}
		if _, err := f.killer(ctx, 1); err != nil {
			t.Error(err)
			break
		}
	}
	stop()
	clients.Wait()
	deadline := time.Now().Add(3 * time.Minute) // signed actions have expired by then
	for len(book.pending()) > 0 && time.Now().Before(deadline) {
		for i, id := range book.pending() {
			book.propose(t, "http://"+f.replicas[i%len(f.replicas)].address+"/mcp", id)
		}
		time.Sleep(200 * time.Millisecond)
	}
	if left := book.pending(); len(left) > 0 {
		t.Errorf("%d orders have no final answer, such as %s", len(left), left[0])
	}
	checkOrders(t, book, venue, int(proposed.Load()), *replicaOrderKills)
}

// finishOrders repeats the proposals, with no further kills, until every order has a final answer.
// This happens no later than when the signed actions expire.
func finishOrders(t *testing.T, book *orderBook, dir, config string) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for len(book.pending()) > 0 && time.Now().Before(deadline) {
		p := serveIn(t, dir, "toolyard", config) // a new process has a fresh request budget
		for _, id := range book.pending()[:min(len(book.pending()), 10)] {
			book.propose(t, p.url, id)
		}
		p.end()
		time.Sleep(time.Second)
	}
	if left := book.pending(); len(left) > 0 {
		t.Errorf("%d orders have no final answer, such as %s", len(left), left[0])
	}
}

// checkOrders compares the answers that the client received with the orders that the venue
// executed.
func checkOrders(t *testing.T, book *orderBook, venue *fakemarkets.Hyperliquid, proposed, kills int) {
	t.Helper()
	placed := map[string]int{}
	for _, o := range venue.Orders(tradingAccount) {
		if o.Status == "filled" {
			placed[o.Cloid]++
		}
	}
	executed, twice, lost, invented := 0, 0, 0, 0
	for id, kind := range book.answers {
		switch {
		case placed[id] > 1:
			twice++
		case kind == "executed" && placed[id] == 0:
			invented++
		case kind == "rejected" && placed[id] == 1:
			lost++
		case kind == "executed":
			executed++
		}
		delete(placed, id)
	}
	t.Logf("%d orders under %d kills: %d executed, %d times the outcome was unknown", proposed, kills, executed, book.unknown)
	if twice+lost+invented+len(placed) > 0 {
		t.Errorf("%d orders were placed twice, %d were reported as not placed, %d were reported and not placed, %d were placed and not reported", twice, lost, invented, len(placed))
	}
	if executed < proposed/3 {
		t.Errorf("only %d of %d orders were executed: the test shows too little", executed, proposed)
	}
}
