package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/pgtest"
)

// crew is a set of replicas that share a store, each with a client that listens for changes.
type crew struct {
	t        *testing.T
	store    string
	replicas []*process
	news     []<-chan message
	written  chan time.Time // times at which the store changed
}

// newCrew starts three replicas. The configuration is in a file for each replica, or in the store.
func newCrew(t *testing.T, storeURL, config string) *crew {
	t.Helper()
	c := &crew{t: t, store: storeURL, written: make(chan time.Time, 100)}
	for i := range 3 {
		var p *process
		if config != "" {
			p = serve(t, "toolyard", config)
		} else {
			address := freeAddress(t)
			p = &process{t: t, dir: t.TempDir(), url: "http://" + address + "/mcp"}
			args, env := []string{"serve", "--listen", address, "--store", storeURL}, []string(nil)
			if i == 0 {
				args, env = args[:3], []string{"TOOLYARD_STORE=" + storeURL}
			}
			p.launch("toolyard", env, args...)
			p.await(p.url)
		}
		c.replicas = append(c.replicas, p)
	}
	for _, p := range c.replicas {
		res, err := modernHTTP{t: t, url: p.url}.post(t.Context(), `"s"`, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
		if err != nil {
			t.Fatal(err)
		}
		news := follow(t, res)
		<-news // reads the acknowledgement
		c.news = append(c.news, news)
	}
	c.watchStore()
	return c
}

// watchStore records when the store changes.
func (c *crew) watchStore() {
	c.t.Helper()
	s, err := store.Open(c.t.Context(), c.store)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Watch(ctx, func(string) { c.written <- time.Now() })
	}()
	c.t.Cleanup(func() {
		cancel()
		<-done
		_ = s.Close()
	})
}

// all waits until every replica has the expected tools.
func (c *crew) all(what string, right func(tools []string) bool) {
	c.t.Helper()
	for i, p := range c.replicas {
		soon(c.t, fmt.Sprintf("replica %d: %s", i, what), func() bool { return right(listTools(c.t, modernHTTP{t: c.t, url: p.url})) })
	}
}

// reached is the time until the last replica notified its client, measured from the change in the
// store and from the end of the command, which may be later.
type reached struct{ fromStore, fromEnd time.Duration }

// change runs a command and waits until every replica's client is notified and then receives the
// expected list. Notifications of earlier changes may still arrive.
func (c *crew) change(right func(list message) bool, args ...string) reached {
	c.t.Helper()
	for _, news := range c.news {
		drain(news) // discards earlier notifications
	}
	drain(c.written)
	told := make(chan time.Time, len(c.news))
	for i, news := range c.news {
		go func() {
			for m := range news {
				at := time.Now()
				if list, _ := (modernHTTP{t: c.t, url: c.replicas[i].url}).send("1", "tools/list", ""); m.Method == "notifications/tools/list_changed" && right(list) {
					told <- at
					return
				}
			}
		}()
	}
	if code, out, errs := runIn(c.t, c.replicas[0].dir, []string{"TOOLYARD_STORE=" + c.store}, "toolyard", args...); code != 0 {
		c.t.Fatalf("toolyard %v: exit %d: %s%s", args, code, out, errs)
	}
	ended, limit := time.Now(), time.After(time.Minute)
	var last time.Time
	for range c.news {
		select {
		case last = <-told:
		case <-limit:
			c.t.Fatalf("toolyard %v: not every client was notified of the new tools within a minute", args)
		}
	}
	select {
	case written := <-c.written:
		return reached{last.Sub(written), max(0, last.Sub(ended))}
	case <-limit:
		c.t.Fatalf("toolyard %v: the store reported no change within a minute", args)
		return reached{}
	}
}

func drain[T any](c <-chan T) {
	for len(c) > 0 {
		<-c
	}
}

// reportTimes logs the durations of changes and checks the median.
func reportTimes(t *testing.T, what string, all []reached, limit time.Duration) {
	t.Helper()
	for name, of := range map[string]func(reached) time.Duration{
		"since it was in the store":    func(r reached) time.Duration { return r.fromStore },
		"since the end of the command": func(r reached) time.Duration { return r.fromEnd },
	} {
		var took []time.Duration
		for _, r := range all {
			took = append(took, of(r))
		}
		slices.Sort(took)
		most := took[len(took)-1]
		t.Logf("%s, until the last of 3 replicas notified its client, %s: p50 %v, p99 %v of %d", what, name, took[len(took)/2], most, len(took))
		if median := took[len(took)/2]; median > limit { // some changes may be late on a busy machine
			t.Errorf("%s took %v", what, median)
		}
	}
}

// startFakes starts servers and returns the configuration section that lists them: up0, up1 and so
// on.
func startFakes(t *testing.T, n int) (config string) {
	t.Helper()
	entries := make([]string, n)
	for i := range entries {
		entries[i] = onHTTP(fmt.Sprint("up", i), startFake(t, freeAddress(t), "both").url)
	}
	return servers(entries...)
}

// approveOnAll changes a tool, checks that every replica withholds it, approves it once, and checks
// that every replica offers it again.
func (c *crew) approveOnAll(server string) reached {
	c.t.Helper()
	tool := "mcp_" + server + "__plain"
	c.all("the tool is listed", func(tools []string) bool { return slices.Contains(tools, tool) })
	text(c.t, call(c.t, modernHTTP{t: c.t, url: c.replicas[1].url}, "mcp_"+server+"__mutate", "{}"))
	c.all("the changed tool is withheld", func(tools []string) bool { return !slices.Contains(tools, tool) })
	time.Sleep(600 * time.Millisecond) // a server is listed at most once every half second
	return c.change(func(list message) bool {
		return slices.Contains(namesIn(c.t, list), tool) && strings.Contains(defined(c.t, list, tool, "description"), "Does something else now.")
	}, "approve", "--yes", server)
}

// namesIn returns the names in a tool list.
func namesIn(t *testing.T, m message) (names []string) {
	t.Helper()
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(m.Result, &list); m.Error != nil || err != nil {
		t.Errorf("%+v: %v", m, err)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// An approval on one replica applies to all replicas within a second, and their clients are
// notified.
func TestApprovalReachesAllReplicas(t *testing.T) {
	t.Parallel()
	const rounds = 10
	storeURL := pgtest.ForTest(t).Database(t)
	c := newCrew(t, storeURL, fmt.Sprintf("store: %q\n", storeURL)+startFakes(t, rounds))
	var all []reached
	for i := range rounds {
		all = append(all, c.approveOnAll(fmt.Sprint("up", i)))
	}
	reportTimes(t, "approve", all, time.Second)
	if _, err := os.Stat(filepath.Join(c.replicas[0].dir, "toolyard.lock")); err == nil {
		t.Error("there is a file in addition to the store")
	}
}

// newStoredCrew returns a crew whose configuration is in the store. It has a gate with two tools
// from each of two servers.
func newStoredCrew(t *testing.T, storeURL string) (c *crew, config string) {
	t.Helper()
	config = startFakes(t, 2)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "toolyard.yaml"), []byte(config+gateWith("plain, mutate")), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := runIn(t, dir, nil, "toolyard", "apply", "--store", storeURL); code != 0 || !strings.Contains(out, "as version 1.") {
		t.Fatalf("apply: exit %d: %s%s", code, out, errs)
	}
	return newCrew(t, storeURL, ""), config
}

// gateWith returns a configuration section with a gate that offers some of each server's tools.
func gateWith(tools string) string {
	return fmt.Sprintf("toolsets:\n  some: {servers: [{id: up0, tools: [%s]}, {id: up1, tools: [%s]}]}\ngates:\n  default: {mode: write, toolset: some}\n", tools, tools)
}

// applyOnAll applies a configuration that offers some of each server's tools, and waits until all
// replicas serve it.
func (c *crew) applyOnAll(config string, tools ...string) reached {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "next.yaml")
	if err := os.WriteFile(file, []byte(config+gateWith(strings.Join(tools, ", "))), 0o600); err != nil {
		c.t.Fatal(err)
	}
	var want []string
	for _, tool := range tools {
		want = append(want, "mcp_up0__"+tool, "mcp_up1__"+tool)
	}
	slices.Sort(want)
	return c.change(func(list message) bool { return slices.Equal(want, slices.Sorted(slices.Values(namesIn(c.t, list)))) }, "apply", file)
}

// After a configuration is applied once, all replicas serve it within a second. No replica serves
// an invalid one.
func TestApplyReachesAllReplicas(t *testing.T) {
	t.Parallel()
	c, config := newStoredCrew(t, pgtest.ForTest(t).Database(t))
	var all []reached
	for i := range 10 {
		tools := []string{"echo", "plain", "ping"}
		all = append(all, c.applyOnAll(config, tools[i%2:2+i%2]...))
	}
	reportTimes(t, "apply", all, time.Second)
	if code, out, errs := run(t, "toolyard", "gates: {a: {mode: raed}}\n", "apply", "--store", c.store); code != 1 || !strings.Contains(errs, "toolyard.yaml:1:") {
		t.Errorf("a faulty configuration: exit %d: %s%s", code, out, errs)
	}
	if code, out, errs := run(t, "toolyard", "", "tools", "--store", c.store); code != 0 || !strings.Contains(out, "mcp_up1__ping") {
		t.Errorf("other commands do not read it from the store: exit %d: %s%s", code, out, errs)
	}
}

// Changes reach all replicas after PostgreSQL is restarted or killed.
func TestChangesReachAllReplicasAfterARestart(t *testing.T) {
	t.Parallel()
	cluster := pgtest.StartForTest(t)
	c, config := newStoredCrew(t, cluster.URL())
	var all []reached
	for i, end := range []func() error{func() error { return cluster.Stop("fast") }, cluster.Kill} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Start(); err != nil {
			t.Fatal(err)
		}
		tools := []string{"plain", "mutate", "echo", "ping"}
		all = append(all, c.approveOnAll(fmt.Sprint("up", i)), c.applyOnAll(config, tools[:3+i]...))
	}
	reportTimes(t, "approve and apply after a restart", all, 30*time.Second)
}
