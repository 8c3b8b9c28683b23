package markets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/acceptance/fakemarkets"
	"github.com/toolyard/toolyard/internal/base/leaktest"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/yard"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var _ toolyard.ContextProvider = (*Provider)(nil)

const (
	annAddress = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	bobAddress = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
)

var (
	ann = toolyard.Caller{ID: "ann-with-a-canary", Account: "account-with-a-canary", Roles: []string{"role-with-a-canary"}}
	bob = toolyard.Caller{ID: "bob"}
)

// linked contains links by caller and kind.
type linked map[[2]string]string

func (l linked) Linked(_ context.Context, c toolyard.Caller, kind string) (string, error) {
	return l[[2]string{c.ID, kind}], nil
}

// brokenLinks fails to look up links.
type brokenLinks struct{ err error }

func (b brokenLinks) Linked(context.Context, toolyard.Caller, string) (string, error) {
	return "", b.err
}

func annLinked(kind string) linked { return linked{{ann.ID, kind}: annAddress} }

// clock is a clock that changes only when a test moves it.
type clock struct {
	start sync.Once
	begin time.Time
	ahead atomic.Int64
}

func (c *clock) now() time.Time {
	c.start.Do(func() { c.begin = time.Now() })
	return c.begin.Add(time.Duration(c.ahead.Load()))
}

func (c *clock) pass(d time.Duration) { c.ahead.Add(int64(d)) }

// kinds creates the three providers, each with a fake service.
var kinds = map[string]func(*testing.T, Options) (*Provider, *fakemarkets.Server){
	hyperliquid: func(t *testing.T, o Options) (*Provider, *fakemarkets.Server) {
		f := fakemarkets.NewHyperliquid()
		return started(t, NewHyperliquid, o, f.Server), f.Server
	},
	polymarket: func(t *testing.T, o Options) (*Provider, *fakemarkets.Server) {
		f := fakemarkets.NewPolymarket()
		return started(t, NewPolymarket, o, f.Server), f.Server
	},
	wallet: func(t *testing.T, o Options) (*Provider, *fakemarkets.Server) {
		f := fakemarkets.NewEVM(8453)
		return started(t, NewWallet, o, f.Server), f.Server
	},
}

func started(t *testing.T, newProvider func(Options) (*Provider, error), o Options, f *fakemarkets.Server) *Provider {
	t.Helper()
	t.Cleanup(f.Close)
	o.URL = f.URL
	p, err := newProvider(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// eachKind runs a test for all three providers.
func eachKind(t *testing.T, test func(t *testing.T, kind string, start func(*testing.T, Options) (*Provider, *fakemarkets.Server))) {
	for kind, start := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, kind, start)
		})
	}
}

// mustFail checks that an error is a platform error with the given code and words.
func mustFail(t *testing.T, err error, code toolyard.Code, words ...string) toolyard.Error {
	t.Helper()
	e, ok := errors.AsType[*toolyard.Error](err)
	if !ok || e.Code != code {
		t.Fatalf("want %s, got %v", code, err)
	}
	for _, word := range words {
		if !strings.Contains(e.Message, word) {
			t.Errorf("%q does not contain %q", e.Message, word)
		}
	}
	return *e
}

// sameJSON compares JSON values, including every digit.
func sameJSON(t *testing.T, got json.RawMessage, want string) {
	t.Helper()
	if err := strictjson.Check(got); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if diff := cmp.Diff(decoded(t, []byte(want)), decoded(t, got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func decoded(t *testing.T, data []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return v
}

func TestKinds(t *testing.T) {
	if diff := cmp.Diff(slices.Sorted(maps.Keys(kinds)), slices.Sorted(maps.Keys(Kinds()))); diff != "" {
		t.Error(diff)
	}
	for kind, k := range Kinds() {
		settings := json.RawMessage(`{"url":"https://service.example","budget":1200}`)
		if issues, err := k.Settings.Check(t.Context(), settings); err != nil || len(issues) > 0 {
			t.Errorf("%s: %v %v", kind, issues, err)
		}
		p, err := k.New(yard.ProviderSetup{Settings: settings, Links: linked{}})
		if err != nil || p.(*Provider).kind != kind || p.(*Provider).client.limiter.Budget() != 1200 {
			t.Errorf("%s: %v", kind, err)
		}
		if issues, err := k.Settings.Check(t.Context(), json.RawMessage(`{"url":"ftp://service.example","tokns":[]}`)); err != nil || len(issues) != 2 {
			t.Errorf("%s: %v %v", kind, issues, err)
		}
		if k.CheckLink("0x52908400098527886E0F7030069857D2E4169EE7") != nil || k.CheckLink("0x1") == nil {
			t.Errorf("%s does not check links", kind)
		}
	}
	wallet := Kinds()["wallet"]
	p, err := wallet.New(yard.ProviderSetup{
		Settings: json.RawMessage(`{"url":"https://node.example","tokens":[{"symbol":"X","address":"0x52908400098527886E0F7030069857D2E4169EE7","decimals":6}]}`), Links: linked{},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.(*Provider).Close(); err != nil {
		t.Error(err)
	}
	if issues, _ := wallet.Settings.Check(t.Context(), json.RawMessage(`{}`)); len(issues) != 1 {
		t.Errorf("a wallet without a url: %v", issues)
	}
}

func TestNotLinked(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string, start func(*testing.T, Options) (*Provider, *fakemarkets.Server)) {
		p, f := start(t, Options{Links: annLinked(kind)})
		_, err := p.Provide(t.Context(), bob, time.Now())
		mustFail(t, err, toolyard.NoData, kind, "Link your wallet", "toolyard accounts link CALLER "+kind)
		if n := len(f.Requests()); n != 0 {
			t.Errorf("%d requests were made without a caller", n)
		}
	})
}

func TestLinks(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string, start func(*testing.T, Options) (*Provider, *fakemarkets.Server)) {
		asked := func(links yard.Links) string {
			p, f := start(t, Options{Links: links})
			if _, err := p.Provide(t.Context(), ann, time.Now()); err != nil {
				t.Fatal(err)
			}
			r := f.Requests()[0]
			return strings.ToLower(r.Query + r.Body)
		}
		digits := func(address string) string { return strings.ToLower(address[2:]) }
		if got := asked(annLinked(wallet)); !strings.Contains(got, digits(annAddress)) {
			t.Errorf("the wallet was not used: %s", got)
		}
		if got := asked(linked{{ann.ID, wallet}: bobAddress, {ann.ID, kind}: annAddress}); !strings.Contains(got, digits(annAddress)) {
			t.Errorf("the wallet was used, and not the account: %s", got)
		}

		p, _ := start(t, Options{Links: linked{{ann.ID, kind}: "ann.eth"}})
		_, err := p.Provide(t.Context(), ann, time.Now())
		mustFail(t, err, toolyard.NoData, kind, "not a valid address")

		p, _ = start(t, Options{Links: brokenLinks{errors.New("canary")}})
		_, err = p.Provide(t.Context(), ann, time.Now())
		if e := mustFail(t, err, toolyard.Unavailable); strings.Contains(e.Message, "canary") {
			t.Error(e.Message)
		}
		p, _ = start(t, Options{Links: brokenLinks{context.Canceled}})
		_, err = p.Provide(t.Context(), ann, time.Now())
		mustFail(t, err, toolyard.Canceled)
	})
}

func TestEmpty(t *testing.T) {
	want := map[string]string{
		hyperliquid: `{"marginSummary":{"accountValue":"0.0","totalNtlPos":"0.0","totalRawUsd":"0.0","totalMarginUsed":"0.0"},
			"crossMarginSummary":{"accountValue":"0.0","totalNtlPos":"0.0","totalRawUsd":"0.0","totalMarginUsed":"0.0"},
			"withdrawable":"0.0","assetPositions":[],"spotBalances":[],"time":0,"walletAddress":"` + annAddress + `","fetchedAt":""}`,
		polymarket: `{"positions":[],"openOrders":[],"balance":null,"note":"` + noteHidden + `"}`,
		wallet:     `{"address":"` + annAddress + `","chainId":8453,"nativeBalance":"0","balances":[]}`,
	}
	eachKind(t, func(t *testing.T, kind string, start func(*testing.T, Options) (*Provider, *fakemarkets.Server)) {
		p, _ := start(t, Options{Links: annLinked(kind)})
		got, err := p.Provide(t.Context(), ann, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		sameJSON(t, timeless(t, got), want[kind])
	})
}

// timeless removes the times from context data.
func timeless(t *testing.T, data json.RawMessage) json.RawMessage {
	t.Helper()
	var o map[string]json.RawMessage
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	if o["time"] != nil {
		var at time.Time
		if err := json.Unmarshal(o["fetchedAt"], &at); err != nil || time.Since(at).Abs() > time.Minute {
			t.Errorf("fetchedAt is %s", o["fetchedAt"])
		}
		o["time"], o["fetchedAt"] = json.RawMessage("0"), json.RawMessage(`""`)
	}
	data, _ = json.Marshal(o)
	return data
}

func TestThePastIsUnknown(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string, start func(*testing.T, Options) (*Provider, *fakemarkets.Server)) {
		p, f := start(t, Options{Links: annLinked(kind)})
		for _, asOf := range []time.Time{{}, time.Now().Add(-5*time.Minute - time.Second), time.Now().AddDate(-1, 0, 0)} {
			_, err := p.Provide(t.Context(), ann, asOf)
			mustFail(t, err, toolyard.NoData, kind, "past")
		}
		if n := len(f.Requests()); n != 0 {
			t.Errorf("%d requests were made about the past", n)
		}
		for _, asOf := range []time.Time{time.Now().Add(-4 * time.Minute), time.Now(), time.Now().Add(time.Second)} {
			if _, err := p.Provide(t.Context(), ann, asOf); err != nil {
				t.Errorf("%s: %v", asOf, err)
			}
		}
	})
}

func TestFailures(t *testing.T) {
	tests := map[string]struct {
		fail  func(*fakemarkets.Server)
		words string
		after time.Duration
	}{
		"down":        {func(s *fakemarkets.Server) { s.Down(true) }, "is unreachable", 0},
		"500":         {func(s *fakemarkets.Server) { s.Status(500) }, "status 500", 0},
		"503 later":   {func(s *fakemarkets.Server) { s.Status(503); s.RetryAfter("7") }, "status 503", 7 * time.Second},
		"204":         {func(s *fakemarkets.Server) { s.Status(204) }, "status 204", 0},
		"429":         {func(s *fakemarkets.Server) { s.Status(429) }, "too many requests", time.Second},
		"429 later":   {func(s *fakemarkets.Server) { s.Status(429); s.RetryAfter("30") }, "too many requests", 30 * time.Second},
		"429 for age": {func(s *fakemarkets.Server) { s.Status(429); s.RetryAfter("4000000000") }, "too many requests", time.Minute},
		"cut":         {func(s *fakemarkets.Server) { s.Cut(true) }, "is unreachable", 0},
		"a page":      {func(s *fakemarkets.Server) { s.Garbage("<html>canary</html>") }, "did not return JSON", 0},
		"null":        {func(s *fakemarkets.Server) { s.Garbage("null") }, "did not return", 0},
		"an object":   {func(s *fakemarkets.Server) { s.Garbage(`{"canary":{}}`) }, "did not return", 0},
		"odd list":    {func(s *fakemarkets.Server) { s.Garbage(`["canary"]`) }, "did not return", 0},
		"twice":       {func(s *fakemarkets.Server) { s.Garbage(`{"a":1,"a":2}`) }, "did not return JSON", 0},
		"deep":        {func(s *fakemarkets.Server) { s.Garbage(strings.Repeat("[", 100) + strings.Repeat("]", 100)) }, "did not return JSON", 0},
		"too large":   {func(s *fakemarkets.Server) { s.Garbage(`"` + strings.Repeat("x", maxBody) + `"`) }, "exceeds", 0},
	}
	eachKind(t, func(t *testing.T, kind string, start func(*testing.T, Options) (*Provider, *fakemarkets.Server)) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				var c clock
				p, f := start(t, Options{Links: annLinked(kind), Now: c.now})
				test.fail(f)
				_, err := p.Provide(t.Context(), ann, c.now())
				e := mustFail(t, err, toolyard.Unavailable, test.words)
				if e.RetryAfter != test.after || strings.Contains(e.Message, "canary") {
					t.Errorf("%s, after %s", e.Message, e.RetryAfter)
				}
				f.Down(false)
				f.Status(0)
				f.Cut(false)
				f.Garbage("")
				c.pass(test.after)
				if _, err := p.Provide(t.Context(), ann, c.now()); err != nil {
					t.Errorf("the failure was kept: %v", err)
				}
			})
		}
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string, start func(*testing.T, Options) (*Provider, *fakemarkets.Server)) {
		var c clock
		p, f := start(t, Options{Links: annLinked(kind), Now: c.now})
		f.Status(http.StatusTooManyRequests)
		f.RetryAfter("20")
		_, err := p.Provide(t.Context(), ann, time.Now())
		mustFail(t, err, toolyard.Unavailable)
		f.Status(0)
		before := len(f.Requests())
		_, err = p.Provide(t.Context(), ann, time.Now())
		if e := mustFail(t, err, toolyard.Unavailable, "too many requests"); e.RetryAfter != 20*time.Second {
			t.Error(e.RetryAfter)
		}
		if after := len(f.Requests()); after != before {
			t.Errorf("%d requests were made in the meantime", after-before)
		}
	})
}

func TestSlow(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string, start func(*testing.T, Options) (*Provider, *fakemarkets.Server)) {
		p, f := start(t, Options{Links: annLinked(kind)})
		f.Delay(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := p.Provide(ctx, ann, time.Now())
		mustFail(t, err, toolyard.Unavailable, "in time")

		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err = p.Provide(ctx, ann, time.Now())
		mustFail(t, err, toolyard.Canceled)
	})
}

func TestBudget(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string, start func(*testing.T, Options) (*Provider, *fakemarkets.Server)) {
		weight := map[string]int{hyperliquid: 4, polymarket: 1, wallet: 1}[kind]
		links := linked{}
		for i := range 10 {
			links[[2]string{fmt.Sprint(i), kind}] = fmt.Sprintf("0x%040x", i)
		}
		var c clock
		p, f := start(t, Options{Links: links, Budget: 3*weight + weight/2, Now: c.now})
		for i := range 10 {
			_, err := p.Provide(t.Context(), toolyard.Caller{ID: fmt.Sprint(i)}, time.Now())
			if i < 3 {
				if err != nil {
					t.Fatal(i, err)
				}
				continue
			}
			if e := mustFail(t, err, toolyard.Unavailable); e.RetryAfter < 50*time.Second || e.RetryAfter > 61*time.Second {
				t.Error(e.RetryAfter)
			}
		}
		if per := max(weight/2, 1); len(f.Requests()) != 3*per {
			t.Errorf("%d requests", len(f.Requests()))
		}
	})
}

// The service has its own limit, which other clients may have used up.
func TestTheServiceIsBusy(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string, start func(*testing.T, Options) (*Provider, *fakemarkets.Server)) {
		p, f := start(t, Options{Links: annLinked(kind)})
		f.Budget(0)
		_, err := p.Provide(t.Context(), ann, time.Now())
		mustFail(t, err, toolyard.Unavailable, "too many requests")
	})
}

func TestManyShareOneAnswer(t *testing.T) {
	eachKind(t, func(t *testing.T, kind string, start func(*testing.T, Options) (*Provider, *fakemarkets.Server)) {
		var c clock
		p, f := start(t, Options{Links: annLinked(kind), Now: c.now})
		f.Delay(20 * time.Millisecond)
		ask := func() {
			if _, err := p.Provide(t.Context(), ann, c.now()); err != nil {
				t.Error(err)
			}
		}
		var all sync.WaitGroup
		for range 100 {
			all.Go(ask)
		}
		all.Wait()
		one := map[string]int{hyperliquid: 2, polymarket: 1, wallet: 1}[kind]
		if n := len(f.Requests()); n != one {
			t.Errorf("%d requests for 100 calls", n)
		}
		c.pass(cacheTTL - time.Second)
		if ask(); len(f.Requests()) != one {
			t.Errorf("%d requests, although the answer is recent", len(f.Requests()))
		}
		c.pass(time.Second)
		if ask(); len(f.Requests()) != 2*one {
			t.Errorf("%d requests, although the answer is old", len(f.Requests()))
		}
	})
}

func TestNoCredentialIsSent(t *testing.T) {
	allowed := []string{"Accept", "Accept-Encoding", "Content-Length", "Content-Type", "User-Agent"}
	eachKind(t, func(t *testing.T, kind string, start func(*testing.T, Options) (*Provider, *fakemarkets.Server)) {
		p, f := start(t, Options{Links: annLinked(kind), Tokens: []Token{{Address: bobAddress}}})
		type key struct{}
		_, _ = p.Provide(context.WithValue(t.Context(), key{}, "Bearer canary"), ann, time.Now())
		if len(f.Requests()) == 0 {
			t.Fatal("nothing was asked")
		}
		for _, r := range f.Requests() {
			for name := range r.Header {
				if !slices.Contains(allowed, name) {
					t.Errorf("a request has header %s", name)
				}
			}
			if strings.Contains(fmt.Sprint(r), "canary") {
				t.Errorf("a request names the caller: %v", r)
			}
		}
	})
}

func TestFailuresAreLoggedOnce(t *testing.T) {
	var text bytes.Buffer
	var c clock
	f := fakemarkets.NewHyperliquid()
	p := started(t, NewHyperliquid, Options{Links: annLinked(wallet), Now: c.now, Log: slog.New(slog.NewTextHandler(&text, nil))}, f.Server)
	for _, down := range []bool{true, true, true, false, false} {
		f.Down(down)
		_, _ = p.Provide(t.Context(), ann, c.now())
		c.pass(cacheTTL)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[1], "recovered") {
		t.Errorf("%q", lines)
	}
	if strings.Contains(strings.ToLower(text.String()), strings.ToLower(annAddress[2:])) {
		t.Error("the log names an address")
	}
}

func TestPassedValuesAreCopied(t *testing.T) {
	f := fakemarkets.NewHyperliquid()
	p := started(t, NewHyperliquid, Options{Links: annLinked(wallet)}, f.Server)
	first, err := p.Provide(t.Context(), ann, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	clear(first)
	if second, err := p.Provide(t.Context(), ann, time.Now()); err != nil || strictjson.Check(second) != nil {
		t.Errorf("%s, %v", second, err)
	}
}

func TestOptions(t *testing.T) {
	links := annLinked(wallet)
	seven, many := -1, maxDecimals+1
	tests := map[string]struct {
		make  func(Options) (*Provider, error)
		opts  Options
		words string
	}{
		"no links":       {NewHyperliquid, Options{}, "Links"},
		"no url":         {NewWallet, Options{Links: links}, "url: required"},
		"bad url":        {NewPolymarket, Options{Links: links, URL: "http://a b/?key=canary"}, "cannot be parsed"},
		"odd url":        {NewPolymarket, Options{Links: links, URL: "ftp://example.com"}, "http"},
		"little budget":  {NewHyperliquid, Options{Links: links, Budget: 3}, "at least 4"},
		"no budget":      {NewPolymarket, Options{Links: links, Budget: -1}, "at least 1"},
		"odd token":      {NewWallet, Options{Links: links, URL: "https://example.com", Tokens: []Token{{Address: "0x1"}}}, "tokens[0]"},
		"few decimals":   {NewWallet, Options{Links: links, URL: "https://example.com", Tokens: []Token{{Address: annAddress, Decimals: &seven}}}, "decimals"},
		"many decimals":  {NewWallet, Options{Links: links, URL: "https://example.com", Tokens: []Token{{Address: annAddress, Decimals: &many}}}, "decimals"},
		"many tokens":    {NewWallet, Options{Links: links, URL: "https://example.com", Tokens: make([]Token, maxTokens+1)}, "at most"},
		"private":        {NewWallet, Options{Links: links, URL: "http://169.254.169.254"}, "public"},
		"public is fine": {NewPolymarket, Options{Links: links}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := test.make(test.opts)
			switch {
			case test.words == "":
				if err != nil || p.client.url.String() != "https://data-api.polymarket.com/positions" {
					t.Error(err)
				}
			case err == nil || !strings.Contains(err.Error(), test.words) || strings.Contains(err.Error(), "canary"):
				t.Errorf("%v does not contain %q", err, test.words)
			}
		})
	}
}
