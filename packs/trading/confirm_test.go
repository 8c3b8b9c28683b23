package trading

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/acceptance/fakemarkets"
	"github.com/toolyard/toolyard/packs/trading/account"
	"github.com/toolyard/toolyard/packs/trading/engine"
	"github.com/toolyard/toolyard/toolyardtest"
	"github.com/toolyard/toolyard/toolyardtest/packtest"
	"github.com/toolyard/toolyard/yard"
)

// newVenue starts a venue with an account of 10,000 USD that the agent can trade.
func newVenue(t *testing.T) *fakemarkets.Hyperliquid {
	t.Helper()
	venue := fakemarkets.NewHyperliquid()
	t.Cleanup(venue.Close)
	venue.Deposit(owner, "10000")
	venue.Approve(owner, agentOf)
	return venue
}

// liveDesk is a live account at a venue, with a clock for both.
type liveDesk struct {
	*packtest.Pack
	t       *testing.T
	venue   *fakemarkets.Hyperliquid
	journal *racingJournal
	clients *toolyard.Clients
	started time.Time
	passed  atomic.Int64 // nanoseconds since started
}

// openLive opens a live account. more contains further settings, each preceded by a comma.
func openLive(t *testing.T, more string) *liveDesk {
	t.Helper()
	k := &liveDesk{t: t, venue: newVenue(t), journal: &racingJournal{Journal: yard.MemoryJournal()}, started: time.Now()}
	k.venue.SetNow(k.now)
	k.Pack = packtest.Open(t, Pack(), packtest.Options{
		Settings: fmt.Sprintf(`{"hyperliquid":{"url":%q,"testnet":true},"accounts":{"main":{"broker":"hyperliquid","address":%q,"agentKey":%q%s}}}`,
			k.venue.URL, owner, agentKey, more),
		Journal: k.journal, Now: k.now,
	})
	k.clients = k.Lend(yard.PackGate{Name: "test", Settings: json.RawMessage(`{"account":"main"}`)})
	return k
}

func (k *liveDesk) now() time.Time { return k.started.Add(time.Duration(k.passed.Load())) }

// wait advances the clock until cached prices have expired.
func (k *liveDesk) wait() { k.passed.Add(int64(3 * time.Second)) }

// propose proposes an order and returns the result and the questions. If answer is nil, the client
// cannot ask.
func (k *liveDesk) propose(args string, answer func(round int) string) (*account.Result, []string, error) {
	k.t.Helper()
	var questions []string
	o := &toolyardtest.Options{AsOf: k.now(), Clients: k.clients}
	if answer != nil {
		o.Answer = func(q toolyard.Question) string {
			questions = append(questions, q.Message)
			return fmt.Sprintf(`{"action":%q}`, answer(len(questions)))
		}
	}
	res, err := toolyardtest.Call(k.t, k.Tool("propose_order"), args, o)
	if err != nil {
		return nil, questions, err
	}
	var result account.Result
	if err := json.Unmarshal(res.Structured, &result); err != nil {
		k.t.Fatal(err)
	}
	return &result, questions, nil
}

// trade changes the position by another order.
func (k *liveDesk) trade(args string) {
	k.t.Helper()
	if r, _, err := k.propose(args, always("accept")); err != nil || r.Kind != account.Executed {
		k.t.Fatalf("%s: %+v (%v)", args, r, err)
	}
}

func (k *liveDesk) command(name string) {
	k.t.Helper()
	if _, err := toolyardtest.Call(k.t, k.Action(name), `{"account":"main","reason":"a test"}`, nil); err != nil {
		k.t.Fatal(err)
	}
}

// decisions returns the recorded decisions, newest first.
func (k *liveDesk) decisions() []account.Record {
	k.t.Helper()
	list, err := k.Source.(*Source).accounts["main"].Decisions(k.t.Context(), account.RecordQuery{AsOf: k.now(), Limit: 10})
	if err != nil {
		k.t.Fatal(err)
	}
	return list
}

func always(action string) func(int) string { return func(int) string { return action } }

// racingJournal runs a function before an append, as if another replica were faster.
type racingJournal struct {
	yard.Journal
	before func() // runs once; may be nil
}

func (j *racingJournal) Append(ctx context.Context, stream string, after uint64, rows ...yard.JournalEntry) (uint64, error) {
	if f := j.before; f != nil {
		j.before = nil
		f()
	}
	return j.Journal.Append(ctx, stream, after, rows...)
}

const (
	buyETH   = `{"symbol":"ETH","action":"open","side":"buy","size":"0.1",` + why + `}`
	moreETH  = `{"symbol":"ETH","action":"open","side":"buy","size":"0.2","clientOrderId":"0x00000000000000000000000000000002",` + why + `}`
	closeETH = `{"symbol":"ETH","action":"close",` + why + `}`
)

func TestConfirmationDecidesAboutTheOrder(t *testing.T) {
	for name, test := range map[string]struct {
		settings string
		answer   func(int) string
		kind     account.Kind
		rule     engine.Rule
		detail   string
		asked    int
		code     toolyard.Code
		orders   int
	}{
		"accepted":              {answer: always("accept"), kind: account.Executed, asked: 1, orders: 1},
		"accepted, as set":      {settings: `,"submit":"confirm"`, answer: always("accept"), kind: account.Executed, asked: 1, orders: 1},
		"declined":              {answer: always("decline"), kind: account.Rejected, rule: account.RuleConfirm, detail: "the user declined the order", asked: 1},
		"canceled":              {answer: always("cancel"), kind: account.Rejected, rule: account.RuleConfirm, detail: "the user closed the question and did not answer it", asked: 1},
		"an unknown answer":     {answer: always("yes"), code: toolyard.Invalid, asked: 1},
		"the client cannot ask": {code: toolyard.MissingCapability},
		"submit: never":         {settings: `,"submit":"never"`, answer: always("accept"), kind: account.Rejected, rule: account.RuleSubmit, detail: "submit: never"},
		"submit: auto":          {settings: `,"submit":"auto"`, kind: account.Executed, orders: 1},
		"refused by a rule":     {settings: `,"risk":{"allowedSymbols":["BTC"]}`, answer: always("accept"), kind: account.Rejected, rule: engine.Scope, detail: "not one of the allowed symbols"},
	} {
		t.Run(name, func(t *testing.T) {
			k := openLive(t, test.settings)
			result, questions, err := k.propose(buyETH, test.answer)
			if orders := k.venue.Orders(owner); len(orders) != test.orders || len(questions) != test.asked {
				t.Errorf("%d orders, questions %q", len(orders), questions)
			}
			for _, q := range questions {
				if !strings.Contains(q, "account main (hyperliquid)") || !strings.Contains(q, "BUY 0.1 ETH") {
					t.Errorf("question %q", q)
				}
			}
			recorded := k.decisions()
			if test.code != "" {
				if err == nil || toolyard.AsError(err).Code != test.code || len(recorded) != 0 {
					t.Errorf("%+v, %v, recorded %+v", result, err, recorded)
				}
				return
			}
			if err != nil || result.Kind != test.kind || result.Rule != test.rule || !strings.Contains(result.Detail, test.detail) {
				t.Fatalf("%+v, %v", result, err)
			}
			if len(recorded) != 1 {
				t.Fatalf("recorded %+v", recorded)
			}
			if kind, rule, detail := recorded[0].Final(); kind != result.Kind || rule != result.Rule || detail != result.Detail || recorded[0].Reasoning == "" {
				t.Errorf("recorded %+v", recorded[0])
			}
		})
	}
}

func TestConsentDoesNotOutliveTheQuestion(t *testing.T) {
	for name, test := range map[string]struct {
		position bool // whether the account already holds 0.1 ETH
		args     string
		change   func(*liveDesk) // between the first question and its answer
		race     func(*liveDesk) // after the answer and before the decision is recorded
		again    string          // answer to a second question; empty if there must be none
		kind     account.Kind
		rule     engine.Rule
		size     string // size of the new order; empty if none must be placed
	}{
		"nothing changed":          {args: buyETH, kind: account.Executed, size: "0.1"},
		"price within the collar":  {args: buyETH, change: func(k *liveDesk) { k.venue.SetPrice("ETH", "4030") }, kind: account.Executed, size: "0.1"},
		"price rose":               {args: buyETH, change: func(k *liveDesk) { k.venue.SetPrice("ETH", "4050") }, kind: account.Rejected, rule: account.RuleConfirm},
		"price fell":               {args: buyETH, change: func(k *liveDesk) { k.venue.SetPrice("ETH", "3950") }, kind: account.Rejected, rule: account.RuleConfirm},
		"account paused":           {args: buyETH, change: func(k *liveDesk) { k.command("pause") }, kind: account.Rejected, rule: engine.State},
		"account killed":           {args: buyETH, change: func(k *liveDesk) { k.command("kill") }, kind: account.Rejected, rule: engine.State},
		"paused after the answer":  {args: buyETH, race: func(k *liveDesk) { k.command("pause") }, kind: account.Rejected, rule: engine.State},
		"position grew, declined":  {position: true, args: closeETH, change: func(k *liveDesk) { k.trade(moreETH) }, again: "decline", kind: account.Rejected, rule: account.RuleConfirm},
		"position grew, accepted":  {position: true, args: closeETH, change: func(k *liveDesk) { k.trade(moreETH) }, again: "accept", kind: account.Executed, size: "0.3"},
		"grew after the answer":    {position: true, args: closeETH, race: func(k *liveDesk) { k.trade(moreETH) }, again: "decline", kind: account.Rejected, rule: account.RuleConfirm},
		"position opened":          {args: buyETH, change: func(k *liveDesk) { k.trade(moreETH) }, again: "decline", kind: account.Rejected, rule: account.RuleConfirm},
		"equity for a share grew":  {args: `{"symbol":"ETH","action":"open","side":"buy","fraction":"0.1",` + why + `}`, change: func(k *liveDesk) { k.venue.Deposit(owner, "20000") }, kind: account.Rejected, rule: account.RuleConfirm},
		"position closed":          {position: true, args: closeETH, change: func(k *liveDesk) { k.command("flatten") }, kind: account.Rejected, rule: engine.Reduce},
		"price moved after answer": {args: buyETH, race: func(k *liveDesk) { k.venue.SetPrice("ETH", "4050"); k.wait(); k.command("resume") }, kind: account.Rejected, rule: account.RuleConfirm},
	} {
		t.Run(name, func(t *testing.T) {
			k := openLive(t, "")
			if test.position {
				k.trade(buyETH)
			}
			asked := 0
			result, _, err := k.propose(strings.Replace(test.args, `{`, `{"clientOrderId":"0x00000000000000000000000000000001",`, 1), func(round int) string {
				if asked = round; round > 1 {
					return test.again
				}
				if test.change != nil {
					test.change(k)
				}
				k.wait()
				if test.race != nil {
					k.journal.before = func() { test.race(k) }
				}
				return "accept"
			})
			if err != nil || result.Kind != test.kind || result.Rule != test.rule {
				t.Fatalf("%+v, %v", result, err)
			}
			if want := 1 + len(test.again)/len("accept"); asked != want {
				t.Errorf("asked %d times, want %d", asked, want)
			}
			var sizes []string
			for _, o := range k.venue.Orders(owner) {
				if o.Cloid == "0x00000000000000000000000000000001" {
					sizes = append(sizes, o.Size.String())
				}
			}
			if got := strings.Join(sizes, " "); got != test.size {
				t.Errorf("placed %q, want %q", got, test.size)
			}
			if recorded := k.decisions(); recorded[0].Kind == account.Rejected && recorded[0].Detail == "" {
				t.Errorf("recorded without a reason: %+v", recorded[0])
			}
		})
	}
}

// confirmingYard serves a live account to the callers ann and bob over HTTP.
type confirmingYard struct {
	t     *testing.T
	url   string
	venue *fakemarkets.Hyperliquid
}

func openConfirming(t *testing.T) *confirmingYard {
	t.Helper()
	venue := newVenue(t)
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	config := fmt.Sprintf("store: memory\npacks:\n  trading:\n    hyperliquid: {url: %q, testnet: true}\n    accounts: {main: {broker: hyperliquid, address: %q, agentKey: %q}}\n"+
		"gates:\n  default: {mode: write, packs: {trading: {account: main}}}\n", venue.URL, owner, agentKey)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	y, err := yard.New(yard.Options{
		ConfigFile: file, Packs: map[string]yard.Pack{"trading": Pack()},
		Identify: func(r *http.Request) (toolyard.Caller, error) {
			name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			return toolyard.Caller{ID: name, Account: "acme"}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { y.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	<-y.Ready()
	server := httptest.NewServer(y.Handler())
	t.Cleanup(server.Close)
	return &confirmingYard{t, server.URL, venue}
}

// reply is the response to a call.
type reply struct {
	Result *struct {
		StructuredContent account.Result
		IsError           bool
	}
	InputRequired *struct{ State string }
	Error         toolyard.Code
}

// call proposes an order. more contains further members of the body, each preceded by a comma.
func (y *confirmingYard) call(caller, args, more string) (got reply) {
	y.t.Helper()
	body := fmt.Sprintf(`{"interactive":true,"tool":"propose_order","args":%s%s}`, args, more)
	r, err := http.NewRequestWithContext(y.t.Context(), http.MethodPost, y.url+"/api/v1/calls", strings.NewReader(body))
	if err != nil {
		y.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+caller)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		y.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
		y.t.Fatal(err)
	}
	return got
}

// ask proposes an order and returns the question's state.
func (y *confirmingYard) ask(caller, args, more string) string {
	y.t.Helper()
	got := y.call(caller, args, more)
	if got.InputRequired == nil || got.InputRequired.State == "" {
		y.t.Fatalf("no question: %+v", got)
	}
	return got.InputRequired.State
}

// accepting returns the body members that accept a question.
func accepting(state string) string {
	return fmt.Sprintf(`,"state":%q,"answers":{"confirm":{"action":"accept","content":{}}}`, state)
}

func TestForgedConsentPlacesNoOrder(t *testing.T) {
	y := openConfirming(t)
	state := y.ask("ann", buyETH, "")
	tampered := []byte(state)
	tampered[len(tampered)/2] ^= 1
	for name, got := range map[string]reply{
		"no state":         y.call("ann", buyETH, `,"answers":{"confirm":{"action":"accept","content":{}}}`),
		"tampered state":   y.call("ann", buyETH, accepting(string(tampered))),
		"longer state":     y.call("ann", buyETH, accepting(state+"A")),
		"own state":        y.call("ann", buyETH, accepting(`{"key":"confirm","open":{"state":"eyJwcmljZSI6IjQwMDAifQ=="}}`)),
		"another caller":   y.call("bob", buyETH, accepting(state)),
		"another size":     y.call("ann", strings.Replace(buyETH, `"0.1"`, `"0.2"`, 1), accepting(state)),
		"another side":     y.call("ann", strings.Replace(buyETH, "buy", "sell", 1), accepting(state)),
		"another symbol":   y.call("ann", strings.Replace(buyETH, "ETH", "BTC", 1), accepting(state)),
		"another order ID": y.call("ann", moreETH, accepting(state)),
	} {
		if got.Result != nil && !got.Result.IsError {
			t.Errorf("%s: %+v", name, got.Result)
		}
	}
	if orders := y.venue.Orders(owner); len(orders) != 0 {
		t.Fatalf("placed %+v", orders)
	}
	if got := y.call("ann", buyETH, accepting(state)); got.Result == nil || got.Result.StructuredContent.Kind != account.Executed || len(y.venue.Orders(owner)) != 1 {
		t.Errorf("the genuine answer: %+v", got)
	}
}

func TestOneConsentIsOneOrder(t *testing.T) {
	key := func(k string) string { return fmt.Sprintf(`,"idempotencyKey":%q`, k) }
	for name, test := range map[string]struct {
		asked, first, second string // idempotency keys of the calls
		repeated             bool   // whether the second answer has the first one's result
	}{
		"the same key":        {key("k1"), key("k1"), key("k1"), true},
		"another key":         {key("k1"), key("k1"), key("k2"), false},
		"a key for answers":   {"", key("k1"), key("k1"), true},
		"two keys for answer": {"", key("k1"), key("k2"), false},
		"no key":              {"", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			y := openConfirming(t)
			answer := accepting(y.ask("ann", buyETH, test.asked))
			first, second := y.call("ann", buyETH, answer+test.first), y.call("ann", buyETH, answer+test.second)
			if first.Result == nil || first.Result.StructuredContent.Kind != account.Executed {
				t.Fatalf("first answer: %+v", first)
			}
			succeeded := second.Result != nil && !second.Result.IsError
			if succeeded != test.repeated || succeeded && second.Result.StructuredContent.OrderID != first.Result.StructuredContent.OrderID {
				t.Errorf("second answer: %+v", second)
			}
			if orders := y.venue.Orders(owner); len(orders) != 1 {
				t.Errorf("placed %+v", orders)
			}
		})
	}
}

func TestKillOfAPaperAccountNeedsNoVenue(t *testing.T) {
	const resting = `{"symbol":"ETH","action":"open","side":"buy","size":"0.1","type":"limit","limitPrice":"3000",` + why + `}`
	for name, orders := range map[string]int{"without orders": 0, "with an open order": 1} {
		t.Run(name, func(t *testing.T) {
			venue := newVenue(t)
			var passed atomic.Int64
			now := func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
			p := packtest.Open(t, Pack(), packtest.Options{
				Settings: fmt.Sprintf(`{"hyperliquid":{"url":%q,"testnet":true},"accounts":{"lab":{"broker":"paper"}}}`, venue.URL), Now: now,
			})
			clients := p.Lend(yard.PackGate{Name: "test", Settings: json.RawMessage(`{"account":"lab"}`)})
			for range orders {
				if res, err := toolyardtest.Call(t, p.Tool("propose_order"), resting, &toolyardtest.Options{AsOf: now(), Clients: clients}); err != nil || !strings.Contains(toolyardtest.Text(res), "resting") {
					t.Fatalf("%s %v", toolyardtest.Text(res), err)
				}
			}
			venue.Down(true)
			passed.Store(int64(2 * time.Hour)) // all caches have expired
			res, err := toolyardtest.Call(t, p.Action("kill"), `{"account":"lab","reason":"a test"}`, nil)
			if err != nil || !strings.Contains(toolyardtest.Text(res), fmt.Sprintf("no orders are accepted until clear-halt; %d orders canceled", orders)) {
				t.Fatalf("%s %v", toolyardtest.Text(res), err)
			}
			venue.Down(false)
			passed.Add(int64(time.Minute))
			a := p.Source.(*Source).accounts["lab"]
			ledger, err := a.Ledger(t.Context(), now())
			if err != nil {
				t.Fatal(err)
			}
			if trading, _ := ledger.Trading(now()); trading != engine.Halted {
				t.Errorf("the account is %s", trading)
			}
			if s, err := a.Portfolio.At(t.Context(), now()); err != nil || len(s.Orders) != 0 {
				t.Errorf("%+v, %v", s.Orders, err)
			}
		})
	}
}
