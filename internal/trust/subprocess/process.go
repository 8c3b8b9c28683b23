// Package subprocess starts untrusted programs with a minimal environment and ends them,
// together with the processes they started.
package subprocess

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Command describes a program to start.
type Command struct {
	Path   string   // looked up in PATH if it has no slash
	Name   string   // argv[0]; the path if empty
	Args   []string // excluding the name
	Env    []string // KEY=VALUE, in addition to PATH, HOME, LANG, TZ and TMPDIR
	Bare   bool     // passes only Env
	Dir    string
	Limits Limits
}

// Limits limits a process.
type Limits struct {
	Files int           // open files; 1024 if zero
	Tail  int           // bytes of standard error to keep; 4 KiB if zero
	Grace time.Duration // time limit for each step of Stop; 2 s if zero
}

// Process is a running program. It has a minimal environment. On Linux, it has its own process
// group, and it ends together with its children when this process ends, even if this process is
// killed. Its output can be read after it has ended. The caller must close both files.
type Process struct {
	In, Out *os.File

	cmd   *exec.Cmd
	mark  string // set in its environment and inherited by its children; empty if Bare
	grace time.Duration
	tail  *tail
	ended chan struct{}
	err   error
}

// Start starts a program. It does not use a shell.
func Start(c Command) (*Process, error) {
	if c.Limits.Files == 0 {
		c.Limits.Files = 1024
	}
	if c.Limits.Grace == 0 {
		c.Limits.Grace = 2 * time.Second
	}
	path, err := lookUp(c.Path)
	if err != nil {
		return nil, err
	}
	p := &Process{grace: c.Limits.Grace, tail: newTail(c.Limits.Tail), ended: make(chan struct{})}
	p.cmd = &exec.Cmd{
		Path: path, Args: append([]string{cmp.Or(c.Name, path)}, c.Args...), Dir: c.Dir, Env: environment(c.Env, c.Bare),
		Stderr: p.tail, WaitDelay: stderrWait,
	}
	if !c.Bare {
		depth, err := nextDepth()
		if err != nil {
			return nil, err
		}
		p.mark = rand.Text()
		p.cmd.Env = append(p.cmd.Env, MarkVariable+"="+p.mark, depthName+"="+depth)
	}
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	if p.mark != "" {
		register(p.PID(), p.mark)
	}
	if err := bound(p.cmd.Process.Pid, c.Limits); err != nil && !errors.Is(err, os.ErrProcessDone) {
		killGroup(p.cmd.Process)
	}
	go p.wait()
	return p, nil
}

// MarkVariable is the environment variable that identifies started programs and their children.
const MarkVariable = "TOOLYARD_CHILD"

// depthName is the environment variable that counts nested yards.
const depthName = "TOOLYARD_DEPTH"

// maxNested is the maximum nesting depth of yards, so that a yard that starts itself eventually
// stops.
const maxNested = 4

// nextDepth returns a child's nesting depth.
func nextDepth() (string, error) {
	value, _ := os.LookupEnv(depthName) //nolint:forbidigo // set only by this package
	depth, _ := strconv.Atoi(value)     // zero if not set
	if depth >= maxNested {
		return "", fmt.Errorf("yards are nested more than %d levels deep; check whether one of them starts itself", maxNested)
	}
	return strconv.Itoa(depth + 1), nil
}

func (p *Process) start() error {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = theirIn.Close() }()
	out, theirOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, in.Close())
	}
	defer func() { _ = theirOut.Close() }()
	p.In, p.Out, p.cmd.Stdin, p.cmd.Stdout = in, out, theirIn, theirOut
	if err := startInGroup(p.cmd); err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	return nil
}

// lookUp finds a program in PATH. It does not search the current folder.
func lookUp(path string) (string, error) {
	found, err := exec.LookPath(path)
	if err != nil {
		return "", &NotFoundError{path}
	}
	return filepath.Abs(found)
}

// NotFoundError is returned for a program that does not exist.
type NotFoundError struct{ Path string }

func (e *NotFoundError) Error() string {
	if strings.ContainsRune(e.Path, os.PathSeparator) {
		return e.Path + " is not an executable program"
	}
	return e.Path + " is not in PATH"
}

// environment returns a program's environment.
func environment(given []string, bare bool) []string {
	env := []string{}
	if bare {
		return append(env, given...)
	}
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok && !has(given, name) { //nolint:forbidigo // the only variables that programs inherit
			env = append(env, name+"="+value)
		}
	}
	return append(env, given...)
}

func has(env []string, name string) bool {
	for _, e := range env {
		if strings.HasPrefix(e, name+"=") {
			return true
		}
	}
	return false
}

// Standard error may stay open after a process has ended, because another process holds it. These
// are the times until processes that left the group are killed, and until the rest is given up.
const (
	sweepDelay = 25 * time.Millisecond
	stderrWait = 2 * time.Second
)

// wait waits for the process to end and then ends its children.
func (p *Process) wait() {
	state, err := p.cmd.Process.Wait()
	killGroup(p.cmd.Process)
	held := time.AfterFunc(sweepDelay, p.sweep)
	_ = p.cmd.Wait() // reads the rest of standard error and closes the pipes
	held.Stop()
	if err == nil && !state.Success() {
		err = errors.New(state.String())
	}
	p.err = err
	close(p.ended)
	p.sweep()
	if p.mark != "" {
		unregister(p.PID())
	}
}

// sweep kills processes that this process started and that left its group.
func (p *Process) sweep() {
	if p.mark != "" {
		sweep(p.mark)
	}
}

// Ended returns a channel that is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err returns how the process ended, including the end of its standard error. It returns nil while
// the process is running and after success.
func (p *Process) Err() error {
	select {
	case <-p.ended:
	default:
		return nil
	}
	if p.err == nil {
		return nil
	}
	if stderr := p.tail.String(); stderr != "" {
		return fmt.Errorf("%w: %s", p.err, stderr)
	}
	return p.err
}

// Exit is like Err, but does not include standard error.
func (p *Process) Exit() error {
	select {
	case <-p.ended:
		return p.err
	default:
		return nil
	}
}

// Tail returns the end of the process's standard error.
func (p *Process) Tail() string { return p.tail.String() }

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the process and its group. It closes the input, then terminates, then kills the
// process, and returns when the process has ended.
func (p *Process) Stop(ctx context.Context) {
	_ = p.In.Close()
	for _, step := range []func(*os.Process){endGroup, killGroup} {
		select {
		case <-p.ended:
			return
		case <-ctx.Done():
		case <-time.After(p.grace):
		}
		step(p.cmd.Process)
	}
	<-p.ended
}

// Kill kills the process and its group immediately.
func (p *Process) Kill() { killGroup(p.cmd.Process) }

// tail is a writer that keeps only the end of its input.
type tail struct {
	mu   sync.Mutex
	max  int
	text []byte
	cut  bool // the start was dropped
}

// newTail creates a tail of the given number of bytes. The default is 4 KiB.
func newTail(bytes int) *tail {
	if bytes == 0 {
		bytes = 4096
	}
	return &tail{max: bytes}
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cut = t.cut || len(t.text)+len(p) > t.max
	t.text = append(t.text, p[max(0, len(p)-t.max):]...)
	if over := len(t.text) - t.max; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// String returns the text. If the start was dropped, it omits the incomplete first line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, rest, more := bytes.Cut(t.text, []byte("\n")); more && t.cut {
		return strings.TrimSpace(strings.ToValidUTF8(string(rest), "\ufffd"))
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(t.text), "\ufffd"))
}
