package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/acceptance/fakemarkets"
	"github.com/toolyard/toolyard/internal/store/pgtest"
)

// declaring configures a fakemcp server with tools that declare terms, and returns the file in
// which it records their calls.
func declaring(t *testing.T, id, tools string, lines ...string) (entry, notes string) {
	t.Helper()
	dir := t.TempDir()
	file, notes := filepath.Join(dir, "tools.json"), filepath.Join(dir, "notes")
	if err := os.WriteFile(file, []byte(tools), 0o600); err != nil {
		t.Fatal(err)
	}
	return server(id, append([]string{
		fmt.Sprintf("command: %q", filepath.Join(bin, "fakemcp")), fmt.Sprintf("args: [-name, %q, -tools, %q, -notes, %q]", id, file, notes),
		`effects: {"*": read}`,
	}, lines...)...), notes
}

// upstreamCall is a call recorded by a declared tool of fakemcp.
type upstreamCall struct {
	Tool         string
	Arguments    map[string]json.RawMessage
	Began, Ended time.Time
}

func upstreamCalls(t *testing.T, notes string) (calls []upstreamCall) {
	t.Helper()
	data, err := os.ReadFile(notes)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var c upstreamCall
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		calls = append(calls, c)
	}
	slices.SortFunc(calls, func(a, b upstreamCall) int { return a.Began.Compare(b.Began) })
	return calls
}

// stores runs a test on the setups that have the same guarantees: one node, and two nodes that
// share PostgreSQL.
func stores(t *testing.T, test func(t *testing.T, store string, replicas int)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, "sqlite:"+filepath.Join(t.TempDir(), "yard.db"), 1)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, pgtest.ForTest(t).Database(t), 2)
	})
}

func TestDeclaredRateLimitsAreEnforced(t *testing.T) {
	t.Parallel()
	const tools = `[
		{"name":"hinted","_meta":{"rateLimit":{"cooldownMs":1500,"maxConcurrency":1}}},
		{"name":"alias","_meta":{"rateLimitHints":{"cooldownMs":1500,"maxConcurrency":1}}},
		{"name":"rare","_meta":{"rateLimit":{"maxRequestsPerMinute":3}}}]`
	stores(t, func(t *testing.T, store string, replicas int) {
		entry, notes := declaring(t, "up", tools)
		f := newFleet(t, replicas, store, fmt.Sprintf("store: %q\nlimits: {wait: 12s}\n", store)+servers(entry))
		var wg sync.WaitGroup
		for _, tool := range []string{"hinted", "alias"} {
			wg.Go(func() { f.together(3, "mcp_up__"+tool, `{"ms":100}`) })
		}
		answers := f.together(4, "mcp_up__rare", `{}`)
		wg.Wait()
		seen := make(map[string][]upstreamCall)
		for _, c := range upstreamCalls(t, notes) {
			seen[c.Tool] = append(seen[c.Tool], c)
		}
		for _, tool := range []string{"hinted", "alias"} {
			calls := seen[tool]
			if len(calls) != 3 {
				t.Fatalf("%s: %d calls arrived", tool, len(calls))
			}
			for i := 1; i < len(calls); i++ {
				if calls[i].Began.Before(calls[i-1].Ended) {
					t.Errorf("%s: call %d started %s before the previous one ended", tool, i, calls[i-1].Ended.Sub(calls[i].Began))
				}
			}
			if all := calls[2].Began.Sub(calls[0].Began); all < 2*time.Second { // two cooldowns are 3 s, but the first call may arrive late
				t.Errorf("%s: three calls started within %s", tool, all)
			}
		}
		if n := len(seen["rare"]); n != 3 {
			t.Errorf("rare: %d calls arrived", n)
		}
		refused := 0
		for _, m := range answers {
			if m.result(t).IsError {
				refused++
				if got := failed(t, m, "RATE_LIMITED", true); got.RetryAfterMs <= 0 || got.RetryAfterMs > 65_000 {
					t.Errorf("retry after %d ms", got.RetryAfterMs)
				}
			}
		}
		if refused != 1 {
			t.Errorf("rare: %d of 4 calls were refused", refused)
		}
	})
}

// together calls a tool n times concurrently, alternating between the replicas.
func (f *fleet) together(n int, tool, args string) []message {
	f.t.Helper()
	answers := make([]message, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			answers[i] = call(f.t, modernHTTP{t: f.t, url: "http://" + f.replicas[i%len(f.replicas)].address + "/mcp"}, tool, args)
		})
	}
	wg.Wait()
	return answers
}

func TestRateLimitGuidanceIsShown(t *testing.T) {
	t.Parallel()
	entry, _ := declaring(t, "up", `[{"name":"single","description":"Reads one.","_meta":{"rateLimit":
		{"maxRequestsPerMinute":30,"supportsBulk":true,"recommendedBatchTools":["get_portfolio_snapshot"],"notes":"Hobby tier: prefer the snapshot."}}}]`)
	p := serve(t, "toolyard", servers(entry))
	m, _ := modernHTTP{t: t, url: p.url}.send("1", "tools/list", "")
	for what, text := range map[string]string{"catalog": p.catalogEntry("mcp_up__single"), "list": defined(t, m, "mcp_up__single", "description")} {
		for _, want := range []string{"get_portfolio_snapshot", "Hobby tier: prefer the snapshot."} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %s", what, want, text)
			}
		}
	}
	var e struct{ RateLimit map[string]any }
	if err := json.Unmarshal([]byte(p.catalogEntry("mcp_up__single")), &e); err != nil || e.RateLimit["supportsBulk"] != true {
		t.Errorf("the catalog's rateLimit is %v (%v)", e.RateLimit, err)
	}
	if text := defined(t, m, "mcp_up__single", "description"); !strings.Contains(strings.ToLower(text), "many") && !strings.Contains(strings.ToLower(text), "batch") && !strings.Contains(strings.ToLower(text), "bulk") {
		t.Errorf("the description does not mention bulk calls: %s", text)
	}
}

// catalogEntry returns a tool's entry in the catalog.
func (p *process) catalogEntry(name string) string {
	p.t.Helper()
	var entries []json.RawMessage
	if err := json.Unmarshal([]byte(p.get("/api/tools/catalog")), &entries); err != nil {
		p.t.Fatal(err)
	}
	for _, e := range entries {
		var named struct{ Name string }
		if err := json.Unmarshal(e, &named); err == nil && named.Name == name {
			return string(e)
		}
	}
	p.t.Fatalf("the catalog has no %s", name)
	return ""
}

// defined returns a member of a tool's definition in a tool list.
func defined(t *testing.T, m message, name, member string) string {
	t.Helper()
	var list struct{ Tools []map[string]json.RawMessage }
	if m.Error != nil {
		t.Fatal(m.Error)
	}
	if err := json.Unmarshal(m.Result, &list); err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if string(tool["name"]) == strconv.Quote(name) {
			return string(tool[member])
		}
	}
	t.Fatalf("%s is not listed", name)
	return ""
}

const (
	wallet          = "0x52908400098527886E0F7030069857D2E4169EE7"
	emptyWallet     = "0x8617E340B3D01FA5F11F306F4090FD50E238070D"
	worthlessWallet = "0x27b1fdb04752bbc536007a920d24acb045561c26"
)

// analysts are upstream tools that require context.
const analysts = `[
	{"name":"analyze_my_positions","_meta":{"contextRequirements":["hyperliquid"]},
	 "inputSchema":{"type":"object","properties":{"portfolio":{"type":"object"},"depth":{"type":"integer"}},"required":["portfolio"]}},
	{"name":"analyze_both","_meta":{"contextRequirements":["hyperliquid","wallet"]},
	 "inputSchema":{"type":"object","properties":{"hyperliquidPortfolio":{"type":"object"},"walletPortfolio":{"type":"object"}},"required":["hyperliquidPortfolio","walletPortfolio"]}}]`

// analysis is a replica with the analysts behind it, and the services that provide their context.
// Every request to the analysts is captured.
type analysis struct {
	*fleet
	hyperliquid *fakemarkets.Hyperliquid
	evm         *fakemarkets.EVM
	notes       string
	captured    *capture
}

func newAnalysis(t *testing.T) *analysis {
	t.Helper()
	a := &analysis{hyperliquid: fakemarkets.NewHyperliquid(), evm: fakemarkets.NewEVM(8453)}
	t.Cleanup(a.hyperliquid.Close)
	t.Cleanup(a.evm.Close)
	a.hyperliquid.Set(wallet, fakemarkets.HyperliquidAccount{AccountValue: "1000.5", TotalNtlPos: "6003.0", Positions: []fakemarkets.HyperliquidPosition{
		{Coin: "ETH", Szi: "-2.5", EntryPx: "2400.1", PositionValue: "6003.0", UnrealizedPnl: "-12.25", Leverage: 20},
	}})
	a.evm.SetBalance(wallet, big.NewInt(1_500_000_000_000_000_000))
	dir := t.TempDir()
	tools := filepath.Join(dir, "tools.json")
	a.notes = filepath.Join(dir, "notes")
	if err := os.WriteFile(tools, []byte(analysts), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	fake := &process{t: t, dir: dir}
	fake.launch("fakemcp", nil, "-http", address, "-tools", tools, "-notes", a.notes)
	a.captured = newCapture(t, address)
	a.fleet = newFleet(t, 1, "", fmt.Sprintf("store: %q\ncontext: {hyperliquid: {url: %q}, wallet: {url: %q, chain: 8453}}\n", "sqlite:"+filepath.Join(dir, "yard.db"), a.hyperliquid.URL, a.evm.URL)+
		"gates: {default: {mode: read, callers: keys}}\n"+servers(onHTTP("up", a.captured.URL+"/mcp", `effects: {"*": read}`)))
	return a
}

// as returns an MCP client with a caller's key.
func (a *analysis) as(caller string) modernHTTP {
	a.t.Helper()
	return modernHTTP{t: a.t, url: "http://" + a.replicas[0].address + "/mcp", key: a.buyer(caller, caller, "").token}
}

// capture forwards requests and stores a copy of each, with its headers.
type capture struct {
	*httptest.Server
	mu   sync.Mutex
	seen bytes.Buffer
}

func newCapture(t *testing.T, address string) *capture {
	t.Helper()
	c := new(capture)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	proxy.FlushInterval = -1
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dump, err := httputil.DumpRequest(r, true)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		c.seen.Write(dump)
		c.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		c.CloseClientConnections()
		c.Close()
	})
	return c
}

func (c *capture) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.String()
}

// last returns the arguments of the last call that reached an analyst.
func (a *analysis) last() map[string]json.RawMessage {
	a.t.Helper()
	calls := upstreamCalls(a.t, a.notes)
	if len(calls) == 0 {
		a.t.Fatal("no call arrived")
	}
	return calls[len(calls)-1].Arguments
}

// portfolio contains the members of a Hyperliquid portfolio that the tests check.
type portfolio struct {
	MarginSummary  struct{ AccountValue string }
	AssetPositions []struct{ Position struct{ Coin, Szi string } }
}

func portfolioOf(t *testing.T, raw json.RawMessage) (p portfolio) {
	t.Helper()
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return p
}

func TestContextIsInjected(t *testing.T) {
	t.Parallel()
	a := newAnalysis(t)
	a.command("accounts", "link", "alice", "hyperliquid", wallet)
	alice := a.as("alice")
	for _, args := range []string{`{}`, `{"portfolio":{"marginSummary":{"accountValue":"1"},"assetPositions":[]},"depth":3}`} {
		text(t, call(t, alice, "mcp_up__analyze_my_positions", args))
		got := portfolioOf(t, a.last()["portfolio"])
		if got.MarginSummary.AccountValue != "1000.5" || len(got.AssetPositions) != 1 || got.AssetPositions[0].Position.Coin != "ETH" || got.AssetPositions[0].Position.Szi != "-2.5" {
			t.Errorf("%s: the tool got %+v", args, got)
		}
	}
	if got := string(a.last()["depth"]); got != "3" {
		t.Errorf("the caller's own argument became %q", got)
	}
	m, _ := alice.send("1", "tools/list", "")
	if schema := defined(t, m, "mcp_up__analyze_my_positions", "inputSchema"); strings.Contains(schema, "portfolio") || !strings.Contains(schema, "depth") {
		t.Errorf("the model sees %s", schema)
	}
}

func TestSeveralContextsAreInjectedApart(t *testing.T) {
	t.Parallel()
	a := newAnalysis(t)
	a.command("accounts", "link", "alice", "hyperliquid", wallet)
	a.command("accounts", "link", "alice", "wallet", wallet)
	text(t, call(t, a.as("alice"), "mcp_up__analyze_both", `{"walletPortfolio":{"forged":true}}`))
	got := a.last()
	if p := portfolioOf(t, got["hyperliquidPortfolio"]); p.MarginSummary.AccountValue != "1000.5" {
		t.Errorf("hyperliquidPortfolio is %s", got["hyperliquidPortfolio"])
	}
	var w struct {
		Address, NativeBalance string
		ChainID                int `json:"chainId"`
	}
	if err := json.Unmarshal(got["walletPortfolio"], &w); err != nil || w.Address != wallet || w.ChainID != 8453 || w.NativeBalance != "1.5" {
		t.Errorf("walletPortfolio is %s (%v)", got["walletPortfolio"], err)
	}
	if len(got) != 2 {
		t.Errorf("the tool got %d arguments", len(got))
	}
}

func TestContextErrorsAreDistinguishable(t *testing.T) {
	t.Parallel()
	a := newAnalysis(t)
	a.command("accounts", "link", "alice", "hyperliquid", wallet)
	a.command("accounts", "link", "bob", "hyperliquid", emptyWallet)
	alice, bob, carol := a.as("alice"), a.as("bob"), a.as("carol")
	const tool = "mcp_up__analyze_my_positions"
	if f := failed(t, call(t, carol, tool, "{}"), "NO_DATA", false); !strings.Contains(strings.ToLower(f.Message), "link") || !strings.Contains(f.Message, "wallet") {
		t.Errorf("a caller without a link gets %q", f.Message)
	}
	text(t, call(t, bob, tool, "{}"))
	if p := a.last()["portfolio"]; !strings.Contains(string(p), `"assetPositions":[]`) {
		t.Errorf("an empty account has %s", p)
	}
	arrived := len(upstreamCalls(t, a.notes))
	a.hyperliquid.Down(true)
	failed(t, call(t, alice, tool, "{}"), "UNAVAILABLE", false)
	a.hyperliquid.Down(false)
	if got := len(upstreamCalls(t, a.notes)); got != arrived {
		t.Error("the tool ran without its context")
	}
	text(t, call(t, alice, tool, "{}"))

	seen := a.captured.text() + fmt.Sprint(a.hyperliquid.Requests())
	if !strings.Contains(seen, "analyze_my_positions") || !strings.Contains(seen, strings.ToLower(wallet)) && !strings.Contains(seen, wallet) {
		t.Fatalf("the request was not captured: %s", seen)
	}
	for _, c := range []modernHTTP{alice, bob, carol} {
		secret := c.key[strings.LastIndex(c.key, "_")+1:]
		if strings.Contains(seen, c.key) || strings.Contains(seen, secret) {
			t.Error("the token of a caller was passed on")
		}
	}
	for _, header := range []string{"authorization:", "cookie:", "authorization:[", "cookie:["} {
		if strings.Contains(strings.ToLower(seen), header) {
			t.Errorf("unexpected header %s", header)
		}
	}
}

func TestPortfolioExampleScoresRisk(t *testing.T) {
	t.Parallel()
	hyperliquid := fakemarkets.NewHyperliquid()
	t.Cleanup(hyperliquid.Close)
	risky := fakemarkets.HyperliquidAccount{AccountValue: "1000"}
	for i := range 11 {
		p := fakemarkets.HyperliquidPosition{Coin: fmt.Sprint("C", i), Szi: "1", EntryPx: "500", PositionValue: "500", UnrealizedPnl: "0", Leverage: 2}
		if i == 7 {
			p.Coin, p.Szi, p.PositionValue, p.Leverage = "BIG", "-1", "-1000", 20
		}
		risky.Positions = append(risky.Positions, p)
	}
	hyperliquid.Set(wallet, risky)
	worthless := risky
	worthless.AccountValue = "0"
	hyperliquid.Set(worthlessWallet, worthless)
	example, err := filepath.Abs("../examples/portfolio/tools")
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, 1, "", fmt.Sprintf("store: %q\ncontext: {hyperliquid: {url: %q}}\nscripts: {dir: %q}\ngates: {default: {mode: write, callers: keys}}\n",
		"sqlite:"+filepath.Join(t.TempDir(), "yard.db"), hyperliquid.URL, example))
	for caller, tt := range map[string]struct{ address, text, structured string }{
		"risky":     {wallet, "Risk Score: 90/100. Leverage: 6.00x", `{"riskScore":90,"leverageRatio":6,"largestPosition":"BIG","recommendations":["Consider reducing leverage","Portfolio may be over-diversified"]}`},
		"worthless": {worthlessWallet, "Risk Score: 50/100. Leverage: 0.00x", `{"riskScore":50,"leverageRatio":0,"largestPosition":"BIG","recommendations":["Portfolio may be over-diversified"]}`},
		"empty":     {emptyWallet, "Risk Score: 0/100. Leverage: 0.00x", `{"riskScore":0,"leverageRatio":0,"largestPosition":"None","recommendations":[]}`},
	} {
		f.command("accounts", "link", caller, "hyperliquid", tt.address)
		m := call(t, modernHTTP{t: t, url: "http://" + f.replicas[0].address + "/mcp", key: f.buyer(caller, caller, "").token}, "analyze_portfolio_risk", "{}")
		if got := text(t, m); got != tt.text {
			t.Errorf("%s: %q", caller, got)
		}
		var want, got map[string]any
		if err := errors.Join(json.Unmarshal([]byte(tt.structured), &want), json.Unmarshal(m.result(t).Structured, &got)); err != nil {
			t.Fatal(err)
		}
		for name, value := range want {
			if diff := cmp.Diff(value, got[name]); diff != "" {
				t.Errorf("%s: %s: %s", caller, name, diff)
			}
		}
	}
}

// truthTable returns tools for each row in the table of surfaces, both regular and streaming, and
// the tools that each gate should list.
func truthTable(t *testing.T) (tools string, answer, execute []string) {
	t.Helper()
	var defs []map[string]any
	add := func(name string, meta map[string]any, inAnswer, inExecute bool) {
		def := map[string]any{"name": name}
		if meta != nil {
			def["_meta"] = meta
		}
		defs = append(defs, def)
		if inAnswer {
			answer = append(answer, "mcp_up__"+name)
		}
		if inExecute {
			execute = append(execute, "mcp_up__"+name)
		}
	}
	for _, row := range []struct {
		surface          string
		query            bool
		price            bool
		answers, execute bool
	}{
		{"both", true, true, true, true},
		{"both", true, false, true, false},
		{"both", false, true, false, true},
		{"both", false, false, false, false},
		{"answer", true, true, true, false},
		{"answer", true, false, true, false},
		{"answer", false, true, false, false},
		{"answer", false, false, false, false},
		{"execute", false, true, false, true},
		{"execute", false, false, false, false},
		{"execute", true, true, false, true},
		{"execute", true, false, false, false},
	} {
		for _, latency := range []string{"fast", "streaming"} {
			meta := map[string]any{"surface": row.surface, "queryEligible": row.query, "latencyClass": latency}
			if row.price {
				meta["pricing"] = map[string]any{"executeUsd": "0.001"}
			}
			name := fmt.Sprintf("%s_%t_%t_%s", row.surface, row.query, row.price, latency)
			add(name, meta, row.answers && latency != "streaming", row.execute)
		}
	}
	add("legacy", nil, true, false)
	data, err := json.Marshal(defs)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(answer)
	slices.Sort(execute)
	return string(data), answer, execute
}

func TestSurfacesOfferTheirTools(t *testing.T) {
	t.Parallel()
	tools, answer, execute := truthTable(t)
	entry, _ := declaring(t, "up", tools, "tools: ["+strings.Join(names(t, tools), ", ")+"]")
	f := newFleet(t, 1, "", fmt.Sprintf("store: %q\n", "sqlite:"+filepath.Join(t.TempDir(), "yard.db"))+
		"gates: {answer: {mode: read, surface: answer}, execute: {mode: read, surface: execute, callers: keys}}\n"+servers(entry))
	b := f.buyer("alice", "acme", "10")
	for gate, want := range map[string][]string{"answer": answer, "execute": execute} {
		c := modernHTTP{t: t, url: b.bases[0] + "/mcp/" + gate, key: b.token}
		var got []string
		for _, name := range listTools(t, c) {
			if strings.HasPrefix(name, "mcp_up__") {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", gate, diff)
		}
		for _, name := range names(t, tools) {
			m := call(t, c, "mcp_up__"+name, "{}")
			if slices.Contains(want, "mcp_up__"+name) {
				text(t, m)
			} else if m.Error == nil || !strings.Contains(string(m.Error.Data), "METHOD_NOT_FOUND") {
				t.Errorf("%s: %s is not listed but returned %s", gate, name, m.Result)
			}
		}
	}
}

// names returns the names of declared tools.
func names(t *testing.T, tools string) (list []string) {
	t.Helper()
	var defs []struct{ Name string }
	if err := json.Unmarshal([]byte(tools), &defs); err != nil {
		t.Fatal(err)
	}
	for _, d := range defs {
		list = append(list, d.Name)
	}
	return list
}

func TestDefaultPricesFillGaps(t *testing.T) {
	t.Parallel()
	entry, _ := declaring(t, "up", `[
		{"name":"explicit","_meta":{"pricing":{"executeUsd":"0.002"}}}, {"name":"gap","_meta":{"latencyClass":"fast"}},
		{"name":"out","_meta":{"pricing":{"executeUsd":null}}}, {"name":"bare"}]`, "executeUsd: %s")
	dir := t.TempDir()
	config := func(price string) string {
		return "gates: {default: {mode: read}, sdk: {mode: read, surface: execute}, chat: {mode: read, surface: answer}}\n" + servers(fmt.Sprintf(entry, price))
	}
	p := serveIn(t, dir, "toolyard", config(`"0.001"`))
	prices := func() map[string]string {
		got := make(map[string]string)
		for _, name := range []string{"explicit", "gap", "out", "bare"} {
			var e struct {
				ExecutePriceUSD string `json:"executePriceUsd"`
			}
			if err := json.Unmarshal([]byte(p.catalogEntry("mcp_up__"+name)), &e); err != nil {
				t.Fatal(err)
			}
			got[name] = e.ExecutePriceUSD
		}
		return got
	}
	if diff := cmp.Diff(map[string]string{"explicit": "0.002", "gap": "0.001", "out": "", "bare": "0.001"}, prices()); diff != "" {
		t.Error(diff)
	}
	var bare struct {
		Surface, LatencyClass string
		QueryEligible         bool
	}
	if err := json.Unmarshal([]byte(p.catalogEntry("mcp_up__bare")), &bare); err != nil || bare.Surface != "both" || bare.LatencyClass != "slow" || !bare.QueryEligible {
		t.Errorf("a tool without declarations is %+v (%v)", bare, err)
	}
	p.configure(strings.Replace(config(""), "executeUsd: \n", "\n", 1))
	soon(t, "the default price is gone", func() bool {
		return cmp.Equal(map[string]string{"explicit": "0.002", "gap": "", "out": "", "bare": ""}, prices())
	})
	listedAt := func(gate string) (got []string) {
		for _, name := range listTools(t, modernHTTP{t: t, url: p.url + "/" + gate}) {
			if name, ok := strings.CutPrefix(name, "mcp_up__"); ok && slices.Contains([]string{"explicit", "gap", "out", "bare"}, name) {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		return got
	}
	if diff := cmp.Diff([]string{"explicit"}, listedAt("sdk")); diff != "" {
		t.Errorf("for execution: %s", diff)
	}
	if diff := cmp.Diff([]string{"bare", "explicit", "gap", "out"}, listedAt("chat")); diff != "" {
		t.Errorf("for answers: %s", diff)
	}
}

func TestSessionBudgetIsExact(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, store string, replicas int) {
		f, b := salesFleet(t, replicas, store)
		s := b.mustOpen("0.0025")
		for i := range 2 {
			if got := b.must(0, order{Tool: "note_read", Session: s.ID}); !got.good() || got.Receipt == nil || got.Receipt.Price != toolyard.USD/1000 {
				t.Fatalf("call %d: %+v", i, got)
			}
		}
		third := b.must(0, order{Tool: "note_read", Session: s.ID})
		if third.status != http.StatusPaymentRequired || third.Error != "BUDGET_EXCEEDED" {
			t.Errorf("the third call: %+v", third)
		}
		if runs := len(f.runs()); runs != 2 {
			t.Errorf("it ran %d times", runs)
		}
		checkSession(t, b, s.ID, "0.002", "0.0005")

		failing := b.mustOpen("0.0025")
		for range 3 {
			if got := b.must(0, order{Tool: "note_read", Args: work{Fail: true}, Session: failing.ID}); got.status != http.StatusOK || !got.Result.IsError {
				t.Errorf("a tool that fails: %+v", got)
			}
		}
		checkSession(t, b, failing.ID, "0", "0.0025")
	})
}

func checkSession(t *testing.T, b *buyer, id, spent, remaining string) {
	t.Helper()
	if got := b.look(id); got.Spent.String() != spent || got.Remaining.String() != remaining {
		t.Errorf("spent %s, remaining %s; want %s and %s", got.Spent, got.Remaining, spent, remaining)
	}
}

// TestSessionBudgetOverMCP tests session budgets with an MCP client, which sends the session in its
// requests' metadata.
func TestSessionBudgetOverMCP(t *testing.T) {
	t.Parallel()
	_, b := salesFleet(t, 1, "sqlite:"+filepath.Join(t.TempDir(), "yard.db"))
	s := b.mustOpen("0.0025")
	c := modernHTTP{t: t, url: b.bases[0] + "/mcp/sdk", key: b.token, meta: fmt.Sprintf(`,"dev.toolyard/session":%q`, s.ID)}
	for i, remaining := range []string{"0.0015", "0.0005"} {
		var r toolyard.Receipt
		m := call(t, c, "note_write", "{}")
		if err := json.Unmarshal(m.result(t).Meta["dev.toolyard/receipt"], &r); err != nil || r.Price.String() != "0.001" || r.Remaining.String() != remaining {
			t.Errorf("call %d: %s (%v)", i, m.Result, err)
		}
	}
	failed(t, call(t, c, "note_write", "{}"), "BUDGET_EXCEEDED", false)
	checkSession(t, b, s.ID, "0.002", "0.0005")

	c.meta = `,"dev.toolyard/idempotencyKey":"once"`
	first, again := call(t, c, "note_write", "{}"), call(t, c, "note_write", "{}")
	if diff := cmp.Diff(string(first.result(t).Structured), string(again.result(t).Structured)); diff != "" {
		t.Errorf("the same key ran twice: %s", diff)
	}
	failed(t, call(t, c, "note_write", `{"ms":1}`), "IDEMPOTENCY_CONFLICT", false)
}

// TestQueryTurnLimitsCalls tests a session that allows a hundred calls.
func TestQueryTurnLimitsCalls(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + filepath.Join(t.TempDir(), "yard.db")
	f := newFleet(t, 1, store, fmt.Sprintf("store: %q\ngates: {query: {mode: read, surface: answer, callers: keys}, sdk: {mode: read, surface: execute, callers: keys}}\n", store))
	b := f.buyer("alice", "acme", "10")
	var s session
	res, err := b.send(t.Context(), 0, http.MethodPost, "/api/v1/sessions", map[string]any{"limitUsd": "0.1", "calls": 100}, &s)
	if err != nil || res.StatusCode != http.StatusCreated {
		t.Fatal(res, err)
	}
	c := modernHTTP{t: t, url: b.bases[0] + "/mcp/query", key: b.token, meta: fmt.Sprintf(`,"dev.toolyard/session":%q`, s.ID)}
	for range 100 {
		text(t, call(t, c, "note_read", "{}"))
	}
	failed(t, call(t, c, "note_read", "{}"), "BUDGET_EXCEEDED", false)
	if runs := len(f.runs()); runs != 100 {
		t.Errorf("it ran %d times", runs)
	}
}
