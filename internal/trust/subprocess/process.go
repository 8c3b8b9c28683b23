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

// Command is a stranger's program and what it may have.
type Command struct {
	Path   string   // looked up in our PATH if it has no slash
	Name   string   // what it is called; its path when empty
	Args   []string // without the name
	Env    []string // KEY=VALUE, beside the few that every program needs
	Bare   bool     // not even those
	Dir    string
	Limits Limits
}

// Limits are what a process may use.
type Limits struct {
	Files int           // open at once; 1024 when zero
	Tail  int           // bytes of its complaints that are kept; 4 KiB when zero
	Grace time.Duration // to end by itself when asked; 2 s when zero
}

// Process is a program that runs. It is in a process group of its own, knows nothing of our
// environment, and ends when we do, with all that it started. What it wrote can be read to the end also after it has
// ended; whoever starts it closes both files.
type Process struct {
	In, Out *os.File

	cmd   *exec.Cmd
	mark  string // in the environment of it and all that it starts; empty for a bare one
	grace time.Duration
	tail  *tail
	ended chan struct{}
	err   error
}

// Start starts a program. No shell is involved.
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
		Stderr: p.tail, WaitDelay: lastComplaints,
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
		entrust(p.PID(), p.mark)
	}
	if err := bound(p.cmd.Process.Pid, c.Limits); err != nil && !errors.Is(err, os.ErrProcessDone) {
		killGroup(p.cmd.Process)
	}
	go p.wait()
	return p, nil
}

// MarkVariable is the variable that says which process another one comes from. It is set in all
// programs that were started here.
const MarkVariable = "TOOLYARD_CHILD"

// depthName is the variable that counts how many yards have started each other.
const depthName = "TOOLYARD_DEPTH"

// maxNested is how many yards may start each other: one that starts itself must end.
const maxNested = 4

// nextDepth is the depth of what we start.
func nextDepth() (string, error) {
	value, _ := os.LookupEnv(depthName) //nolint:forbidigo // it is between us and ourselves
	depth, _ := strconv.Atoi(value)     // none is 0
	if depth >= maxNested {
		return "", fmt.Errorf("yards start each other more than %d deep; does one start itself?", maxNested)
	}
	return strconv.Itoa(depth + 1), nil
}

// start connects the process to us and starts it.
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
	if err := startGuarded(p.cmd); err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	return nil
}

// lookUp finds a program. Its own folder is not looked in.
func lookUp(path string) (string, error) {
	found, err := exec.LookPath(path)
	if err != nil {
		return "", &NotFoundError{path}
	}
	return filepath.Abs(found)
}

// NotFoundError says that a program cannot be started because it was not found.
type NotFoundError struct{ Path string }

func (e *NotFoundError) Error() string {
	if strings.ContainsRune(e.Path, os.PathSeparator) {
		return e.Path + " is not a program"
	}
	return e.Path + " is not in PATH"
}

// environment is what a program gets: what it was given, and what every program needs.
func environment(given []string, bare bool) []string {
	env := []string{}
	if bare {
		return append(env, given...)
	}
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok && !has(given, name) { //nolint:forbidigo // the one way for programs to get any of it
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

// lastComplaints is how long the complaints of a process that has ended are waited for;
// others may hold their end of the pipe.
const lastComplaints = 25 * time.Millisecond

// wait collects the process. Whatever it left behind ends with it.
func (p *Process) wait() {
	state, err := p.cmd.Process.Wait()
	killGroup(p.cmd.Process)
	_ = p.cmd.Wait() // the pipes; the process is gone
	if err == nil && !state.Success() {
		err = errors.New(state.String())
	}
	p.err = err
	close(p.ended)
	if p.mark != "" {
		sweep(p.mark)
		dismiss(p.PID())
	}
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err is how the process ended, with the last that it complained of; nil while it runs and
// if it ended well.
func (p *Process) Err() error {
	select {
	case <-p.ended:
	default:
		return nil
	}
	if p.err == nil {
		return nil
	}
	if complaint := p.tail.String(); complaint != "" {
		return fmt.Errorf("%w: %s", p.err, complaint)
	}
	return p.err
}

// Exit is how the process ended, without its complaints.
func (p *Process) Exit() error {
	select {
	case <-p.ended:
		return p.err
	default:
		return nil
	}
}

// Tail is the last that the process complained of.
func (p *Process) Tail() string { return p.tail.String() }

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the process and its group: its input is closed, then it is asked, then it is
// killed. It returns when the process is gone.
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

// Kill ends the process and its group at once.
func (p *Process) Kill() { killGroup(p.cmd.Process) }

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	max  int
	text []byte
	cut  bool // what was written first is lost
}

// newTail keeps so many bytes, 4 KiB when zero.
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

// String is what is kept, as text. A first line of which the beginning is lost is left out.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, rest, more := bytes.Cut(t.text, []byte("\n")); more && t.cut {
		return strings.TrimSpace(strings.ToValidUTF8(string(rest), "\ufffd"))
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(t.text), "\ufffd"))
}
