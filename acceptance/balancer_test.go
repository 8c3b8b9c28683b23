package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/internal/store/pgtest"
)

// spread is a set of replicas. Clients of 2025-11-25 may send each request to a different one.
type spread struct {
	t        *testing.T
	store    string
	servers  string // section of the configuration with the servers behind the replicas
	replicas []*process
}

// newSpread starts three replicas that share one PostgreSQL database, with the given number of
// upstream servers: up0, up1 and so on.
func newSpread(t *testing.T, upstreams int) *spread {
	t.Helper()
	s := &spread{t: t, store: pgtest.ForTest(t).Database(t), servers: startFakes(t, upstreams)}
	s.apply("write")
	for range 3 {
		address := freeAddress(t)
		p := &process{t: t, dir: t.TempDir(), url: "http://" + address + "/mcp"}
		p.launch("testyard", nil, "serve", "--listen", address, "--store", s.store)
		p.await(p.url)
		s.replicas = append(s.replicas, p)
	}
	return s
}

// apply sets the default gate's mode on all replicas.
func (s *spread) apply(mode string) {
	s.t.Helper()
	if code, out, errs := runIn(s.t, s.t.TempDir(), nil, "toolyard", s.applying(mode)[1:]...); code != 0 {
		s.t.Fatalf("apply: exit %d: %s%s", code, out, errs)
	}
}

// applying returns the command that apply runs.
func (s *spread) applying(mode string) []string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), mode+".yaml")
	if err := os.WriteFile(file, []byte(s.servers+"gates:\n  default: {mode: "+mode+"}\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return []string{filepath.Join(bin, "toolyard"), "apply", file, "--store", s.store}
}

// urls returns the replicas' URLs.
func (s *spread) urls() (all []string) {
	for _, p := range s.replicas {
		all = append(all, p.url)
	}
	return all
}

// balanceConnections starts a load balancer that has no affinity and sends each connection to the
// next replica. It returns the balancer's URL.
func balanceConnections(t *testing.T, replicas []string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for i := 0; ; i++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			target, _ := url.Parse(replicas[i%len(replicas)])
			go join(client, target.Host)
		}
	}()
	return "http://" + l.Addr().String() + "/mcp"
}

// join copies bytes between a client and a replica until one of them disconnects.
func join(client net.Conn, replica string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", replica)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(way[1], way[0])
			ended <- struct{}{}
		}()
	}
	<-ended
}

// balanceRequests starts a load balancer that sends each request to the next replica.
func balanceRequests(t *testing.T, replicas []string) string {
	t.Helper()
	var next atomic.Int64
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // clients may disconnect
		Rewrite: func(r *httputil.ProxyRequest) {
			target, _ := url.Parse(replicas[int(next.Add(1))%len(replicas)])
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, ""
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }, // a client disconnected
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body) // the proxy cuts off responses that begin before the request body has ended
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/mcp"
}

// balancers are load balancers that distribute requests over the replicas.
var balancers = []struct {
	name  string
	start func(*testing.T, []string) string
}{{"connections", balanceConnections}, {"requests", balanceRequests}}

// journal records what a client observed while it used every feature of an MCP session.
type journal struct {
	Tools, Asked, Answers, Changes []string
	Text, Canceled, Session        string
	Progress                       int
}

// plan configures a client that uses every feature.
type plan struct {
	URL    string   `json:"url"`
	Marker string   `json:"marker"` // file that the canceled tool writes
	Server string   `json:"server"`
	Apply  []string `json:"apply"` // command that edits the gate
}

// travel runs a client through a load balancer and checks its observations.
func (s *spread) travel(name, balanced, server string, client func(t *testing.T, p *plan) journal) {
	s.t.Run(name, func(t *testing.T) {
		p := &plan{URL: balanced, Marker: filepath.Join(t.TempDir(), "canceled"), Server: server, Apply: s.applying("read")}
		defer s.apply("write")
		for _, url := range s.urls() { // the previous client has set it to read
			soon(t, "the replica offers tools that write", func() bool {
				return slices.Contains(listTools(t, modernHTTP{t: t, url: url}), "test_tool_with_progress")
			})
		}
		got := client(t, p)
		if !slices.Contains(got.Tools, "echo") || !slices.Contains(got.Tools, "mcp_"+server+"__ask") || got.Text != "hi" {
			t.Errorf("it lists %d tools, and echo returned %q", len(got.Tools), got.Text)
		}
		if got.Progress != 3 {
			t.Errorf("progress was reported %d times", got.Progress)
		}
		if got.Canceled == "slept" {
			t.Error("the call was not canceled")
		}
		soon(t, "the canceled tool has noticed", func() bool { _, err := os.Stat(p.Marker); return err == nil })
		if !slices.Equal(got.Asked, []string{"Who?", "Who are you?"}) || len(got.Answers) != 2 ||
			!strings.Contains(got.Answers[0], `"username":"Ann"`) || got.Answers[1] != "Hello, Ann!" {
			t.Errorf("it was asked %q, and the tools returned %q", got.Asked, got.Answers)
		}
		if !slices.Equal(got.Changes, []string{"tool", "gate"}) {
			t.Errorf("it was notified of changes to %q", got.Changes)
		}
		s.ended(t, got.Session)
	})
}

// ended checks that no replica accepts the MCP session anymore.
func (s *spread) ended(t *testing.T, session string) {
	t.Helper()
	if session == "" {
		t.Error("there was no session")
	}
	for i, p := range s.replicas {
		c := &legacyHTTP{t: t, url: p.url, session: session}
		soon(t, fmt.Sprintf("the session has ended at replica %d", i), func() bool {
			return c.status(listing) == http.StatusNotFound
		})
	}
}

// Official clients with MCP sessions work through load balancers that have no affinity.
func TestSessionsThroughABalancer(t *testing.T) {
	heavy(t)
	travellers := []struct {
		name string
		way  func(*testing.T, *plan) journal
	}{{"TypeScript", typeScriptJourney}, {"Go", goJourney}}
	s := newSpread(t, len(balancers)*len(travellers))
	for i, b := range balancers {
		balanced := b.start(t, s.urls())
		for j, c := range travellers {
			s.travel(c.name+" over "+b.name, balanced, fmt.Sprint("up", i*len(travellers)+j), c.way)
		}
		t.Run("Inspector over "+b.name, func(t *testing.T) { inspectorJourney(t, balanced) })
	}
}

func typeScriptJourney(t *testing.T, p *plan) (got journal) {
	t.Helper()
	settings, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	out, err := node(t, script(t, "journey.mjs"), string(settings))
	if err != nil || json.Unmarshal([]byte(out), &got) != nil {
		t.Fatalf("%v %s", err, out)
	}
	return got
}

// inspectorJourney uses every command of the Inspector's command line. Each command is an MCP
// session.
func inspectorJourney(t *testing.T, balanced string) {
	t.Helper()
	common := []string{script(t, "node_modules/.bin/mcp-inspector"), "--cli", balanced, "--transport", "http", "--protocol-era", "legacy", "--format", "json", "--method"}
	if out, err := node(t, append(common, "tools/list")...); err != nil || !strings.Contains(out, `"name":"echo"`) {
		t.Errorf("%v %s", err, out)
	}
	if out, err := node(t, append(common, "tools/call", "--tool-name", "echo", "--tool-arg", "text=hi")...); err != nil || !strings.Contains(out, `"text":"hi"`) {
		t.Errorf("%v %s", err, out)
	}
}

// goTraveller drives the Go SDK's client across replicas.
type goTraveller struct {
	t       *testing.T
	session *mcp.ClientSession
	changes atomic.Int64
	journal
}

func goJourney(t *testing.T, p *plan) journal {
	t.Helper()
	g := &goTraveller{t: t}
	var told atomic.Int64
	stream := &streamOpening{opened: make(chan struct{})}
	client := mcp.NewClient(&mcp.Implementation{Name: "journey", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			g.Asked = append(g.Asked, req.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ann", "username": "Ann", "email": "Ann"}}, nil
		},
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { told.Add(1) },
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { g.changes.Add(1) },
	})
	var err error
	g.session, err = client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: p.URL, HTTPClient: &http.Client{Transport: stream}}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-stream.opened: // earlier notifications are lost
	case <-time.After(time.Minute):
		t.Error("the client has not opened a stream")
	}
	for tool, err := range g.session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		g.Tools = append(g.Tools, tool.Name)
	}
	g.Text = g.call("echo", map[string]any{"text": "hi"})
	progress := &mcp.CallToolParams{Name: "test_tool_with_progress", Meta: mcp.Meta{"progressToken": "mine"}}
	if _, err := g.session.CallTool(t.Context(), progress); err != nil {
		t.Error(err)
	}
	soon(t, "progress", func() bool { return told.Load() == 3 })
	g.Progress = int(told.Load())

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		soon(t, "the call has started", func() bool { _, err := os.Stat(p.Marker + ".started"); return err == nil })
	}()
	g.Canceled = "slept"
	if _, err := g.session.CallTool(ctx, &mcp.CallToolParams{Name: "sleep", Arguments: map[string]any{"ms": 90000, "marker": p.Marker}}); err != nil {
		g.Canceled = err.Error()
	}
	g.Answers = []string{g.call("test_elicitation", map[string]any{"message": "Who?"}), g.call("mcp_"+p.Server+"__ask", nil)}
	g.hears("tool", func() { g.call("mcp_"+p.Server+"__mutate", nil) })
	g.hears("gate", func() {
		if code, _, errs := runIn(t, t.TempDir(), nil, "toolyard", p.Apply[1:]...); code != 0 {
			t.Error(errs)
		}
	})
	g.Session = g.session.ID()
	if err := g.session.Close(); err != nil {
		t.Error(err)
	}
	return g.journal
}

// streamOpening is a transport that reports when a client has opened its event stream.
type streamOpening struct {
	once   sync.Once
	opened chan struct{}
}

// RoundTrip implements [http.RoundTripper].
func (s *streamOpening) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && r.Method == http.MethodGet && res.StatusCode == http.StatusOK {
		s.once.Do(func() { close(s.opened) })
	}
	return res, err
}

func (g *goTraveller) call(tool string, args map[string]any) string {
	g.t.Helper()
	res, err := g.session.CallTool(g.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		g.t.Errorf("%s: %v", tool, err)
		return ""
	}
	return res.Content[0].(*mcp.TextContent).Text
}

// hears checks that the client is notified of a change.
func (g *goTraveller) hears(what string, change func()) {
	before := g.changes.Load()
	change()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if g.changes.Load() > before {
			g.Changes = append(g.Changes, what)
			return
		}
	}
}

// at returns the same MCP session at another replica.
func (c *legacyHTTP) at(url string) *legacyHTTP {
	return &legacyHTTP{t: c.t, url: url, session: c.session, key: c.key}
}

// open opens the MCP session with the client's capabilities.
func (c *legacyHTTP) open(capabilities string) *legacyHTTP {
	c.t.Helper()
	if m, _ := c.send("0", "initialize", strings.Replace(initialize, `"capabilities":{}`, `"capabilities":`+capabilities, 1)); m.Error != nil || c.session == "" {
		c.t.Fatalf("initialize: %+v", m)
	}
	return c
}

// status posts a message and returns the response's status.
func (c *legacyHTTP) status(body string) int {
	c.t.Helper()
	res := c.post(body)
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// end deletes the MCP session and returns the response's status.
func (c *legacyHTTP) end() int {
	c.t.Helper()
	res, err := http.DefaultClient.Do(c.request(http.MethodDelete, ""))
	if err != nil {
		c.t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// Each message in an MCP session may be sent to a different replica.
func TestSessionAtAnyReplica(t *testing.T) {
	t.Parallel()
	s := newSpread(t, 1)
	first, second, third := s.replicas[0].url, s.replicas[1].url, s.replicas[2].url
	c := (&legacyHTTP{t: t, url: first}).open(`{"elicitation":{"form":{}}}`)
	if status := c.at(second).status(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); status != http.StatusAccepted {
		t.Errorf("initialized: status %d", status)
	}
	for i, p := range s.replicas {
		if m := call(t, c.at(p.url), "echo", `{"text":"hi"}`); text(t, m) != "hi" {
			t.Errorf("replica %d: %s", i, m.Result)
		}
	}
	s.cancelsElsewhere(c)
	for _, way := range [][]string{{first, second}, {second, third}, {third, third}} {
		s.answersElsewhere(c, way[0], way[1])
	}
	s.hears(c, second, "read")
	s.hears(c, third, "write")
	if status := c.at(third).end(); status >= 300 {
		t.Errorf("DELETE: status %d", status)
	}
	s.ended(t, c.session)
}

// cancelsElsewhere cancels a call on a different replica from the one that runs it.
func (s *spread) cancelsElsewhere(c *legacyHTTP) {
	s.t.Helper()
	marker, done := filepath.Join(s.t.TempDir(), "canceled"), make(chan struct{})
	go func() {
		defer close(done)
		_ = c.at(s.replicas[0].url).status(fmt.Sprintf(`{"jsonrpc":"2.0","id":"long","method":"tools/call","params":{"name":"sleep","arguments":{"ms":90000,"marker":%q}}}`, marker))
	}()
	soon(s.t, "the call has started", func() bool { _, err := os.Stat(marker + ".started"); return err == nil })
	if status := c.at(s.replicas[1].url).status(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"long"}}`); status != http.StatusAccepted {
		s.t.Errorf("cancelled: status %d", status)
	}
	soon(s.t, "the tool was canceled from another replica", func() bool { _, err := os.Stat(marker); return err == nil })
	select {
	case <-done:
	case <-time.After(time.Minute):
		s.t.Error("the canceled call is still open")
	}
}

// answersElsewhere calls a tool that asks a question on one replica, and answers on another.
func (s *spread) answersElsewhere(c *legacyHTTP, asks, answers string) {
	s.t.Helper()
	res := c.at(asks).post(`{"jsonrpc":"2.0","id":"asking","method":"tools/call","params":{"name":"test_elicitation","arguments":{"message":"Who?"}}}`)
	stream := follow(s.t, res)
	next := func() (m message) {
		select {
		case m = <-stream:
		case <-time.After(time.Minute):
			s.t.Error("nothing came")
		}
		return m
	}
	asked := next()
	if asked.Method != "elicitation/create" || !strings.Contains(string(asked.Params), "Who?") {
		s.t.Errorf("it was asked %s %s", asked.Method, asked.Params)
		return
	}
	status := c.at(answers).status(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"username":"Ann","email":"a@b.c"}}}`, asked.ID))
	if status != http.StatusAccepted {
		s.t.Errorf("the answer: status %d", status)
	}
	if m := next(); !strings.Contains(string(m.Result), "Ann") {
		s.t.Errorf("after the answer: %s", m.Result)
	}
}

// hears opens the MCP session's stream on a replica and edits the gate.
func (s *spread) hears(c *legacyHTTP, at, mode string) {
	s.t.Helper()
	stream := c.at(at).listen()
	s.apply(mode)
	select {
	case m := <-stream:
		if m.Method != "notifications/tools/list_changed" {
			s.t.Errorf("%s: %s", mode, m.Method)
		}
	case <-time.After(time.Minute):
		s.t.Errorf("%s: the stream did not report the edited gate", mode)
	}
}

const listing = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

// On every replica, an MCP session can be used only by the caller that opened it, only while that
// caller has access, and only until it is deleted.
func TestSessionsBelongToTheirCaller(t *testing.T) {
	t.Parallel()
	storeURL := pgtest.ForTest(t).Database(t)
	f := newFleet(t, 2, storeURL, fmt.Sprintf("store: %q\ngates:\n  default: {mode: read, callers: keys}\n", storeURL))
	var urls []string
	for _, r := range f.replicas {
		urls = append(urls, "http://"+r.address+"/mcp")
	}
	ann := (&legacyHTTP{t: t, url: urls[0], key: f.buyer("ann", "acme", "").token}).open("{}")
	bob := (&legacyHTTP{t: t, url: urls[1], key: f.buyer("bob", "acme", "").token}).open("{}")
	for i, url := range urls {
		if ann.at(url).status(listing) != http.StatusOK || bob.at(url).status(listing) != http.StatusOK {
			t.Errorf("replica %d does not serve them", i)
		}
		thief := &legacyHTTP{t: t, url: url, session: ann.session, key: bob.key}
		if list, end := thief.status(listing), thief.end(); list != http.StatusNotFound || end != http.StatusNotFound {
			t.Errorf("replica %d: another caller's session: POST %d, DELETE %d", i, list, end)
		}
		unauthenticated := &legacyHTTP{t: t, url: url, session: ann.session}
		if status := unauthenticated.status(listing); status != http.StatusUnauthorized {
			t.Errorf("replica %d: a session without a key: %d", i, status)
		}
		forged := &legacyHTTP{t: t, url: url, session: altered(ann.session), key: ann.key}
		if status := forged.status(listing); status != http.StatusNotFound {
			t.Errorf("replica %d: a session that was changed: %d", i, status)
		}
	}
	if status := ann.at(urls[1]).status(listing); status != http.StatusOK {
		t.Errorf("another caller ended the session: %d", status)
	}
	f.command("keys", "revoke", strings.Split(ann.key, "_")[1])
	revoked := time.Now()
	if status := bob.at(urls[0]).end(); status >= 300 {
		t.Errorf("DELETE: status %d", status)
	}
	for i, url := range urls {
		soon(t, fmt.Sprintf("the session has ended at replica %d", i), func() bool { return bob.at(url).status(listing) == http.StatusNotFound })
	}
	for i, url := range urls { // replicas cache a valid key for 30 s
		for ann.at(url).status(listing) != http.StatusUnauthorized {
			if time.Since(revoked) > 90*time.Second {
				t.Fatalf("replica %d still serves a caller whose key was revoked", i)
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
}

// altered returns a sealed text with one character in the middle changed.
func altered(sealed string) string {
	middle, other := len(sealed)/2, "A"
	if sealed[middle] == 'A' {
		other = "B"
	}
	return sealed[:middle] + other + sealed[middle+1:]
}
