//go:build linux

package upstream_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/upstream"
	"github.com/toolyard/toolyard/upstream/internal/hostile"
)

// The test binary also acts as every other program in these tests. This variable selects the
// program.
const roleVariable = "UPSTREAM_TEST_ROLE"

var roles = map[string]func(){"hostile": serveHostile, "visitor": visitAll, "mortal": serveMortal}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		roles[role]()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Limits for every run.
const (
	callDeadline = 300 * time.Millisecond
	maxOverrun   = 250 * time.Millisecond
	maxStop      = 6 * time.Second // includes two grace periods for a process that does not exit
	resultCap    = 1 << 20
	maxGrowth    = resultCap + 16<<20 // of the heap, per call
	maxSlowdown  = 1.1                // of calls to another server
	noise        = 20 * time.Millisecond
)

// visit is one run: it connects to a misbehaving server and calls it.
type visit struct {
	N              int
	Behaviour      string // empty means: wait until nothing is left of earlier visits
	Transport      hostile.Transport
	Seed           uint64
	URL            string // set for transports that use a URL
	Lure, LureFile string
	Mark           string // set in the environment of the server's processes
	Long, Alone    bool
}

func (v visit) String() string { return fmt.Sprintf("%s/%s/%d", v.Behaviour, v.Transport, v.Seed) }

// report is the result of one visit or of all visits.
type report struct {
	N       int
	Faults  []string
	Overrun time.Duration // longest overrun
	Growth  uint64        // maximum heap growth during the visit
	P99     time.Duration // p99 of calls to an honest server; only in the last report
	Steady  int           // number of those calls
	Late    time.Duration // longest scheduling delay of the machine
}

// zoo is the size of the test.
type zoo struct {
	rounds, heavyRounds int // seeds for each behaviour and transport
	lanes               int // concurrent visits besides one to a server that sends megabytes; zero for one visit at a time
	long                bool
	only                *regexp.Regexp
}

// growth returns the allowed heap growth: for one call, or for one heavy call and all others
// together.
func (z zoo) growth() uint64 {
	if z.lanes == 0 {
		return maxGrowth
	}
	return 2 * maxGrowth
}

// zooSize returns 2,000 runs, or 10,000 if ZOO is long. ZOO_ONLY selects runs by their names,
// behaviour/transport/seed; they then run one at a time, for debugging.
func zooSize() zoo {
	only := regexp.MustCompile(os.Getenv("ZOO_ONLY"))
	switch {
	case only.String() != "":
		return zoo{rounds: 21, heavyRounds: 21, only: only, long: os.Getenv("ZOO") == "long"}
	case testing.Short():
		return zoo{rounds: 1, heavyRounds: 1, lanes: 4, only: only}
	case os.Getenv("ZOO") == "long":
		return zoo{rounds: 21, heavyRounds: 4, lanes: 4, only: only, long: true}
	}
	return zoo{rounds: 4, heavyRounds: 3, lanes: 4, only: only}
}

// TestZoo makes a client process connect to every misbehaving server. The process must not die,
// hang, grow, leak or be redirected, and a well-behaved server must not be affected.
func TestZoo(t *testing.T) {
	size := zooSize()
	bait := newBait(t)
	visitor, control := startVisitor(t), startVisitor(t)
	k := &keeper{t: t, size: size, visitor: visitor, control: control, bait: bait, mark: fmt.Sprintf("zoo-%d-", os.Getpid()), reports: make(map[string]report)}
	time.Sleep(time.Second)
	for round := range uint64(size.rounds) {
		k.round(round)
		if visitor.dead() {
			break
		}
		k.settle()
	}
	k.compare(visitor.finish(), control.finish())
	bait.check(t)
	k.summarise()
}

// keeper plans and evaluates the visits.
type keeper struct {
	t       *testing.T
	size    zoo
	visitor *visitorProcess // visits misbehaving servers
	control *visitorProcess // visits as many well-behaved servers
	bait    *bait
	mark    string

	mu      sync.Mutex
	runs    int
	reports map[string]report
	p99     [2]time.Duration
}

// round visits every behaviour once over each of its transports, in random order.
func (k *keeper) round(seed uint64) {
	var visits []visit
	for _, b := range hostile.Behaviours {
		for _, transport := range b.Transports {
			v := visit{Behaviour: b.Name, Transport: transport, Seed: seed}
			if (!b.Heavy || seed < uint64(k.size.heavyRounds)) && k.size.only.MatchString(v.String()) {
				visits = append(visits, v)
			}
		}
	}
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(visits), func(i, j int) { visits[i], visits[j] = visits[j], visits[i] })
	heavy, light := make(chan struct{}, 1), make(chan struct{}, k.size.lanes)
	if k.size.lanes == 0 {
		light = heavy
	}
	var wg sync.WaitGroup
	for _, v := range visits {
		b, _ := hostile.Find(v.Behaviour)
		lane := light
		if b.Heavy {
			lane = heavy
		}
		wg.Go(func() {
			lane <- struct{}{}
			defer func() { <-lane }()
			k.run(v, b)
		})
	}
	wg.Wait()
}

// run makes one visit.
func (k *keeper) run(v visit, b hostile.Behaviour) {
	if k.visitor.dead() {
		return
	}
	v.Lure, v.LureFile, v.Mark = k.bait.url+"/"+v.Behaviour, k.bait.file, k.mark
	v.Long, v.Alone = k.size.long, k.size.lanes == 0
	if b.Escapes {
		v.Mark += "escaped"
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { // visits a well-behaved server, for comparison
		honest := v
		honest.Behaviour = hostile.Honest.Name
		for _, fault := range k.admit(k.control, honest, hostile.Honest).Faults {
			k.t.Errorf("honest %s: %s", v.Transport, fault)
		}
	})
	r := k.admit(k.visitor, v, b)
	if k.size.lanes == 0 { // anything left must be from this visit
		r.Faults = append(r.Faults, k.visitor.ask(visit{}).Faults...)
	}
	k.judge(v.String(), r)
}

// admit makes a client process visit a server. It starts the server first if the transport uses a
// URL.
func (k *keeper) admit(to *visitorProcess, v visit, b hostile.Behaviour) report {
	if v.Transport != hostile.Stdio {
		b.Lure, b.LureFile, b.Long = v.Lure, v.LureFile, v.Long
		server := httptest.NewServer(hostile.Handler(b, v.Seed))
		defer func() {
			go func() {
				server.CloseClientConnections()
				server.Close()
			}()
		}()
		v.URL = server.URL + map[hostile.Transport]string{hostile.HTTP: "/mcp", hostile.SSE: "/sse"}[v.Transport]
	}
	return to.ask(v)
}

// judge records a visit's result.
func (k *keeper) judge(name string, r report) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.runs++
	k.reports[name] = r
	for _, fault := range r.Faults {
		k.t.Errorf("%s: %s", name, fault)
	}
}

// settle checks that the visits left nothing behind, neither in the visitor nor as processes.
func (k *keeper) settle() {
	for _, fault := range k.visitor.ask(visit{}).Faults {
		k.t.Error(fault)
	}
	var left []string
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if left = marked(k.mark + "\x00"); len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	if len(left) > 0 {
		k.t.Errorf("%d processes are left: %s", len(left), strings.Join(left, "; "))
	}
	if escaped := marked(k.mark + "escaped\x00"); len(escaped) > 0 {
		k.t.Logf("%d processes that left their session live on: %s", len(escaped), strings.Join(escaped, "; "))
	}
	killMarked(k.mark)
}

// compare compares time and memory with those of a process that visits the same number of
// well-behaved servers at the same time on the same machine.
func (k *keeper) compare(crowded, alone report) {
	for _, fault := range slices.Concat(crowded.Faults, alone.Faults) {
		k.t.Error(fault)
	}
	k.p99 = [2]time.Duration{crowded.P99, alone.P99}
	if raceDetector() {
		return // the race detector costs additional time and memory
	}
	// In a short run, other packages' tests use a varying share of the machine.
	if limit := time.Duration(float64(alone.P99)*maxSlowdown) + noise; crowded.P99 > limit && !testing.Short() {
		k.t.Errorf("a well-behaved server has a p99 of %v next to the zoo and of %v next to well-behaved servers (%d and %d calls)", crowded.P99, alone.P99, crowded.Steady, alone.Steady)
	}
	k.complain(fmt.Sprintf("runs had a call that returned too late, in ms, on a machine that is itself late by %v at most", alone.Late),
		func(r report) int64 { return r.Overrun.Milliseconds() }, (maxOverrun + alone.Late).Milliseconds())
	k.complain("runs saw the heap grow too much, in MiB (ZOO_ONLY shows whose doing it was)",
		func(r report) int64 { return int64(r.Growth >> 20) }, int64(k.size.growth()>>20))
}

// complain reports the runs that exceeded a limit, worst first.
func (k *keeper) complain(what string, of func(report) int64, limit int64) {
	var found []string
	for name, r := range k.reports {
		if of(r) > limit {
			found = append(found, name)
		}
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Compare(of(k.reports[b]), of(k.reports[a])) })
	for i, name := range found {
		found[i] = fmt.Sprintf("%s (%d)", name, of(k.reports[name]))
	}
	if len(found) > 0 {
		k.t.Errorf("%d %s: %s", len(found), what, strings.Join(found[:min(len(found), 12)], ", "))
	}
}

// raceDetector reports whether the test binary was built with the race detector.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// summarise logs the worst values.
func (k *keeper) summarise() {
	names := slices.Collect(maps.Keys(k.reports))
	if len(names) == 0 {
		k.t.Fatal("there were no runs")
	}
	slowest := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(k.reports[a].Overrun, k.reports[b].Overrun) })
	fattest := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(k.reports[a].Growth, k.reports[b].Growth) })
	k.t.Logf("zoo: %d runs of %d behaviours; slowest overrun %v (%s); peak growth %.1f MiB (%s); p99 of a well-behaved server %v next to the zoo, %v beside its like (%.2f times)",
		k.runs, len(hostile.Behaviours), k.reports[slowest].Overrun.Round(time.Millisecond), slowest, float64(k.reports[fattest].Growth)/(1<<20), fattest,
		k.p99[0].Round(time.Microsecond), k.p99[1].Round(time.Microsecond), float64(k.p99[0])/float64(max(k.p99[1], 1)))
}

// markVariable marks all of a visit's processes, even those whose parent has exited.
const markVariable = "UPSTREAM_TEST_MARK"

// marked returns the processes whose mark starts with a prefix. A NUL ends the mark.
func marked(mark string) (found []string) {
	eachMarked(mark, func(pid int, command string) { found = append(found, fmt.Sprintf("%d %s", pid, command)) })
	return found
}

// killMarked kills leftover processes.
func killMarked(mark string) {
	eachMarked(mark, func(pid int, _ string) { _ = syscall.Kill(pid, syscall.SIGKILL) })
}

func eachMarked(mark string, f func(pid int, command string)) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(env, []byte(markVariable+"="+mark)) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		_, about, _ := strings.Cut(string(env), behaviourVariable+"=")
		about, _, _ = strings.Cut(about, "\x00")
		f(pid, about+" "+strings.ReplaceAll(filepath.Base(string(command)), "\x00", " "))
	}
}

// bait is a URL and a file that servers try to make their clients access. Neither may be accessed.
type bait struct {
	url, file string

	mu   sync.Mutex
	hits []string
}

func newBait(t *testing.T) *bait {
	t.Helper()
	// This address is used only here, so that a client in another test cannot access it by mistake.
	listener, err := net.Listen("tcp", "127.86.0.1:0")
	if err != nil {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	b := &bait{url: "http://" + listener.Addr().String(), file: filepath.Join(t.TempDir(), "bait.json")}
	if err := syscall.Mkfifo(b.file, 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { b.accept(listener) })
	wg.Go(b.watch)
	t.Cleanup(func() {
		_ = listener.Close()
		if f, err := os.OpenFile(b.file, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil { // unblocks watch
			defer func() { _ = f.Close() }()
		}
		wg.Wait()
	})
	return b
}

func (b *bait) hit(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hits = append(b.hits, what)
}

func (b *bait) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		first := make([]byte, 200)
		n, _ := conn.Read(first)
		_ = conn.Close()
		b.hit(fmt.Sprintf("%q", first[:n]))
	}
}

// watch waits until the file, which is a pipe, is opened.
func (b *bait) watch() {
	f, err := os.OpenFile(b.file, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteString("{}")
	_ = f.Close()
	b.hit(b.file)
}

func (b *bait) check(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.hits) > 0 {
		t.Errorf("the client was led to where it must not go, %d times: %.1000s", len(b.hits), strings.Join(b.hits, ", "))
	}
}

// visitorProcess is the process under test, from the keeper's side.
type visitorProcess struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	said syncBuffer

	mu     sync.Mutex
	n      int
	open   map[int]visit
	asked  map[int]chan report
	last   report
	ended  chan struct{}
	exited bool
}

// syncBuffer stores the beginning of the output.
type syncBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.b) < 16<<10 { // the beginning of a crash is the most helpful part
		s.b = append(s.b, p...)
	}
	return len(p), nil
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.b)
}

func startVisitor(t *testing.T) *visitorProcess {
	t.Helper()
	v := &visitorProcess{t: t, cmd: exec.Command(os.Args[0]), open: make(map[int]visit), asked: make(map[int]chan report), ended: make(chan struct{})}
	v.cmd.Env = append(os.Environ(), roleVariable+"=visitor")
	v.cmd.Stderr = &v.said
	var err error
	if v.in, err = v.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go v.listen(out)
	t.Cleanup(func() {
		_ = v.cmd.Process.Kill()
		<-v.ended
	})
	return v
}

// listen delivers reports to waiting callers.
func (v *visitorProcess) listen(out io.Reader) {
	dec := json.NewDecoder(out)
	for {
		var r report
		if err := dec.Decode(&r); err != nil {
			break
		}
		v.mu.Lock()
		if r.N == 0 {
			v.last = r
		} else {
			v.asked[r.N] <- r
			delete(v.open, r.N)
		}
		v.mu.Unlock()
	}
	_ = v.cmd.Wait()
	v.mu.Lock()
	v.exited = true
	if len(v.open) > 0 {
		var names []string
		for _, o := range v.open {
			names = append(names, o.String())
		}
		v.t.Errorf("the client process has died while it visited %s:\n%s", strings.Join(names, ", "), v.said.String())
	}
	v.mu.Unlock()
	close(v.ended)
}

func (v *visitorProcess) dead() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.exited
}

// ask makes the process perform a visit, and waits for its report.
func (v *visitorProcess) ask(what visit) report {
	answer := make(chan report, 1)
	v.mu.Lock()
	v.n++
	what.N = v.n
	v.open[what.N], v.asked[what.N] = what, answer
	line, _ := json.Marshal(what) // cannot fail
	_, err := v.in.Write(append(line, '\n'))
	v.mu.Unlock()
	if err != nil {
		return report{Faults: []string{"the client process does not listen: " + err.Error()}}
	}
	select {
	case r := <-answer:
		return r
	case <-v.ended:
		return report{} // reported once, with all open visits
	case <-time.After(2 * time.Minute):
		return report{Faults: []string{"the visit does not end"}}
	}
}

// finish ends the process and returns its last report.
func (v *visitorProcess) finish() report {
	_ = v.in.Close()
	select {
	case <-v.ended:
	case <-time.After(30 * time.Second):
		v.t.Error("the client process does not end")
		_ = v.cmd.Process.Signal(syscall.SIGQUIT) // prints the stacks of its goroutines
		<-v.ended
		v.t.Log(v.said.String())
	}
	if v.last.Steady == 0 {
		v.t.Errorf("the client process has not reported: %s", v.said.String())
	}
	return v.last
}

// Environment variables of a process that runs a server.
const (
	behaviourVariable = "UPSTREAM_TEST_BEHAVIOUR"
	seedVariable      = "UPSTREAM_TEST_SEED"
	lureVariable      = "UPSTREAM_TEST_LURE"
	lureFileVariable  = "UPSTREAM_TEST_LURE_FILE"
	longVariable      = "UPSTREAM_TEST_LONG"
)

// serveHostile runs a misbehaving server.
func serveHostile() {
	b, ok := hostile.Find(os.Getenv(behaviourVariable))
	if !ok {
		os.Exit(3)
	}
	b.Lure, b.LureFile, b.Long = os.Getenv(lureVariable), os.Getenv(lureFileVariable), os.Getenv(longVariable) != ""
	seed, _ := strconv.ParseUint(os.Getenv(seedVariable), 10, 64)
	hostile.ServeStdio(b, seed, os.Stdin, os.Stdout, os.Stderr)
}

// visitor is the state of the process under test.
type visitor struct {
	base  footprint
	heap  heapWatch
	stops sync.WaitGroup // counts servers that are being stopped

	mu     sync.Mutex
	faults []string // faults after their visit has ended
}

// footprint is a process's use of resources.
type footprint struct{ goroutines, files int }

func footprintNow() footprint {
	files, _ := os.ReadDir("/proc/self/fd")
	return footprint{runtime.NumGoroutine(), len(files)}
}

// goroutines returns the grouped stacks of all goroutines.
func goroutines() string {
	var dump bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&dump, 1)
	return dump.String()
}

// lateness measures the scheduling delay of the machine.
type lateness struct {
	quit, ended chan struct{}
	late        []time.Duration
}

func startLateness() *lateness {
	l := &lateness{quit: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		for {
			start := time.Now()
			select {
			case <-l.quit:
				return
			case <-time.After(5 * time.Millisecond):
				l.late = append(l.late, time.Since(start)-5*time.Millisecond)
			}
		}
	}()
	return l
}

// stop ends the measurement and returns the p99 and the maximum.
func (l *lateness) stop() (p99, worst time.Duration) {
	close(l.quit)
	<-l.ended
	return percentile(l.late, 99), slices.Max(l.late)
}

// visitAll runs the process under test.
func visitAll() {
	v := &visitor{}
	ctx, cancel := context.WithCancel(context.Background())
	late, s := startLateness(), startSteady(ctx, v)
	go v.heap.run(ctx)
	time.Sleep(500 * time.Millisecond)
	v.base = footprintNow()
	v.heap.start()
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	say := func(r report) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(r) // if the keeper is gone, there is nothing left to do
	}
	var visits sync.WaitGroup
	for dec := json.NewDecoder(os.Stdin); ; {
		var next visit
		if dec.Decode(&next) != nil {
			break
		}
		if next.Behaviour == "" {
			visits.Wait()
			say(report{N: next.N, Faults: v.settle()})
			continue
		}
		visits.Go(func() { say(v.visit(next)) })
	}
	visits.Wait()
	p99, n := s.finish()
	_, worst := late.stop()
	cancel()
	say(report{P99: p99, Steady: n, Late: worst, Faults: v.faults})
}

func (v *visitor) fault(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.faults = append(v.faults, fmt.Sprintf(format, args...))
}

// settle waits until all visits are over and compares the footprint with the initial one.
func (v *visitor) settle() []string {
	v.stops.Wait()
	var now footprint
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		now = footprintNow()
		if now.goroutines <= v.base.goroutines+2 && now.files <= v.base.files+2 { // allows for calls to the honest server
			break
		}
		if time.Now().After(deadline) {
			v.fault("after the visits there are %d goroutines and %d files, before them there were %d and %d:\n%.6000s", now.goroutines, now.files, v.base.goroutines, v.base.files, goroutines())
			break
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	faults := v.faults
	v.faults = nil
	return faults
}

// heapWatch tracks the size of the live heap.
type heapWatch struct {
	mu    sync.Mutex
	base  uint64
	peaks map[*uint64]bool // maxima to update
}

func (h *heapWatch) start() {
	runtime.GC()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.base = liveHeap()
}

// liveHeap returns the size of the live heap after the last collection.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func (h *heapWatch) run(ctx context.Context) {
	for ctx.Err() == nil {
		live := liveHeap()
		h.mu.Lock()
		for peak := range h.peaks {
			*peak = max(*peak, live-min(live, h.base))
		}
		h.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
}

// follow records the maximum growth in peak until done is called.
func (h *heapWatch) follow(peak *uint64) (done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.peaks == nil {
		h.peaks = make(map[*uint64]bool)
	}
	h.peaks[peak] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.peaks, peak)
	}
}

// connected is a running server and its last published tools.
type connected struct {
	*upstream.Server
	tools   atomic.Pointer[[]*toolyard.Tool]
	changed chan struct{}
	stop    context.CancelFunc
	ended   chan struct{}
}

// connect runs a server.
func connect(ctx context.Context, o upstream.Options) (*connected, error) {
	s, err := upstream.New(o)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	c := &connected{Server: s, changed: make(chan struct{}, 1), stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		_ = s.Run(ctx, func(offer toolyard.Offer) {
			c.tools.Store(&offer.Tools)
			select {
			case c.changed <- struct{}{}:
			default:
			}
		})
	}()
	return c, nil
}

// tool waits for the tool with this name. If the name is empty, it waits for any tool other than
// the two that every server has.
func (c *connected) tool(name string, patience time.Duration) *toolyard.Tool {
	timeout := time.After(patience)
	for {
		if tools := c.tools.Load(); tools != nil {
			i := slices.IndexFunc(*tools, func(t *toolyard.Tool) bool {
				return t.Name == name || name == "" && t.Name != "echo" && t.Name != "bad"
			})
			if i >= 0 {
				return (*tools)[i]
			}
		}
		select {
		case <-c.changed:
		case <-timeout:
			return nil
		}
	}
}

// callTool calls a tool through the whole call path.
func callTool(ctx context.Context, t *toolyard.Tool, text string, deadline time.Duration) (*toolyard.Result, error) {
	args, _ := json.Marshal(map[string]string{"text": text}) // cannot fail
	path := callpath.Chain(callpath.Run, callpath.Recover(), callpath.Cap(256<<10, resultCap), callpath.Validate(deadline), callpath.Deadline(deadline))
	return path(ctx, &toolyard.Call{ID: "1", Tool: t, Args: args, Mode: toolyard.Write, Request: toolyard.Request{OnProgress: func(float64, float64, string) {}}})
}

// trying is a text that some regular expressions take forever to match.
var trying = strings.Repeat("a", 40) + "!"

// options returns the options for connecting to a visit's server.
func (v visit) options() upstream.Options {
	o := upstream.Options{ID: "zoo", Transport: upstream.Transport(v.Transport), URL: v.URL, Limits: upstream.Limits{Timeout: 10 * time.Second, MaxResult: resultCap}}
	if v.Transport != hostile.Stdio {
		return o
	}
	o.Command = []string{os.Args[0]}
	o.Env = func() ([]string, error) {
		env := []string{
			roleVariable + "=hostile", behaviourVariable + "=" + v.Behaviour, fmt.Sprintf("%s=%d", seedVariable, v.Seed),
			lureVariable + "=" + v.Lure, lureFileVariable + "=" + v.LureFile, markVariable + "=" + v.Mark, "GOMAXPROCS=1",
		}
		if v.Long {
			env = append(env, longVariable+"=1")
		}
		return env, nil
	}
	return o
}

// visit connects to a misbehaving server and calls its tools.
func (v *visitor) visit(what visit) (r report) {
	r.N = what.N
	b, _ := hostile.Find(what.Behaviour)
	if b.Heavy || what.Alone {
		runtime.GC() // garbage from earlier visits is no longer live
	}
	defer v.heap.follow(&r.Growth)()
	c, err := connect(context.Background(), what.options())
	if err != nil {
		r.Faults = append(r.Faults, "it cannot be made a source: "+err.Error())
		return r
	}
	defer v.part(what, c)
	works, patience := b.Point(what.Seed) == "tools/call", callDeadline
	if works {
		patience = 30 * time.Second
	}
	echo := c.tool("echo", patience)
	if echo == nil {
		if works {
			r.Faults = append(r.Faults, fmt.Sprintf("its tool echo is not offered: %v", c.Problems()))
		}
		return r
	}
	g := &guest{report: &r, behaviour: b, works: works}
	if works {
		g.call(echo, 20*time.Second)
	}
	for _, t := range []*toolyard.Tool{c.tool("bad", 0), c.tool("", 0), echo} {
		if t != nil {
			g.call(t, callDeadline)
		}
	}
	return r
}

// part stops a visit's server without delaying the next visit.
func (v *visitor) part(what visit, c *connected) {
	start := time.Now()
	c.stop()
	v.stops.Go(func() {
		select {
		case <-c.ended:
		case <-time.After(30 * time.Second):
			v.fault("%s: the server cannot be stopped", what)
			return
		}
		if took := time.Since(start); took > maxStop && !raceDetector() { // the race detector makes reading slow
			v.fault("%s: the server was stopped only after %v", what, took)
		}
	})
}

// guest makes the calls during one visit.
type guest struct {
	*report
	behaviour hostile.Behaviour
	works     bool // whether the first call to echo must succeed
	calls     int
}

// call calls a tool and checks the result.
func (g *guest) call(t *toolyard.Tool, deadline time.Duration) {
	g.calls++
	text := fmt.Sprintf("%s%d", trying, g.calls)
	start := time.Now()
	res, err := callTool(context.Background(), t, text, deadline)
	g.Overrun = max(g.Overrun, time.Since(start)-deadline)
	if err != nil {
		if g.works && g.calls == 1 {
			g.fault("echo does not answer: %v", err)
		}
		return
	}
	raw, err := res.MarshalJSON()
	switch {
	case err != nil:
		g.fault("the result of %s cannot be sent: %v", t.Name, err)
	case len(raw) > resultCap+64<<10:
		g.fault("the result of %s has %d bytes", t.Name, len(raw))
	case res.IsError || res.InputRequired():
	case bytes.Contains(raw, []byte(hostile.Poison)):
		g.fault("%s was answered with what was not its answer: %.300s", t.Name, raw)
	case t.Name == "echo" && !bytes.Contains(raw, []byte(text)):
		g.fault("echo was answered with %.300s", raw)
	case t.Name == "bad" && g.works && g.behaviour.Unanswered:
		g.fault("a call that was never answered has the result %.300s", raw)
	}
}

func (g *guest) fault(format string, args ...any) {
	g.Faults = append(g.Faults, fmt.Sprintf(format, args...))
}

// steady continuously calls a well-behaved server.
type steady struct {
	stop  chan struct{}
	ended chan struct{}
	took  []time.Duration
}

func startSteady(ctx context.Context, v *visitor) *steady {
	s := &steady{stop: make(chan struct{}), ended: make(chan struct{})}
	c, err := connect(ctx, visit{Behaviour: hostile.Honest.Name, Transport: hostile.Stdio}.options())
	if err != nil {
		panic(err)
	}
	echo := c.tool("echo", time.Minute)
	if echo == nil {
		panic(fmt.Sprint("the honest server does not offer its tools: ", c.Problems()))
	}
	go func() {
		defer close(s.ended)
		for n := 0; ; n++ {
			select {
			case <-s.stop:
				c.stop()
				<-c.ended
				return
			case <-time.After(2 * time.Millisecond):
			}
			text := strconv.Itoa(n)
			start := time.Now()
			res, err := callTool(ctx, echo, text, 30*time.Second)
			s.took = append(s.took, time.Since(start))
			if err != nil || !bytes.Contains(res.Raw(), []byte(`"`+text+`"`)) {
				v.fault("the honest server failed: %v, %v", res, err)
			}
		}
	}()
	return s
}

// finish ends the calls and returns the p99 duration.
func (s *steady) finish() (p99 time.Duration, calls int) {
	close(s.stop)
	<-s.ended
	return percentile(s.took, 99), len(s.took)
}

// percentile returns a percentile of the durations.
func percentile(all []time.Duration, of int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.SortFunc(all, cmp.Compare[time.Duration])
	return all[len(all)*of/100]
}
