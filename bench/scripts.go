package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const helloScript = `import { z } from "zod";
export const description = "Says hello, version %d.";
export const modes = ["read", "write"];
export const inputSchema = z.object({ name: z.string(), greeting: z.string().default("Hello") });
export default async ({ name, greeting }: z.infer<typeof inputSchema>) => ` + "`${greeting}, ${name}!`;\n"

// fileScript is a tool of realistic size.
const fileScript = `import { z } from "zod";
export const description = "Searches one collection of documents and returns the best matches, with a title, a link and a short excerpt of each. Number %d.";
export const category = "search";
export const modes = ["read", "write"];
export const inputSchema = z.object({
  query: z.string().min(1).describe("What to look for, in the words of the user"),
  limit: z.number().int().min(1).max(100).default(10).describe("How many results to return at most"),
  sort: z.enum(["relevance", "date", "size"]).default("relevance").describe("How to order the results"),
  tags: z.array(z.string()).optional().describe("Only results with all of these tags"),
});
export default async ({ query, limit }: z.infer<typeof inputSchema>) => ({ query, limit, results: [] as string[] });
`

// scripts is a folder of tools and a cache for them.
type scripts struct{ dir, cache string }

func newScripts(files int) (*scripts, error) {
	root, err := os.MkdirTemp("", "toolyard-bench-")
	if err != nil {
		return nil, err
	}
	s := &scripts{filepath.Join(root, "tools"), filepath.Join(root, "cache")}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, err
	}
	for i := range files {
		if err := s.write(fmt.Sprintf("search_%04d.ts", i), fileScript, i); err != nil {
			return nil, err
		}
	}
	return s, s.write("hello.ts", helloScript, 0)
}

func (s *scripts) write(name, text string, n int) error {
	return os.WriteFile(filepath.Join(s.dir, name), fmt.Appendf(nil, text, n), 0o600)
}

func (s *scripts) remove() { _ = os.RemoveAll(filepath.Dir(s.dir)) }

func (s *scripts) start(ctx context.Context) (*contender, error) {
	return startWith(ctx, "scripts", []string{"XDG_CACHE_HOME=" + s.cache}, "-serve", "scripts", "-dir", s.dir)
}

func measureScripts(ctx context.Context, turn time.Duration, turns, saves int) error {
	if err := measureScriptCalls(ctx, turn, turns); err != nil {
		return err
	}
	s, err := newScripts(1000)
	if err != nil {
		return err
	}
	defer s.remove()
	cold, err := s.start(ctx)
	if err != nil {
		return err
	}
	cold.stop()
	again, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer again.stop()
	fmt.Printf("A folder of 1000 TypeScript tools\n\n")
	fmt.Printf("First start %v (goal: under 5s), later starts %v (goal: under 1s).\n", cold.boot.Round(time.Millisecond), again.boot.Round(time.Millisecond))
	if err := again.callOnce(); err != nil {
		return err
	}
	p99, worst, err := measureSaves(ctx, s, again, saves)
	if err != nil {
		return err
	}
	fmt.Printf("A saved file is live after %v (p99 of %d saves), at most %v (goal: under 100ms).\n", p99.Round(100*time.Microsecond), saves, worst.Round(100*time.Microsecond))
	time.Sleep(30 * time.Second) // idle VMs are dropped after 20 s
	memory, err := again.memory()
	if err != nil {
		return err
	}
	fmt.Printf("All processes together use %.0f MiB when idle (goal: under 100).\n\n", float64(memory)/(1<<20))
	return nil
}

const (
	helloBody  = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hello","arguments":{"name":"Ann"},` + meta + `}}`
	legacyBody = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hello","arguments":{"name":"Ann"}}}`
)

func (c *contender) callOnce() error {
	return hammerOnce(c.addr, request("tools/call", "hello", helloBody))
}

// measureScriptCalls compares a script with the same tool in Node.
func measureScriptCalls(ctx context.Context, turn time.Duration, turns int) error {
	s, err := newScripts(0)
	if err != nil {
		return err
	}
	defer s.remove()
	if err := s.write("kept.ts", helloScript+"export const shared = true;\n", 0); err != nil {
		return err
	}
	ours, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer ours.stop()
	rows := []row{
		{"Toolyard, a fresh VM state for each call", ours, request("tools/call", "hello", helloBody), nil},
		{"Toolyard, a tool with shared state", ours, request("tools/call", "kept", strings.Replace(helloBody, "hello", "kept", 1)), nil},
	}
	node, err := startNode(ctx)
	if err == nil {
		defer node.stop()
		rows = append(rows, row{"Node " + nodeVersion() + ", official SDK", node, nodeRequest("Mcp-Session-Id: bench\r\n", legacyBody), nil})
	}
	fmt.Printf("One call to a TypeScript tool over HTTP, 16 connections\n\n")
	fmt.Printf("| server | calls/s | CPU per call, all processes |\n|---|---|---|\n")
	for range turns {
		for i := range rows {
			m, err := compare([]*contender{rows[i].server}, rows[i].request, 16, turn, 1)
			if err != nil {
				return err
			}
			rows[i].samples = append(rows[i].samples, m[0])
		}
	}
	medians := make([]sample, len(rows))
	for i, r := range rows {
		medians[i] = median(r.samples)
		fmt.Printf("| %s | %.0f | %v |\n", r.title, medians[i].perSecond, medians[i].cpu.Round(time.Microsecond))
	}
	fmt.Printf("\nToolyard uses %v of CPU for a call with a fresh VM state (goal: at most 2ms), and %v with shared state (goal: at most 200µs)", medians[0].cpu.Round(time.Microsecond), medians[1].cpu.Round(time.Microsecond))
	if len(rows) < 3 {
		fmt.Printf(".\nNode was not measured: %v\n\n", err)
		return nil
	}
	fmt.Printf(",\nand serves %.1f times as many calls per second as Node (goal: at least 2).\n\n", medians[0].perSecond/medians[2].perSecond)
	return nil
}

// row is one line of a comparison.
type row struct {
	title   string
	server  *contender
	request []byte
	samples []sample
}

func median(s []sample) sample {
	slices.SortFunc(s, func(a, b sample) int { return int(a.perSecond - b.perSecond) })
	return s[len(s)/2]
}

func nodeVersion() string {
	out, _ := exec.Command("node", "--version").Output()
	return strings.TrimSpace(string(out))
}

// startNode starts the official SDK's server, if its packages are installed.
func startNode(ctx context.Context) (*contender, error) {
	packages, err := filepath.Abs("acceptance/clients")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(packages, "node_modules/@modelcontextprotocol/sdk")); err != nil {
		return nil, err
	}
	c, err := startCommand("node", exec.CommandContext(ctx, "node", "bench/node/server.mjs", packages))
	if err != nil {
		return nil, err
	}
	initialize := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	return c, hammerOnce(c.addr, nodeRequest("", initialize))
}

func nodeRequest(header, body string) []byte {
	return []byte("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" +
		"Mcp-Protocol-Version: 2025-11-25\r\n" + header + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// hammerOnce sends one request.
func hammerOnce(addr string, req []byte) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(req); err != nil {
		return err
	}
	_, err = readAnswer(bufio.NewReaderSize(conn, 64<<10))
	return err
}

// measureSaves saves a tool and waits for the change notification, which is sent after the new
// version is live.
func measureSaves(ctx context.Context, s *scripts, c *contender, saves int) (p99, worst time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body := `{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.addr+"/mcp", strings.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {version}, "Mcp-Method": {"subscriptions/listen"}}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = res.Body.Close() }()
	notified := make(chan time.Time, 10)
	go func() {
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if strings.Contains(lines.Text(), "tools/list_changed") {
				notified <- time.Now()
			}
		}
	}()
	var all []time.Duration
	for i := range saves {
		time.Sleep(600 * time.Millisecond) // typical pace of an author
		begin := time.Now()
		if err := s.write("hello.ts", helloScript, i+1); err != nil {
			return 0, 0, err
		}
		select {
		case at := <-notified:
			all = append(all, at.Sub(begin))
		case <-time.After(time.Minute):
			return 0, 0, fmt.Errorf("save %d was not detected", i)
		}
	}
	slices.Sort(all)
	return all[len(all)*99/100], all[len(all)-1], nil
}

// family returns the IDs of the process and all its descendants.
func family(pid int) []int {
	list := []int{pid}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		data, _ := os.ReadFile(t)
		for field := range strings.FieldsSeq(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				list = append(list, family(child)...)
			}
		}
	}
	return list
}

// memory returns the memory of all of a contender's processes, with shared pages divided among
// them.
func (c *contender) memory() (total int, err error) {
	for _, pid := range family(c.cmd.Process.Pid) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(data)) {
			if f := strings.Fields(line); f[0] == "Pss:" {
				kib, _ := strconv.Atoi(f[1])
				total += kib << 10
			}
		}
	}
	return total, nil
}
