package jsvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/trust/subprocess"
)

// Compiler compiles scripts in separate processes. They have limited time and memory, and are
// killed if they exceed a limit. Processes are started on demand and reused.
type Compiler struct {
	slots chan struct{} // limits concurrent compilations, each in its own process

	preparing sync.WaitGroup // starts of successors

	mu     sync.Mutex
	idle   []*compilerProcess // the last one is used next
	closed bool
}

// Limits on a compiler process.
const (
	compileTime    = 10 * time.Second // per compilation
	compileMemory  = 768 << 20        // bytes of data, enforced by the kernel
	compileUses    = 500              // number of compilations before the process is replaced
	compileAhead   = 50               // number of compilations before the replacement at which the successor starts
	compileIdle    = time.Minute      // idle time before the process is ended
	compileTail    = 256 << 10        // bytes of output to keep; a crash message starts with its reason
	maxCompilers   = 4                // concurrent processes
	compileRetries = 2                // number of process starts for one compilation
)

// NewCompiler returns a compiler.
func NewCompiler() *Compiler {
	return &Compiler{slots: make(chan struct{}, min(maxCompilers, runtime.NumCPU()))}
}

// Close ends the idle compiler processes. Busy processes end when their work is done.
func (c *Compiler) Close() {
	c.mu.Lock()
	idle := c.idle
	c.idle, c.closed = nil, true
	c.mu.Unlock()
	defer c.preparing.Wait()
	for _, p := range idle {
		p.end()
	}
}

// Compile bundles a TypeScript file and all its imports into one JavaScript module. If it fails,
// the module contains only its inputs, including missing files, because a change to one of them may
// fix the problem. The error reports failures that the script did not cause.
func (c *Compiler) Compile(ctx context.Context, file string, o CompileOptions) (*Module, []Fault, error) {
	return c.run(ctx, compileRequest{File: file, Options: o}, compileTime)
}

// run sends a request to a compiler process, and kills the process if it takes too long.
func (c *Compiler) run(ctx context.Context, r compileRequest, limit time.Duration) (*Module, []Fault, error) {
	file := r.File
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return &Module{Name: file}, nil, context.Cause(ctx)
	}
	request, err := json.Marshal(r)
	if err != nil {
		return &Module{Name: file}, nil, err
	}
	for attempt := 1; ; attempt++ {
		p, err := c.take()
		if err != nil {
			return &Module{Name: file}, nil, err
		}
		reply, err := p.compile(ctx, request, limit)
		if err == nil {
			c.release(p)
			return reply.module(file)
		}
		p.end()
		if fault := compileFault(file, limit, err); fault != nil {
			return &Module{Name: file}, []Fault{*fault}, nil
		}
		if ctx.Err() != nil || attempt == compileRetries {
			return &Module{Name: file}, nil, fmt.Errorf("the compiler process ended: %w", err)
		}
	}
}

// compileFault returns the fault if a script made its compiler exceed a limit, or nil if the
// compiler failed for another reason.
func compileFault(file string, limit time.Duration, err error) *Fault {
	complaint := err.Error()
	switch {
	case errors.Is(err, errCompileTime):
		return &Fault{File: file, Message: fmt.Sprintf("compilation timed out after %v", limit), Fix: "Import fewer or smaller files."}
	case strings.Contains(complaint, "out of memory"), strings.Contains(complaint, "cannot allocate memory"):
		return &Fault{File: file, Message: fmt.Sprintf("compilation requires more than %d MiB of memory", compileMemory>>20), Fix: "Import fewer or smaller files."}
	case strings.Contains(complaint, "stack exceeds"):
		return &Fault{File: file, Message: "the script or one of its imports is nested too deeply to compile"}
	}
	return nil
}

// take returns an idle process or a new one.
func (c *Compiler) take() (*compilerProcess, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.New("the compiler is closed")
	}
	if n := len(c.idle); n > 0 {
		p := c.idle[n-1]
		c.idle = c.idle[:n-1]
		p.expiry.Stop()
		return p, nil
	}
	return startCompiler()
}

// release keeps a process for the next compilation.
func (c *Compiler) release(p *compilerProcess) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.uses++; c.closed || p.uses >= compileUses {
		p.end()
		return
	}
	if p.uses == compileUses-compileAhead {
		c.preparing.Go(c.prepare)
	}
	c.keep(p, len(c.idle))
}

// keep adds a process at a position of the idle ones. The lock is held.
func (c *Compiler) keep(p *compilerProcess, at int) {
	p.expiry = time.AfterFunc(compileIdle, func() { c.expire(p) })
	c.idle = slices.Insert(c.idle, at, p)
}

// prepare starts the successor of a process that will be replaced soon, so that no compilation waits
// for the start. A process is slow until it has compiled something.
func (c *Compiler) prepare() {
	p, err := startCompiler()
	if err != nil {
		return // the next compilation that needs a process starts one, or reports the error
	}
	request, err := json.Marshal(compileRequest{File: "code", Source: fmt.Sprintf(snippetHead, "code", "tools") + "return 0 as number;\n})"})
	if err == nil {
		_, err = p.compile(context.Background(), request, compileTime)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || c.closed {
		p.end()
		return
	}
	c.keep(p, 0)
}

// expire ends a process that has been idle for too long, unless it is already in use again.
func (c *Compiler) expire(p *compilerProcess) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.idle {
		if other == p {
			c.idle = append(c.idle[:i], c.idle[i+1:]...)
			p.end()
			return
		}
	}
}

// compilerProcess is a process that compiles one script at a time.
type compilerProcess struct {
	process *subprocess.Process
	conn    *conn
	uses    int
	expiry  *time.Timer // ends the process when it is idle
}

func startCompiler() (*compilerProcess, error) {
	p, err := subprocess.Start(subprocess.Command{Path: ownBinary(), Name: compilerName, Dir: "/", Bare: true, Limits: subprocess.Limits{Tail: compileTail}})
	if err != nil {
		return nil, err
	}
	return &compilerProcess{process: p, conn: newConn(p.Out, p.In)}, nil
}

var errCompileTime = errors.New("compilation timed out")

// compile compiles one script in the process. After an error, the process must not be used again.
func (p *compilerProcess) compile(ctx context.Context, request []byte, limit time.Duration) (*compileReply, error) {
	late, cancel := context.WithTimeoutCause(ctx, limit, errCompileTime)
	defer cancel()
	defer context.AfterFunc(late, p.process.Kill)()
	reply, err := p.exchange(request)
	if err == nil {
		return reply, nil
	}
	if late.Err() != nil {
		return nil, context.Cause(late)
	}
	p.process.Kill()
	<-p.process.Ended()
	return nil, fmt.Errorf("%w: %s", err, reasonOf(p.process.Tail()))
}

// reasonOf returns the line that contains the reason for a crash.
func reasonOf(tail string) string {
	for line := range strings.Lines(tail) {
		if strings.HasPrefix(line, "runtime:") || strings.HasPrefix(line, "fatal error:") || strings.HasPrefix(line, "panic:") {
			return strings.TrimSpace(line)
		}
	}
	first, _, _ := strings.Cut(tail, "\n")
	return first
}

func (p *compilerProcess) exchange(request []byte) (*compileReply, error) {
	if err := p.conn.send(frameCompile, 0, request); err != nil {
		return nil, err
	}
	f, err := p.conn.receive()
	if err != nil {
		return nil, err
	}
	reply := &compileReply{}
	return reply, reply.read(f.body)
}

// end kills the process. It has no state to save.
func (p *compilerProcess) end() {
	p.process.Kill()
	go func() {
		<-p.process.Ended()
		_, _ = p.process.In.Close(), p.process.Out.Close()
	}()
}
