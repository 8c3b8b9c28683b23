//go:build linux

package upstream_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/upstream"
)

// folderVariable names the folder in which a mortal server records its responses.
const folderVariable = "UPSTREAM_TEST_FOLDER"

// serveMortal runs a server that will be killed. It responds after a short time, and records each
// response before and after sending it: a call whose response was not started cannot succeed, and
// one whose response was sent must succeed.
func serveMortal() {
	folder := os.Getenv(folderVariable)
	_ = os.WriteFile(filepath.Join(folder, "pid"), []byte(strconv.Itoa(os.Getpid())), 0o600)
	notes, err := os.OpenFile(filepath.Join(folder, "notes"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(3)
	}
	var mu sync.Mutex
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Arguments struct{ Text string }
			}
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		go func() {
			text := m.Params.Arguments.Text
			if m.Method == "tools/call" {
				time.Sleep(rand.N(6 * time.Millisecond))
			}
			mu.Lock()
			defer mu.Unlock()
			_, _ = fmt.Fprintf(notes, "begun %s\n", text)
			_, _ = fmt.Fprintf(os.Stdout, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, mortalAnswer(m.Method, text))
			_, _ = fmt.Fprintf(notes, "sent %s\n", text)
		}()
	}
}

func mortalAnswer(method, text string) string {
	switch method {
	case "initialize":
		return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"mortal","version":"1"}}`
	case "tools/list":
		return `"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		return fmt.Sprintf(`"result":{"content":[{"type":"text","text":%q}]}`, text)
	case "ping":
		return `"result":{}`
	}
	return `"error":{"code":-32601,"message":"there is no such method"}`
}

// Requirements for killed servers.
const (
	maxNotice     = 50 * time.Millisecond // p99 from the kill to the caller's error
	mortals       = 4                     // concurrent servers
	callsInFlight = 3                     // calls of each server when it is killed
)

func kills() int {
	switch {
	case testing.Short():
		return 52
	case os.Getenv("ZOO") == "long":
		return 10_000
	}
	return 1000
}

// TestKill repeatedly kills servers during calls. No call may succeed if no response was sent, no
// sent response may be lost, and the servers must recover.
func TestKill(t *testing.T) {
	mark := fmt.Sprintf("kill-%d-", os.Getpid())
	stopAll([]*victim{newVictim(t, mark, 0)}) // creates shared resources before they are counted
	before := footprintNow()
	late := startLateness()
	victims := make([]*victim, mortals)
	for i := range victims {
		victims[i] = newVictim(t, mark, uint64(i))
	}
	t.Cleanup(func() { killMarked(mark) })
	up := footprintNow()
	var wg sync.WaitGroup
	for _, v := range victims {
		wg.Go(func() {
			for range kills() / mortals {
				v.round()
			}
			v.revive()
		})
	}
	wg.Wait()
	if found := marked(mark + "\x00"); len(found) != mortals {
		t.Errorf("%d servers have %d processes: %s", mortals, len(found), strings.Join(found, "; "))
	}
	expectFootprint(t, "while the servers are up", up)
	sum := stopAll(victims)
	if found := marked(mark + "\x00"); len(found) > 0 {
		t.Errorf("processes are left: %s", strings.Join(found, "; "))
	}
	noticed, back := percentile(sum.noticed, 99), percentile(sum.back, 99)
	machine, worst := late.stop()
	if noticed > maxNotice+worst && !raceDetector() {
		t.Errorf("the p99 from a kill to the error is %v, on a machine that is late by up to %v itself", noticed, worst)
	}
	expectFootprint(t, "after all", before)
	t.Logf("kill: %d kills, %d calls, %d answered, %d failed; p99 to the error %v, to the next answer %v; the machine is late by %v (p99)",
		kills()/mortals*mortals, sum.calls, sum.answered, len(sum.noticed), noticed, back, machine)
}

// victim is a server that is killed repeatedly, and the outcome.
type victim struct {
	t      *testing.T
	folder string
	*connected
	echo  *toolyard.Tool
	rng   *rand.Rand
	tally tally

	mu        sync.Mutex
	succeeded map[string]bool // keyed by request
}

type tally struct {
	calls, answered int
	noticed, back   []time.Duration
}

func newVictim(t *testing.T, mark string, seed uint64) *victim {
	t.Helper()
	v := &victim{t: t, folder: t.TempDir(), succeeded: make(map[string]bool), rng: rand.New(rand.NewPCG(seed, 1))}
	c, err := connect(t.Context(), upstream.Options{ID: "mortal", Command: []string{os.Args[0]}, Env: func() ([]string, error) {
		return []string{roleVariable + "=mortal", folderVariable + "=" + v.folder, markVariable + "=" + mark, "GOMAXPROCS=1"}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	v.connected = c
	if v.echo = c.tool("echo", time.Minute); v.echo == nil {
		t.Fatal("the server does not come up: ", c.Problems())
	}
	return v
}

// call sends a unique request and records whether it succeeded.
func (v *victim) call(deadline time.Duration) (ok bool, err error) {
	v.mu.Lock()
	v.tally.calls++
	text := fmt.Sprintf("call-%d", v.tally.calls)
	v.mu.Unlock()
	res, err := callTool(context.Background(), v.echo, text, deadline)
	ok = err == nil && !res.IsError
	if ok && !bytes.Contains(res.Raw(), []byte(`"`+text+`"`)) {
		v.t.Errorf("%s was answered with %s", text, res.Raw())
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.succeeded[text] = ok
	if ok {
		v.tally.answered++
	}
	return ok, err
}

// revive waits until the server responds again.
func (v *victim) revive() {
	for deadline := time.Now().Add(time.Minute); ; {
		ok, err := v.call(30 * time.Second)
		if ok {
			return
		}
		if time.Now().After(deadline) {
			v.t.Errorf("the server does not come back: %v", err)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// round kills the server during calls.
func (v *victim) round() {
	start := time.Now()
	v.revive()
	if v.tally.calls > 1 {
		v.tally.back = append(v.tally.back, time.Since(start))
	}
	var calls sync.WaitGroup
	var mu sync.Mutex
	var failed []time.Time
	for range callsInFlight {
		calls.Go(func() {
			if ok, err := v.call(30 * time.Second); !ok {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, time.Now())
				if e := (*toolyard.Error)(nil); !errors.As(err, &e) || e.Code != toolyard.Unavailable {
					v.t.Errorf("a call of a server that was killed ends with %v", err)
				}
			}
		})
	}
	time.Sleep(time.Duration(v.rng.Int64N(int64(6 * time.Millisecond))))
	killed := v.kill()
	calls.Wait()
	for _, at := range failed {
		v.tally.noticed = append(v.tally.noticed, at.Sub(killed))
	}
}

// kill kills the current server process and returns the time.
func (v *victim) kill() time.Time {
	data, err := os.ReadFile(filepath.Join(v.folder, "pid"))
	pid, numErr := strconv.Atoi(string(data))
	if err := errors.Join(err, numErr); err != nil {
		v.t.Error(err)
		return time.Now()
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		v.t.Error("the server had exited before it was killed: ", err)
	}
	return time.Now()
}

// check compares the callers' results with the server's records.
func (v *victim) check() {
	data, err := os.ReadFile(filepath.Join(v.folder, "notes"))
	if err != nil {
		v.t.Error(err)
		return
	}
	begun, sent := make(map[string]bool), make(map[string]bool)
	for line := range strings.Lines(string(data)) {
		what, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		map[string]map[string]bool{"begun": begun, "sent": sent}[what][text] = true
	}
	for text, ok := range v.succeeded {
		switch {
		case ok && !begun[text]:
			v.t.Errorf("%s has a result that the server never sent", text)
		case !ok && sent[text]:
			v.t.Errorf("%s was answered, but the answer was lost", text)
		}
	}
}

// stopAll stops the servers and combines their results.
func stopAll(victims []*victim) (sum tally) {
	for _, v := range victims {
		v.stop()
		<-v.ended
		v.check()
		sum.calls += v.tally.calls
		sum.answered += v.tally.answered
		sum.noticed = append(sum.noticed, v.tally.noticed...)
		sum.back = append(sum.back, v.tally.back...)
	}
	return sum
}

// expectFootprint waits until the process uses no more resources than before.
func expectFootprint(t *testing.T, when string, want footprint) {
	t.Helper()
	var now footprint
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if now = footprintNow(); now.goroutines <= want.goroutines+1 && now.files <= want.files+1 {
			return
		}
	}
	t.Errorf("%s there are %d goroutines and %d files, before there were %d and %d:\n%.6000s", when, now.goroutines, now.files, want.goroutines, want.files, goroutines())
}
