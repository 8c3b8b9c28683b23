// Command bench compares Toolyard with a bare SDK server and a plain HTTP handler in one run,
// because only ratios are meaningful on a machine that is busy with other work.
//
//	go run ./bench            # everything
//	go run ./bench -quick     # shorter, for a first look
//	go run ./bench -contract  # only the cost of limits and prices
//	go run ./bench -console   # only the queries of the console
//	go run ./bench -console -calls 10000000
//	go run ./bench -peers     # only Toolyard and other MCP gateways
//	go run ./bench -peers -binary old/toolyard
//	go run ./bench -retrieval DIR  # only how well search finds tools, on labelled sets
//	go run ./bench -agents         # only queries of agents and runs of code
//	go run ./bench -code           # only runs of code
//	go run ./bench -tokens DIR     # only the tokens of tool definitions per task
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	serve := flag.String("serve", "", "serve this contender and nothing else")
	tools := flag.Int("tools", 0, "number of tools of the contender")
	quick := flag.Bool("quick", false, "measure for a shorter time")
	dir := flag.String("dir", "", "the contender's folder of scripts or configuration")
	onlyScripts := flag.Bool("scripts", false, "measure only TypeScript tools")
	server := flag.String("upstream", "", "the server behind the contender")
	upstreams := flag.Bool("upstreams", false, "measure only tools of MCP servers")
	listeners := flag.Int("listeners", 0, "measure only this number of listeners")
	contract := flag.Bool("contract", false, "measure only the cost of limits and prices")
	console := flag.Bool("console", false, "measure only the queries of the console")
	calls := flag.Int("calls", 0, "with -console: number of recorded calls; zero for the default")
	peers := flag.Bool("peers", false, "compare only the toolyard program with other MCP gateways")
	binary := flag.String("binary", "", "with -peers: the toolyard program to measure; empty to build it")
	only := flag.String("only", "", "with -peers: measure only http, stdio, modern or idle")
	some := flag.String("gateway", "", "with -peers: measure only gateways whose name contains this")
	retrieval := flag.String("retrieval", "", "measure only how well search finds tools, on the labelled sets of this folder")
	tokens := flag.String("tokens", "", "count only the tokens of tool definitions per task, with the labelled sets of this folder")
	agents := flag.Bool("agents", false, "measure only queries of agents and runs of code")
	code := flag.Bool("code", false, "measure only runs of code")
	flag.Parse()
	var err error
	switch {
	case *serve == "stdio":
		err = serveStdio()
	case *serve == "spin":
		err = serveSpin()
	case isWay(*serve):
		err = serveWay(*serve, *dir)
	case *serve != "":
		err = serveContender(*serve, *tools, *dir, *server)
	case *listeners > 0:
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		err = measureListeners(ctx, *listeners)
	case *console:
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour) // writing many calls takes a long time
		defer cancel()
		err = measureConsole(ctx, *quick, *calls)
	case *peers:
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour) // building the other gateways takes a long time
		defer cancel()
		err = measurePeers(ctx, *quick, *binary, *only, *some)
	case *agents:
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		err = measureAgents(ctx, *quick)
	case *code:
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		err = measureOnlyCode(ctx, *quick)
	case *retrieval != "":
		err = measureRetrieval(*retrieval)
	case *tokens != "":
		err = measureTokens(*tokens)
	default:
		err = measure(*quick, *onlyScripts, *upstreams, *contract)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

const (
	version = "2026-07-28"
	meta    = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}`
)

var (
	callBody = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello world"},` + meta + `}}`
	listBody = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`
)

// request returns an HTTP request as bytes.
func request(method, name, body string) []byte {
	h := "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" +
		"Mcp-Protocol-Version: " + version + "\r\nMcp-Method: " + method + "\r\n"
	if name != "" {
		h += "Mcp-Name: " + name + "\r\n"
	}
	return []byte(h + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// contender is a server in a separate process.
type contender struct {
	name string
	addr string
	cmd  *exec.Cmd
	in   io.Writer
	boot time.Duration
}

func start(ctx context.Context, name string, tools int) (*contender, error) {
	return startWith(ctx, name, nil, "-serve", name, "-tools", strconv.Itoa(tools))
}

// startWith starts this program as a contender.
func startWith(ctx context.Context, name string, env []string, args ...string) (*contender, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), env...)
	return startCommand(name, cmd)
}

// startCommand starts a contender, which prints its address when it is ready.
func startCommand(name string, cmd *exec.Cmd) (*contender, error) {
	began := time.Now()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s did not start: %w", name, err)
	}
	return &contender{name, strings.TrimSpace(addr), cmd, in, time.Since(began)}, nil
}

func (c *contender) stop() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// cpu returns the total CPU time of the contender's processes.
func (c *contender) cpu() (total time.Duration, err error) {
	for _, pid := range family(c.cmd.Process.Pid) {
		used, err := cpuOf(pid)
		if err != nil {
			return 0, err
		}
		total += used
	}
	return total, nil
}

// ownCPU returns the contender's CPU time, excluding the processes that it started.
func (c *contender) ownCPU() (time.Duration, error) {
	if c.cmd == nil {
		return 0, nil
	}
	return cpuOf(c.cmd.Process.Pid)
}

// cpuOf returns the CPU time of a process.
func cpuOf(pid int) (time.Duration, error) {
	const user, system = 11, 12
	return ticks(pid, user, system)
}

// cpuOfEnded returns the CPU time of a process's children that have ended.
func cpuOfEnded(pid int) (time.Duration, error) {
	const user, system = 13, 14
	return ticks(pid, user, system)
}

// ticks adds two times in a process's status, given their positions after the name.
func ticks(pid, user, system int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	u, _ := strconv.Atoi(fields[user])
	s, _ := strconv.Atoi(fields[system])
	return time.Duration(u+s) * 10 * time.Millisecond, nil // 100 ticks per second
}

// sample is one measurement.
type sample struct {
	perSecond float64
	cpu       time.Duration // the server's CPU time per request
	bytes     int64
}

// load sends the request repeatedly on n connections.
func (c *contender) load(req []byte, n int, d time.Duration) (sample, error) {
	before, err := c.cpu()
	if err != nil {
		return sample{}, err
	}
	var count, size atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	began := time.Now()
	for range n {
		wg.Go(func() {
			done, bytes, err := hammer(c.addr, req, began.Add(d))
			if err != nil {
				failed.Store(&err)
			}
			count.Add(done)
			size.Store(bytes)
		})
	}
	wg.Wait()
	took := time.Since(began)
	if e := failed.Load(); e != nil {
		return sample{}, fmt.Errorf("%s: %w", c.name, *e)
	}
	after, err := c.cpu()
	if err != nil {
		return sample{}, err
	}
	return sample{float64(count.Load()) / took.Seconds(), (after - before) / time.Duration(max(count.Load(), 1)), size.Load()}, nil
}

// hammer sends requests on one connection. It reads as little of each response as possible, to keep
// the load generator's overhead low.
func hammer(addr string, req []byte, until time.Time) (count, size int64, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = conn.Close() }()
	r := bufio.NewReaderSize(conn, 64<<10)
	for time.Now().Before(until) {
		if _, err := conn.Write(req); err != nil {
			return count, size, err
		}
		if size, err = readAnswer(r); err != nil {
			return count, size, err
		}
		count++
	}
	return count, size, nil
}

func readAnswer(r *bufio.Reader) (size int64, err error) {
	h, err := readHead(r)
	if err != nil {
		return 0, err
	}
	if h.status != 200 {
		rest, _ := r.Peek(min(r.Buffered(), 600))
		return 0, fmt.Errorf("status %d: %s", h.status, rest)
	}
	return h.readBody(r, io.Discard)
}

// head contains the fields of an HTTP response head that the load generator needs.
type head struct {
	status  int
	length  int64  // -1 if the body is chunked
	session string // value of Mcp-Session-Id
}

func readHead(r *bufio.Reader) (h head, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return h, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return h, fmt.Errorf("not an HTTP response: %q", line)
	}
	if h.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return h, err
	}
	chunked := false
	for {
		if line, err = r.ReadSlice('\n'); err != nil {
			return h, err
		}
		if len(line) == 2 {
			break
		}
		switch key, value, _ := strings.Cut(string(line), ":"); strings.ToLower(key) {
		case "content-length":
			h.length, _ = strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		case "transfer-encoding":
			chunked = true
		case "mcp-session-id":
			h.session = strings.TrimSpace(value)
		}
	}
	if chunked {
		h.length = -1
	}
	return h, nil
}

// readBody reads the body that follows the head, and returns its size.
func (h head) readBody(r *bufio.Reader, w io.Writer) (int64, error) {
	if h.length >= 0 {
		return io.CopyN(w, r, h.length)
	}
	return readChunks(r, w)
}

func readChunks(r *bufio.Reader, w io.Writer) (size int64, err error) {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return size, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(line)), 16, 64)
		if err != nil {
			return size, err
		}
		if _, err := io.CopyN(w, r, n); err != nil {
			return size, err
		}
		if _, err := r.Discard(2); err != nil {
			return size, err
		}
		if n == 0 {
			return size, nil
		}
		size += n
	}
}

// compare measures the contenders in turns with one request, and returns the medians.
func compare(contenders []*contender, req []byte, connections int, turn time.Duration, turns int) ([]sample, error) {
	return compareEach(contenders, slices.Repeat([][]byte{req}, len(contenders)), connections, turn, turns)
}

// medians returns each contender's median sample.
func medians(all [][]sample) []sample {
	medians := make([]sample, len(all))
	for i, samples := range all {
		slices.SortFunc(samples, func(a, b sample) int { return int(a.cpu - b.cpu) })
		medians[i].cpu, medians[i].bytes = samples[len(samples)/2].cpu, samples[0].bytes
		slices.SortFunc(samples, func(a, b sample) int { return int(a.perSecond - b.perSecond) })
		medians[i].perSecond = samples[len(samples)/2].perSecond
	}
	return medians
}

func measure(quick, onlyScripts, onlyUpstreams, onlyContract bool) error {
	turn, turns, saves := 2*time.Second, 5, 100
	if quick {
		turn, turns, saves = 300*time.Millisecond, 1, 5
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	if onlyScripts {
		return measureScripts(ctx, turn, turns, saves)
	}
	if onlyUpstreams {
		return errors.Join(measureUpstreams(ctx, turn, turns), measureServers(ctx, turn))
	}
	if onlyContract {
		return measureContract(ctx, turn, turns, quick)
	}
	if err := measureCalls(ctx, turn, turns); err != nil {
		return err
	}
	if err := measureContract(ctx, turn, turns, quick); err != nil {
		return err
	}
	if err := measureConsole(ctx, quick, 0); err != nil {
		return err
	}
	if err := measureUpstreams(ctx, turn, turns); err != nil {
		return err
	}
	if err := measureServers(ctx, turn); err != nil {
		return err
	}
	if err := measureScripts(ctx, turn, turns, saves); err != nil {
		return err
	}
	if err := measureLists(ctx, turn, turns); err != nil {
		return err
	}
	listeners := 100_000
	if quick {
		listeners = 5_000
	}
	return measureListeners(ctx, listeners)
}

func measureCalls(ctx context.Context, turn time.Duration, turns int) error {
	contenders, stop, err := startAll(ctx, 0, "plain", "sdk", "toolyard")
	if err != nil {
		return err
	}
	defer stop()
	s, err := compare(contenders, request("tools/call", "echo", callBody), 16, turn, turns)
	if err != nil {
		return err
	}
	fmt.Printf("One tool call over HTTP, MCP %s, 16 connections\n\n", version)
	fmt.Printf("| server | calls/s | CPU per call | bytes |\n|---|---|---|---|\n")
	for i, c := range contenders {
		fmt.Printf("| %s | %.0f | %v | %d |\n", titles[c.name], s[i].perSecond, s[i].cpu.Round(100*time.Nanosecond), s[i].bytes)
	}
	fmt.Printf("\nToolyard serves %.1f times as many calls per second as the bare SDK (goal: at least 3),\n", s[2].perSecond/s[1].perSecond)
	fmt.Printf("and uses %.1f times the CPU of the plain handler (goal: at most 3).\n\n", float64(s[2].cpu)/float64(s[0].cpu))
	return nil
}

func measureLists(ctx context.Context, turn time.Duration, turns int) error {
	const tools = 10_000
	contenders, stop, err := startAll(ctx, tools, "sdk", "toolyard")
	if err != nil {
		return err
	}
	defer stop()
	s, err := compare(contenders, request("tools/list", "", listBody), 4, turn, turns)
	if err != nil {
		return err
	}
	fmt.Printf("A page of tools/list, %d tools\n\n", tools)
	fmt.Printf("| server | start | pages/s | CPU per page | bytes |\n|---|---|---|---|---|\n")
	for i, c := range contenders {
		fmt.Printf("| %s | %v | %.0f | %v | %d |\n", titles[c.name], c.boot.Round(time.Millisecond), s[i].perSecond, s[i].cpu.Round(time.Microsecond), s[i].bytes)
	}
	fmt.Printf("\nToolyard needs 1/%.0f of the bare SDK's CPU time per page (goal: at most 1/20),\n", float64(s[0].cpu)/float64(s[1].cpu))
	fmt.Printf("and starts with %d tools in %v (goal: under 2s).\n", tools, contenders[1].boot.Round(time.Millisecond))
	return nil
}

func startAll(ctx context.Context, tools int, names ...string) (all []*contender, stop func(), err error) {
	stop = func() {
		for _, c := range all {
			c.stop()
		}
	}
	for _, name := range names {
		c, err := start(ctx, name, tools)
		if err != nil {
			stop()
			return nil, nil, err
		}
		all = append(all, c)
	}
	return all, stop, nil
}
