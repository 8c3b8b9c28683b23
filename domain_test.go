package toolyard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/sources/catalog"
)

func named(spec toolyard.Spec) *toolyard.Tool {
	t, err := toolyard.NewTool(spec, func(context.Context, *toolyard.Call) (*toolyard.Result, error) { return nil, nil })
	if err != nil {
		panic(err)
	}
	return t
}

func TestMoneyIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := toolyard.Money(rapid.Int64().Draw(t, "nano"))
		back, err := toolyard.ParseMoney(m.String())
		if err != nil || back != m {
			t.Fatalf("%d wrote %s read %d %v", m, m, back, err)
		}
		rat, _ := new(big.Rat).SetString(m.String())
		if rat.Mul(rat, big.NewRat(1e9, 1)).Cmp(new(big.Rat).SetInt64(int64(m))) != 0 {
			t.Fatalf("%s is not %d nano-dollars", m, m)
		}
		n := toolyard.Money(rapid.Int64().Draw(t, "other"))
		sum, ok := m.Add(n)
		if exact := new(big.Int).Add(big.NewInt(int64(m)), big.NewInt(int64(n))); ok != exact.IsInt64() || ok && int64(sum) != exact.Int64() {
			t.Fatalf("%d + %d = %d %v", m, n, sum, ok)
		}
	})
}

func TestParseMoney(t *testing.T) {
	for s, want := range map[string]toolyard.Money{"0": 0, "0.001": 1_000_000, "12.5": 12_500_000_000, "-0.000000001": -1, "9223372036.854775807": math.MaxInt64, "-9223372036.854775808": math.MinInt64} {
		if got, err := toolyard.ParseMoney(s); err != nil || got != want {
			t.Errorf("%s: %d %v", s, got, err)
		}
	}
	for _, s := range []string{"", ".", "1.", ".5", "1e3", "+1", "--1", "0x1", "1,5", " 1", "0.0000000001", "9223372036.854775808", "-9223372036.854775809", "١", "NaN"} {
		if got, err := toolyard.ParseMoney(s); err == nil {
			t.Errorf("%q gave %d", s, got)
		}
	}
}

func FuzzMoney(f *testing.F) {
	f.Add("0.001")
	f.Add("-9223372036.854775807")
	f.Fuzz(func(t *testing.T, s string) {
		m, err := toolyard.ParseMoney(s)
		if err != nil {
			return
		}
		rat, ok := new(big.Rat).SetString(s)
		if !ok || rat.Mul(rat, big.NewRat(1e9, 1)).Cmp(new(big.Rat).SetInt64(int64(m))) != 0 {
			t.Fatalf("%q read as %d nano-dollars", s, m)
		}
	})
}

func TestRender(t *testing.T) {
	s, a := strings.Repeat("s", 70), strings.Repeat("a", 100)
	for _, tt := range []struct {
		naming       gates.Naming
		server, tool string
		want         string
	}{
		{gates.NamingMCP, "", "hello", "hello"},
		{gates.NamingMCP, "hyperliquid-info-mcp", "echo", "mcp_hyperliquid-info-mcp__echo"},
		{"", "x", "a__b", "mcp_x__a__b"},
		{gates.NamingMCP, "github.enterprise", "search", "mcp_github_enterprise__search"},
		{gates.NamingPlain, "github.enterprise", "search", "github_enterprise__search"},
		{gates.NamingPlain, "echo", "ping", "echo__ping"},
		{gates.NamingClient, "", "hello", "mcp_trinity_hello"},
		{gates.NamingClient, "git.hub", "search", "mcp_git_hub_search"},
		{gates.NamingMCP, "", "dots.in.name", "dots_in_name_"},
		{gates.NamingMCP, "", a, a[:55] + "_"},
		{gates.NamingMCP, "github", a, "mcp_github__" + a[:43] + "_"},
		{gates.NamingMCP, s, "search", "mcp_" + s[:43] + "__search_"},
		{gates.NamingPlain, s, a[:40], s[:13] + "__" + a[:40] + "_"},
		{gates.NamingClient, s, a, "mcp_" + s[:12] + "_" + a[:38] + "_"},
		{gates.NamingClient, "", a, "mcp_trinity_" + a[:43] + "_"},
		{gates.NamingMCP, s[:54], "abcd", "mcp_" + s[:54] + "__abcd"}, // fits
	} {
		got := tt.naming.Render("trinity", tt.server, tt.tool)
		shortened := strings.HasSuffix(tt.want, "_") && strings.HasPrefix(got, tt.want)
		if (got != tt.want && !shortened) || len(got) > 64 {
			t.Errorf("%s %s %s: %s, want %s", tt.naming, tt.server, tt.tool, got, tt.want)
		}
	}
}

var wireName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func FuzzNames(f *testing.F) {
	f.Add("git.hub", "a__b", "", "git_hub__a__b")
	f.Fuzz(func(t *testing.T, server1, tool1, server2, tool2 string) {
		for _, n := range []gates.Naming{gates.NamingMCP, gates.NamingPlain, gates.NamingClient} {
			for _, id := range [][2]string{{server1, tool1}, {server2, tool2}} {
				spec := toolyard.Spec{Name: id[1], Server: id[0]}
				if _, err := toolyard.NewTool(spec, noHandler); err != nil || (id[0] != "" && ident.CheckServerID(id[0]) != nil) {
					return
				}
				if name := n.Render("yard", id[0], id[1]); !wireName.MatchString(name) {
					t.Errorf("%v renders %q", id, name)
				}
			}
		}
	})
}

// Two tools never share a served name: if their names collide, neither is served.
func TestNoNameIsAmbiguous(t *testing.T) {
	part := rapid.StringMatching(`[ab_.]{1,4}`)
	rapid.Check(t, func(t *rapid.T) {
		var tools []*toolyard.Tool
		seen := map[[2]string]bool{}
		for range rapid.IntRange(2, 6).Draw(t, "n") {
			server, tool := rapid.SampledFrom([]string{"", "a", "a.b", "mcp.a", "mcp"}).Draw(t, "server"), part.Draw(t, "tool")
			if !seen[[2]string{server, tool}] {
				tools = append(tools, named(toolyard.Spec{Name: tool, Server: server, Origin: server + "/" + tool}))
			}
			seen[[2]string{server, tool}] = true
		}
		gate := &gates.Gate{Mode: toolyard.Write, Yard: "a", Naming: rapid.SampledFrom([]gates.Naming{"mcp", "plain", "client"}).Draw(t, "naming")}
		view := gate.Bind(catalog.Offer{Tools: tools}, nil)
		hidden := len(tools) - len(view.Tools)
		for _, b := range view.Tools {
			if got, ok := view.Lookup(b.Name); !ok || got != b.Tool {
				t.Fatalf("%s resolves to %v", b.Name, got)
			}
		}
		if (hidden > 0) != (len(view.Problems) > 0) {
			t.Fatalf("%d tools hidden, problems %v", hidden, view.Problems)
		}
	})
}

func TestCheckServerID(t *testing.T) {
	for _, id := range []string{"my_server", "a..b", ".a", "a.", "a b", "", "ä"} {
		if err := ident.CheckServerID(id); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", id)) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if err := ident.CheckServerID("github.enterprise-2"); err != nil {
		t.Error(err)
	}
}

func TestEligibility(t *testing.T) {
	priced, unset := toolyard.Price{Set: true, USD: 1}, toolyard.Price{}
	for _, tt := range []struct {
		spec            toolyard.Spec
		answer, execute bool
	}{
		{toolyard.Spec{}, true, false},
		{toolyard.Spec{Terms: toolyard.Terms{Surface: "both", Price: priced}}, true, true},
		{toolyard.Spec{Terms: toolyard.Terms{Surface: "both", Price: priced, Latency: "streaming"}}, false, true},
		{toolyard.Spec{Terms: toolyard.Terms{Surface: "both", Price: unset}}, true, false},
		{toolyard.Spec{Terms: toolyard.Terms{Surface: "both", Price: priced, HiddenFromAnswers: true}}, false, true},
		{toolyard.Spec{Terms: toolyard.Terms{Surface: "both", HiddenFromAnswers: true}}, false, false},
		{toolyard.Spec{Terms: toolyard.Terms{Surface: toolyard.Answer, Price: priced}}, true, false},
		{toolyard.Spec{Terms: toolyard.Terms{Surface: toolyard.Answer, HiddenFromAnswers: true}}, false, false},
		{toolyard.Spec{Terms: toolyard.Terms{Surface: toolyard.Execute, Price: priced, HiddenFromAnswers: true}}, false, true},
		{toolyard.Spec{Terms: toolyard.Terms{Surface: toolyard.Execute, Price: priced}}, false, true},
		{toolyard.Spec{Terms: toolyard.Terms{Surface: toolyard.Execute}}, false, false},
		{toolyard.Spec{Terms: toolyard.Terms{Surface: "both", Price: toolyard.Price{Set: true, OptOut: true}}}, true, false},
	} {
		tt.spec.Name = "x"
		tool := named(tt.spec)
		answer := (&gates.Gate{Mode: toolyard.Write, Surface: toolyard.Answer}).Visible(tool)
		execute := (&gates.Gate{Mode: toolyard.Write, Surface: toolyard.Execute}).Visible(tool)
		if answer != tt.answer || execute != tt.execute {
			t.Errorf("%+v: answer %v, execute %v", tt.spec, answer, execute)
		}
	}
}

func TestModesFailClosed(t *testing.T) {
	read, write := &gates.Gate{Mode: toolyard.Read}, &gates.Gate{Mode: toolyard.Write}
	for _, tt := range []struct {
		effects         toolyard.Effects
		atRead, atWrite bool
	}{
		{"", false, true},
		{toolyard.ReadOnly, true, true},
		{"write", false, true},
	} {
		tool := named(toolyard.Spec{Name: "x", Effects: tt.effects})
		if read.Visible(tool) != tt.atRead || write.Visible(tool) != tt.atWrite {
			t.Errorf("effects %q", tt.effects)
		}
		if (&gates.Gate{Mode: ""}).Visible(tool) {
			t.Errorf("a gate without a mode shows %v", tt.effects)
		}
	}
}

// A hidden tool does not cause a name conflict.
func TestExplainHiddenTool(t *testing.T) {
	write, err := toolyard.NewTool(toolyard.Spec{Name: "write"}, func(context.Context, *toolyard.Call) (*toolyard.Result, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	view := (&gates.Gate{Mode: toolyard.Read}).Bind(catalog.Offer{Tools: []*toolyard.Tool{write}}, nil)
	for _, s := range view.Explain(write) {
		if s.Stops != (s.Rule == "mode") || s.Stops && !strings.Contains(s.Fix, "toolyard.ReadOnly") {
			t.Errorf("%+v", s)
		}
	}
}

func TestBind(t *testing.T) {
	tools := []*toolyard.Tool{
		named(toolyard.Spec{Name: "propose_order"}),
		named(toolyard.Spec{Name: "get_bars", Effects: toolyard.ReadOnly}),
		named(toolyard.Spec{Name: "dup", Effects: toolyard.ReadOnly, Origin: "a/dup.ts"}),
		named(toolyard.Spec{Name: "dup", Effects: toolyard.ReadOnly, Origin: "b/dup.ts"}),
		named(toolyard.Spec{Name: "search", Server: "git", Effects: toolyard.ReadOnly}),
		named(toolyard.Spec{Name: "fork", Server: "git", Effects: toolyard.ReadOnly}),
	}
	gate := &gates.Gate{Name: "chat", Mode: toolyard.Read, Toolset: &gates.Toolset{
		Name: "mine", Tools: []string{"get_bars", "propose_order", "get_barz", "dup"},
		Servers: []gates.ServerPick{{ID: "git", Tools: []string{"search"}}},
	}}
	view := gate.Bind(catalog.Offer{Tools: tools}, nil)
	var names, problems []string
	for _, b := range view.Tools {
		names = append(names, b.Name)
	}
	for _, p := range view.Problems {
		problems = append(problems, p.String()+" "+p.Fix)
	}
	if diff := cmp.Diff([]string{"get_bars", "mcp_git__search"}, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"gate chat, toolset mine: Tool propose_order not allowed in mode read Remove it from the toolset, or use the toolset at another gate.",
		"gate chat, toolset mine: Unknown tool: get_barz Did you mean \"get_bars\"?",
		"gate chat: 2 tools would be named dup and none is served: dup of a/dup.ts, dup of b/dup.ts Rename or exclude one of them.",
	}, problems); diff != "" {
		t.Error(diff)
	}
	for _, alias := range []string{"git__search", "mcp_git_search", "mcp__get_bars"} {
		if _, ok := view.Lookup(alias); !ok {
			t.Errorf("%s is not found", alias)
		}
	}
	if _, ok := view.Lookup("propose_order"); ok {
		t.Error("a hidden tool is found")
	}
}

func TestClientsAreLentByMode(t *testing.T) {
	type broker interface{ Order() }
	clients := &toolyard.Clients{}
	toolyard.Lend[broker](clients, orderBook{}, toolyard.Write)
	toolyard.Lend(clients, "news")
	chat := &toolyard.Call{Mode: toolyard.Read, Environment: toolyard.Environment{Clients: clients}}
	trade := &toolyard.Call{Mode: toolyard.Write, Environment: toolyard.Environment{Clients: clients}}
	if _, ok := toolyard.Client[broker](chat); ok {
		t.Error("a broker in a read-only call")
	}
	if b, ok := toolyard.Client[broker](trade); !ok || b == nil {
		t.Error("no broker in a write call")
	}
	if s, ok := toolyard.Client[string](chat); !ok || s != "news" {
		t.Error("no news")
	}
	if _, ok := toolyard.Client[string](&toolyard.Call{}); ok {
		t.Error("a client that was not lent")
	}
}

type orderBook struct{}

func (orderBook) Order() {}

func ExampleChain() {
	step := func(name string) toolyard.Policy {
		return func(next toolyard.Handler) toolyard.Handler {
			return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
				fmt.Println("before", name)
				defer fmt.Println("after", name)
				return next(ctx, c)
			}
		}
	}
	run := func(context.Context, *toolyard.Call) (*toolyard.Result, error) {
		fmt.Println("run")
		return nil, nil
	}
	_, _ = callpath.Chain(run, step("first"), step("second"))(context.Background(), &toolyard.Call{})
	// Output:
	// before first
	// before second
	// run
	// after second
	// after first
}

// A name that two tools share does not resolve, even if a third tool has it as an alias.
func TestACollisionIsNotAnAlias(t *testing.T) {
	view := (&gates.Gate{Mode: toolyard.Write}).Bind(catalog.Offer{Tools: []*toolyard.Tool{
		named(toolyard.Spec{Name: "mcp_git_pay", Origin: "a"}), named(toolyard.Spec{Name: "mcp_git_pay", Origin: "b"}),
		named(toolyard.Spec{Name: "pay", Server: "git"}),
	}}, nil)
	if got, ok := view.Lookup("mcp_git_pay"); ok {
		t.Errorf("it resolves to %s of %s", got.Name, got.Server)
	}
	if _, ok := view.Lookup("mcp_git__pay"); !ok {
		t.Error("the third tool is lost")
	}
}

func TestSupports(t *testing.T) {
	c := &toolyard.Call{Request: toolyard.Request{ClientCapabilities: json.RawMessage(`{"elicitation":{"url":{}}}`)}}
	for capability, want := range map[string]bool{"elicitation": true, "elicitation.url": true, "elicitation.form": false, "sampling": false} {
		if c.Supports(capability) != want {
			t.Errorf("%s: %v", capability, !want)
		}
	}
}

// A URI with dot segments matches no prefix, even if they are escaped.
func TestMatchURI(t *testing.T) {
	docs := []string{"file:///srv/docs/*", "repo://a"}
	for uri, want := range map[string]bool{
		"file:///srv/docs/a.md":                         true,
		"file:///srv/docs/a/b%20c.md":                   true,
		"repo://a":                                      true,
		"repo://a/b":                                    false,
		"file:///srv/other":                             false,
		"file:///srv/docs/../../etc/passwd":             false,
		"file:///srv/docs/%2e%2e/%2e%2e/etc/passwd":     false,
		"file:///srv/docs/..%2f..%2fetc/passwd":         false,
		"file:///srv/docs/%252e%252e/etc/passwd":        false,
		"file:///srv/docs/./x":                          false,
		"file:///srv/docs/..#x":                         false,
		"file:///srv/docs/..?x":                         false,
		"file:///srv/docs/..%23x":                       false,
		"file:///srv/docs/..;a/x":                       false,
		"file:///srv/docs/a?b#..":                       false,
		"file:///srv/docs/..?#x":                        false,
		"file:///srv/docs/..a/b..#c":                    true,
		"file:///srv/docs/a?b=1#c":                      true,
		"file:///srv/docs/..\\..\\etc":                  false,
		"file:///srv/docs/a%00b":                        false,
		"file:///srv/docs/%25252525252e%25252525252e/x": false,
	} {
		if got := (&toolyard.Resource{URI: uri}).MatchesAny(docs); got != want {
			t.Errorf("%s: %v", uri, got)
		}
	}
}

// A server cannot serve reads of another server's URIs.
func TestReadResource(t *testing.T) {
	reader := named(toolyard.Spec{Name: "read", Effects: toolyard.ReadOnly})
	resource := func(server, uri string) *toolyard.Resource {
		return &toolyard.Resource{Server: server, URI: uri, Template: strings.Contains(uri, "{"), Reader: reader}
	}
	offer := catalog.Offer{Resources: []*toolyard.Resource{
		resource("docs", "file:///srv/{path}"), resource("docs", "file:///srv/deep/{path}"), resource("docs", "file:///srv/index"),
		resource("evil", "file:///srv/a"), resource("evil", "file:///srv/private/{x}"), resource("evil", "evil://x"),
	}}
	view := (&gates.Gate{Mode: toolyard.Read}).Bind(offer, nil)
	for uri, want := range map[string]string{
		"file:///srv/b": "file:///srv/{path}", "file:///srv/deep/b": "file:///srv/deep/{path}", "file:///srv/index": "file:///srv/index",
		"evil://x": "evil://x", "file:///srv/a": "", "file:///srv/private/b": "", "http://x": "",
	} {
		r, ok := view.ReadResource(uri)
		if got := map[bool]string{true: uriOf(r)}[ok]; got != want {
			t.Errorf("%s resolves to %q", uri, got)
		}
	}
	writing := *offer.Resources[0]
	writing.Reader = named(toolyard.Spec{Name: "w"})
	if v := (&gates.Gate{Mode: toolyard.Read}).Bind(catalog.Offer{Resources: []*toolyard.Resource{&writing}}, nil); len(v.Resources) != 0 {
		t.Error("a write tool is shown at a read gate")
	}
}

func uriOf(r *toolyard.Resource) string {
	if r == nil {
		return ""
	}
	return r.URI
}

func TestCallIDs(t *testing.T) {
	now := time.Date(2026, 11, 15, 10, 0, 0, 123456789, time.UTC)
	id, later := ident.NewCallID(now), ident.NewCallID(now.Add(time.Millisecond))
	if at, ok := ident.CallTime(id); !ok || !at.Equal(now.Truncate(time.Millisecond)) || id >= later {
		t.Errorf("%s is of %v; %s is later", id, at, later)
	}
	for _, odd := range []string{"", "c1", id + "0", id[1:], "ABC"} {
		if _, ok := ident.CallTime(odd); ok {
			t.Errorf("%q has a time", odd)
		}
	}
}

// One server under two IDs causes a single problem, regardless of how many resources it has.
func TestServersWithTheSameResourcesAreOneProblem(t *testing.T) {
	reader := named(toolyard.Spec{Name: "read", Effects: toolyard.ReadOnly})
	offer := func(servers ...string) (o catalog.Offer) {
		for _, server := range servers {
			for i := range 5 {
				o.Resources = append(o.Resources, &toolyard.Resource{Server: server, URI: fmt.Sprintf("data://%d", i), Reader: reader})
			}
		}
		return o
	}
	gate := &gates.Gate{Name: "chat", Mode: toolyard.Read}
	const fix = "If they are the same server, remove one of them. Otherwise, exclude one server's resources with its resources setting or the gate's toolset."
	for name, c := range map[string]struct {
		before *gates.View
		served string
		shown  int
	}{
		"at a start":    {nil, "none of them is served", 0},
		"of a newcomer": {gate.Bind(offer("two"), nil), "only those from two, which came first, are served until the next restart", 5},
	} {
		view := gate.Bind(offer("two", "one"), c.before)
		want := []toolyard.Problem{{
			Subject: "gate chat", Fix: fix,
			Message: "servers one, two offer resources with the same URIs, and " + c.served + ": data://0, data://1, data://2 and 2 more",
		}}
		if diff := cmp.Diff(want, view.Problems); diff != "" || len(view.Resources) != c.shown {
			t.Errorf("%s: %d shown, %s", name, len(view.Resources), diff)
		}
	}
}
