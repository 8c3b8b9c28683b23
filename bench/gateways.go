package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// gateway is an MCP gateway.
type gateway struct {
	title   string
	path    string // path of its MCP endpoint
	http    bool   // supports servers over HTTP, and over stdio
	stdio   bool
	modern  bool                                      // supports clients that use 2026-07-28
	install func(ctx context.Context) (string, error) // returns the path of its binary; nil for Toolyard
	command func(program, dir, addr string, to target) *exec.Cmd
}

// target is the server behind a gateway: an address, or a program to start.
type target struct {
	addr    string
	command []string
}

// module is a released program built from its Go module.
type module struct{ path, version, program string }

// The other gateways and their versions. They are built outside this project.
var (
	mcpProxy = module{"github.com/TBXark/mcp-proxy", "v0.43.2", "github.com/TBXark/mcp-proxy"}
	gridctl  = module{"github.com/gridctl/gridctl", "v0.1.0-rc.3", "github.com/gridctl/gridctl/cmd/gridctl"}
)

// gateways returns the gateways to compare.
func gateways(binary string) []gateway {
	return []gateway{
		{title: "no gateway", path: "/mcp", http: true, modern: true},
		{title: "httputil.ReverseProxy", path: "/mcp", http: true, modern: true, command: startPlainProxy},
		{title: "Toolyard", path: "/mcp", http: true, stdio: true, modern: true, command: startToolyard, install: func(ctx context.Context) (string, error) {
			return buildToolyard(ctx, binary)
		}},
		{title: "TBXark/mcp-proxy " + mcpProxy.version, path: "/up/mcp", http: true, stdio: true, command: startMCPProxy, install: mcpProxy.install},
		{title: "gridctl " + gridctl.version, path: "/mcp", http: true, stdio: true, command: startGridctl, install: gridctl.install},
	}
}

// install builds the program in a separate module: go install would request the list of versions,
// which some module proxies do not provide. Earlier builds are reused.
func (m module) install(ctx context.Context) (string, error) {
	dir := filepath.Join(os.TempDir(), "toolyard-bench-peers", filepath.Base(m.path)+"@"+m.version)
	program := filepath.Join(dir, "program")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := fmt.Sprintf("module peer\n\ngo 1.26\n\nrequire %s %s\n", m.path, m.version)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(file), 0o600); err != nil {
		return "", err
	}
	return program, goBuild(ctx, dir, "-mod=mod", "-o", program, m.program)
}

func goBuild(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out[max(0, len(out)-300):])
	}
	return nil
}

func buildToolyard(ctx context.Context, binary string) (string, error) {
	if binary != "" {
		return filepath.Abs(binary)
	}
	program := filepath.Join(os.TempDir(), "toolyard-bench-peers", "toolyard")
	return program, goBuild(ctx, "", "-o", program, "github.com/toolyard/toolyard/cmd/toolyard")
}

func startPlainProxy(_, _, _ string, to target) *exec.Cmd {
	self, _ := os.Executable() // cannot fail: it is running
	return exec.Command(self, "-serve", "proxy", "-upstream", to.addr)
}

// startToolyard starts the program with default settings, which enable all policies.
func startToolyard(program, dir, addr string, to target) *exec.Cmd {
	server := map[string]any{"url": "http://" + to.addr + "/mcp"}
	if to.command != nil {
		server = map[string]any{"command": to.command[0], "args": to.command[1:]}
	}
	writeJSON(dir, "toolyard.yaml", map[string]any{"servers": map[string]any{"up": server}}) // JSON is also valid YAML
	return exec.Command(program, "serve", "--listen", addr)
}

func startMCPProxy(program, dir, addr string, to target) *exec.Cmd {
	server := map[string]any{"transportType": "streamable-http", "url": "http://" + to.addr + "/mcp"}
	if to.command != nil {
		server = map[string]any{"command": to.command[0], "args": to.command[1:]}
	}
	writeJSON(dir, "config.json", map[string]any{
		"mcpProxy":   map[string]any{"baseURL": "http://" + addr, "addr": addr, "name": "bench", "version": "1", "type": "streamable-http"},
		"mcpServers": map[string]any{"up": server},
	})
	return exec.Command(program, "-config", "config.json")
}

func startGridctl(program, dir, addr string, to target) *exec.Cmd {
	server := map[string]any{"name": "up", "transport": "http", "url": "http://" + to.addr + "/mcp"}
	if to.command != nil {
		server = map[string]any{"name": "up", "command": to.command}
	}
	writeJSON(dir, "stack.yaml", map[string]any{
		"version": "1", "name": "bench", "network": map[string]any{"name": "bench", "driver": "bridge"}, "mcp-servers": []any{server},
	})
	_, port, _ := net.SplitHostPort(addr)
	return exec.Command(program, "apply", "stack.yaml", "--foreground", "--port", port, "--home", dir)
}

func writeJSON(dir, name string, v any) {
	data, _ := json.Marshal(v)                              // cannot fail
	_ = os.WriteFile(filepath.Join(dir, name), data, 0o600) // if this fails, the program reports the missing file
}

// rival is a running gateway.
type rival struct {
	*contender
	gateway
	dir string
}

// run starts a gateway in front of a server and waits until a call through it succeeds.
func (g gateway) run(ctx context.Context, to target) (*rival, error) {
	if g.command == nil {
		return &rival{&contender{name: g.title, addr: to.addr}, g, ""}, nil
	}
	program, err := "", error(nil)
	if g.install != nil {
		if program, err = g.install(ctx); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "toolyard-bench-")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	cmd := g.command(program, dir, addr, to)
	cmd.Dir = dir
	r := &rival{&contender{name: g.title, addr: addr, cmd: cmd}, g, dir}
	if g.install == nil { // Toolyard is this program, which prints its address
		r.contender, err = startCommand(g.title, cmd)
		return r, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return r, r.await(ctx)
}

func (r *rival) await(ctx context.Context) (err error) {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		var c *mcpClient
		if c, err = r.dial(true); err == nil {
			_, err = c.call()
			c.close()
		}
		if err == nil {
			return nil
		}
	}
	log, _ := os.ReadFile(filepath.Join(r.dir, "log"))
	r.stop()
	return fmt.Errorf("it is not responding: %w: %s", err, log[max(0, len(log)-500):])
}

// stop ends the gateway and removes its folder.
func (r *rival) stop() {
	if r.cmd != nil {
		r.contender.stop()
	}
	if r.dir != "" {
		_ = os.RemoveAll(r.dir)
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// legacySDK returns a server for version 2025-11-25 and older.
func legacySDK() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "bench"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{legacyVersion, "2025-06-18", "2025-03-26"}})
	addEcho(s)
	return s
}

// serveStdio serves that server on standard input and output.
func serveStdio() error {
	err := legacySDK().Run(context.Background(), &mcp.StdioTransport{})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
