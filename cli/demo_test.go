package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/demo"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/packs/homeassistant"
	"github.com/toolyard/toolyard/packs/trading"
	"github.com/toolyard/toolyard/yard"
)

// toolyardBinary returns this test binary under the name toolyard, which testscript adds to PATH.
func toolyardBinary(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("toolyard")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// runningDemo is a demo that is being served.
type runningDemo struct {
	yard *yard.Yard
	base string
	dir  string
}

// startDemo runs a demo in this process, with its MCP servers as child processes. It returns a
// function that stops the demo.
func startDemo(t *testing.T, c *demoCommand) (*runningDemo, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan *runningDemo, 1), make(chan error, 1)
	packs := map[string]yard.Pack{homeassistant.Name: homeassistant.Pack(), "trading": trading.Pack()}
	c.app = &app{opts: yard.Options{Packs: packs, Process: yard.Process{Getenv: os.LookupEnv}}, out: &bytes.Buffer{}, err: t.Output()}
	c.onReady = func(y *yard.Yard, base string) { ready <- &runningDemo{y, base, c.dir} }
	go func() { ended <- c.run(ctx) }()
	stop := func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	select {
	case s := <-ready:
		return s, stop
	case err := <-ended:
		cancel()
		t.Fatalf("the demo ended: %v", err)
	case <-time.After(2 * time.Minute):
		t.Fatal("the demo does not start")
	}
	return nil, nil
}

func TestDemo(t *testing.T) {
	program, begun := toolyardBinary(t), time.Now()
	s, stop := startDemo(t, &demoCommand{listen: "127.0.0.1:0", dir: filepath.Join(t.TempDir(), "harbor"), rate: 20, history: !testing.Short(), executable: program})
	eventually(t, "/readyz", func() bool { status, _ := get(t, s.base+"/readyz"); return status == http.StatusOK })
	checkKinds(t, s)
	checkProblems(t, s.yard)
	checkPatterns(t, s.yard)
	checkPacks(t, s)
	checkAgent(t, s)
	books, err := store.Open(t.Context(), "sqlite:"+filepath.Join(s.dir, "harbor.db"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "recorded calls, some of them paid by a session", func() bool {
		calls, err := books.Calls(t.Context(), store.CallQuery{Since: begun, Session: demo.Sessions[0].ID})
		return err == nil && len(calls) > 0
	})
	past, err := books.Costs(t.Context(), store.CostQuery{Until: begun})
	if !testing.Short() && (err != nil || len(past) != 1 || past[0].Calls < 18_000 || past[0].USD == 0) {
		t.Errorf("the history is %v, %v", past, err)
	}
	stop()
	if err := books.Audit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := books.Close(); err != nil {
		t.Error(err)
	}
	checkNoProcess(t, program)
}

func get(t *testing.T, url string) (int, []byte) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, b.Bytes()
}

// checkAgent asks the demo's agent a question whose answer does not depend on the time.
func checkAgent(t *testing.T, s *runningDemo) {
	t.Helper()
	out := &bytes.Buffer{}
	c := &askCommand{app: &app{opts: yard.Options{Process: yard.Process{Getenv: func(string) (string, bool) { return "", false }}}, out: out, err: t.Output()}, url: s.base, shape: "answer_with_evidence"}
	if err := c.run(t.Context(), "How far is it from Piraeus to Singapore?"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"4894.5 nautical miles", "[e1] port_distance:", "2 turns, 1 call"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s lacks %q", out, want)
		}
	}
}

// checkKinds checks that the read gate offers tools of every kind.
func checkKinds(t *testing.T, s *runningDemo) {
	t.Helper()
	_, body := get(t, s.base+"/api/tools/catalog?gate=chat")
	var catalog []struct{ Name, Server, Origin string }
	if err := json.Unmarshal(body, &catalog); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	kinds := make(map[string]int)
	for _, tool := range catalog {
		switch {
		case tool.Server != "":
			kinds[tool.Server]++
		case strings.HasSuffix(tool.Origin, ".ts"):
			kinds["script"]++
		default:
			kinds["go"]++
		}
	}
	for _, kind := range append([]string{"go", "script"}, demo.Servers...) {
		if kinds[kind] == 0 {
			t.Errorf("gate chat has no tool of %s: %s", kind, body)
		}
	}
}

// checkProblems waits until exactly the intended problems are reported.
func checkProblems(t *testing.T, y *yard.Yard) {
	t.Helper()
	var faults []string
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if faults = faultsOf(y.Problems()); len(faults) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Error(strings.Join(faults, "\n"))
			return
		}
	}
}

// faultsOf returns the differences between problems and the intended ones.
func faultsOf(problems []toolyard.Problem) (faults []string) {
	want := map[string]bool{"berth_forecast.ts:11:43": true, "archive: down": true, "fuel_log is withheld: its definition has changed": true, "share_position is withheld: it is new": true}
	for _, p := range problems {
		found := false
		for text := range want {
			if strings.Contains(p.String(), text) {
				found = true
				delete(want, text)
			}
		}
		if !found {
			faults = append(faults, fmt.Sprintf("unexpected problem: %v", p))
		}
		if p.File != "" && (p.Line == 0 || (p.Frame == "" && strings.HasSuffix(p.File, ".ts"))) {
			faults = append(faults, fmt.Sprintf("%v has no line or no frame: %+v", p, p))
		}
	}
	for text := range want {
		faults = append(faults, fmt.Sprintf("missing problem %q in %v", text, problems))
	}
	return faults
}

// checkPatterns checks that the simulated calls are possible: the gate offers the tool, the
// price matches, and the arguments are valid.
func checkPatterns(t *testing.T, y *yard.Yard) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	for _, act := range demo.Patterns {
		v, _ := y.View(act.Gate)
		tool, ok := v.Lookup(act.Name())
		if !ok {
			t.Errorf("gate %s has no tool %s", act.Gate, act.Name())
			continue
		}
		if v.Mode != act.Mode() || v.Surface == toolyard.Execute && tool.Price.USD != act.Price {
			t.Errorf("%s at %s: mode %s and price %v, want %s and %v", act.Name(), act.Gate, v.Mode, tool.Price.USD, act.Mode(), act.Price)
		}
		for range 20 {
			args := act.Args(r, false)
			if _, err := tool.Validate(t.Context(), args); err != nil {
				t.Errorf("%s %s: %v", act.Name(), args, err)
			}
		}
	}
}

// checkPacks checks that the house can be controlled, that the paper account trades at moving
// prices, and that an operator can stop it.
func checkPacks(t *testing.T, s *runningDemo) {
	t.Helper()
	call := func(gate, tool, args string) string {
		t.Helper()
		res, err := s.yard.Call(t.Context(), gate, toolyard.Caller{ID: "test"}, tool, json.RawMessage(args))
		if err != nil {
			return err.Error()
		}
		return string(res.Structured)
	}
	eventually(t, "the house is connected", func() bool { return strings.Contains(call("house", "home_overview", "{}"), `"area":"Kitchen"`) })
	if got := call("house", "control_device", `{"ids": ["Bedroom fan"], "action": "turn_on"}`); !strings.Contains(got, `"to":"on`) {
		t.Error(got)
	}
	if got := call("treasury", "fetch_recent_bars", `{"symbol": "BTC", "interval": "1h", "lookback": 3}`); strings.Count(got, `"close"`) != 3 {
		t.Error(got)
	}
	if got := call("treasury", "propose_order", `{"symbol": "ETH", "action": "hold", "reasoning": "A test of the demo's account"}`); !strings.Contains(got, `"kind":"noop"`) {
		t.Error(got)
	}
	keys, err := os.ReadFile(filepath.Join(s.dir, keysFile))
	if err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`mira +(\S+)`).FindSubmatch(keys)
	body := strings.NewReader(`{"args": {"account": "treasury", "reason": "A test"}}`)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/api/v1/packs/trading/actions/pause", body)
	if err != nil || key == nil {
		t.Fatal(err, string(keys))
	}
	r.Header.Set("Authorization", "Bearer "+string(key[1]))
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // nothing was written
	if res.StatusCode != http.StatusOK {
		t.Errorf("pause: status %d", res.StatusCode)
	}
	if got := call("treasury", "propose_order", `{"symbol": "BTC", "action": "open", "side": "buy", "notionalUsd": "100", "reasoning": "A test of the paused account"}`); !strings.Contains(got, `"STATE"`) {
		t.Error(got)
	}
}

// checkNoProcess checks that no process of a program is left.
func checkNoProcess(t *testing.T, program string) {
	t.Helper()
	if _, err := os.Stat("/proc/self/exe"); err != nil {
		t.Log("processes cannot be listed on this system")
		return
	}
	eventually(t, "all processes have ended", func() bool {
		links, err := filepath.Glob("/proc/[0-9]*/exe")
		for _, link := range links {
			if target, _ := os.Readlink(link); target == program {
				return false
			}
		}
		return err == nil
	})
}

// An interrupt ends the demo, and no process or folder is left behind.
func TestDemoEndsOnInterrupt(t *testing.T) {
	program, temp := toolyardBinary(t), t.TempDir()
	var out, errs bytes.Buffer // errs is complete after Wait
	c := exec.CommandContext(t.Context(), program, "demo", "--listen", "127.0.0.1:0", "--rate", "20", "--history=false")
	c.Env = append(os.Environ(), "TMPDIR="+temp)
	stdout, err := c.StdoutPipe()
	if err == nil {
		c.Stderr, err = &errs, c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := make([]byte, 4096); !strings.Contains(out.String(), "Ctrl-C"); {
		n, err := stdout.Read(line)
		fmt.Fprint(&out, string(line[:n]))
		if err != nil {
			_ = c.Wait()
			t.Fatalf("%v\n%s%s", err, &out, &errs)
		}
	}
	time.Sleep(time.Second) // lets some calls start
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v\n%s%s", err, &out, &errs)
	}
	for _, text := range []string{"#key=tyl_", "/mcp/chat", "toolyard call --config " + temp} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("%s is missing:\n%s", text, &out)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	checkNoProcess(t, program)
}

func TestDemoDoesNotOverwrite(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "toolyard.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first := &demoCommand{listen: "127.0.0.1:0"}
	l, err := first.bind(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	second := &demoCommand{listen: l.Addr().String()}
	other, err := second.bind(t.Context())
	if err != nil || !second.otherPort {
		t.Fatalf("a second demo at %s: %v", l.Addr(), err)
	}
	t.Cleanup(func() { _ = other.Close() })
	if _, err := (&demoCommand{listen: ":0"}).bind(t.Context()); err == nil || !strings.Contains(err.Error(), "other machines") {
		t.Errorf("an address outside loopback: %v", err)
	}
	third := &demoCommand{dir: dir}
	if err := third.createFolder(); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("a folder that is not empty: %v", err)
	}
}
