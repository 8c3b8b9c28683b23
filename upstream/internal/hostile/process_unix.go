//go:build unix

package hostile

import (
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// stubborn is a program that ignores SIGTERM. It exits on its own, so that nothing is left behind
// if a client cannot stop it.
const stubborn = `trap '' TERM HUP INT PIPE; exec sleep 30`

// spawn starts the stubborn program, which inherits the server's standard output.
func spawn(newSession bool) {
	cmd := exec.Command("/bin/sh", "-c", stubborn)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: newSession}
	_ = cmd.Start() // if there is no shell, the server is slightly less hostile
}

// deafToSignals makes the process ignore termination signals.
func deafToSignals() { signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT) }

// process returns a behaviour that a child process shows when it starts.
func process(name, about string, start func(*child)) Behaviour {
	return Behaviour{Name: name, About: about, Transports: []Transport{Stdio}, at: []string{atOwn}, start: start}
}

// dying returns a behaviour that a child process shows at a request.
func dying(name, about string, strike func(*turn)) Behaviour {
	return Behaviour{Name: name, About: about, Transports: []Transport{Stdio}, at: anywhere, Unanswered: true, strike: strike}
}

// processBehaviours misuse what a child process can do.
var processBehaviours = []Behaviour{
	process("exit-at-once", "ends as soon as it was started", func(c *child) { c.ended = true }),
	process("exit-failing", "complains and ends with an error as soon as it was started", func(c *child) {
		_, _ = c.errOut.Write([]byte("Error: poison\n"))
		os.Exit(c.between(1, 255))
	}),
	process("exit-crash", "is killed as soon as it was started", func(*child) { suicide(syscall.SIGKILL) }),
	{Name: "exit-after-init", About: "ends right after its first answer", Transports: []Transport{Stdio}, at: atInit, strike: func(t *turn) {
		t.answer()
		t.quit()
	}},
	{Name: "exit-after-answer", About: "answers a call and ends at once", Transports: []Transport{Stdio}, strike: func(t *turn) {
		t.answer()
		t.quit()
	}},
	dying("exit-midway", "ends in the middle of an answer", func(t *turn) {
		whole := t.envelope()
		t.raw(whole[:t.between(1, len(whole)-1)])
		t.quit()
	}),
	dying("crash", "is killed instead of answering", func(t *turn) { suicide(syscall.SIGKILL) }),
	dying("abort", "dies of a signal that leaves a dump", func(t *turn) { suicide(syscall.SIGABRT) }),
	dying("stopped", "stops like a process in a debugger", func(t *turn) {
		suicide(syscall.SIGSTOP)
		t.hang()
	}),
	dying("output-closed", "closes its output and lives on", func(t *turn) {
		_ = os.Stdout.Close()
		t.hang()
	}),
	{Name: "complaints", About: "complains without end", Transports: []Transport{Stdio}, at: []string{atOwn}, Heavy: true, start: func(c *child) {
		block := []byte(strings.Repeat(c.one("poison\n", "p", "\x1b[2J\x00\xff"), 10_000))
		total := c.size(100<<20, 20<<20)
		go func() {
			for sent := 0; sent < total; sent += len(block) {
				_, _ = c.errOut.Write(block)
				time.Sleep(time.Millisecond)
			}
		}()
	}},
	process("deaf", "never reads what it is sent", func(c *child) { c.deaf.Store(true) }),
	{Name: "deaf-later", About: "stops reading after a call", Transports: []Transport{Stdio}, Unanswered: true, strike: func(t *turn) {
		t.deaf.Store(true)
		t.hang()
	}},
	process("input-closed", "closes its input as soon as it was started", func(c *child) {
		_ = os.Stdin.Close()
		c.deaf.Store(true)
	}),
	process("talks-first", "speaks before it was asked", func(c *child) {
		for range 1000 {
			c.say(c.under(c.one("null", "0", "1", `"1"`), c.poison()))
		}
	}),
	process("ignores-signals", "ignores the end of its input and polite signals", func(c *child) {
		deafToSignals()
		c.linger = func() { time.Sleep(patience) }
	}),
	process("busy", "ignores everything and works hard", func(c *child) {
		deafToSignals()
		c.linger = func() {
			for start := time.Now(); time.Since(start) < patience; {
				time.Sleep(10 * time.Microsecond)
			}
		}
	}),
	process("children", "starts processes that hold its output and ignore signals", func(c *child) {
		for range c.between(1, 3) {
			spawn(false)
		}
	}),
	{Name: "children-then-exit", About: "leaves a process that holds its output, and ends at a call", Transports: []Transport{Stdio}, Unanswered: true, strike: func(t *turn) {
		spawn(false)
		t.quit()
	}},
	{Name: "daemon", About: "leaves a process in a session of its own that holds its output", Transports: []Transport{Stdio}, at: []string{atOwn}, Escapes: true, start: func(*child) { spawn(true) }},
	{Name: "daemon-then-exit", About: "leaves a process in a session of its own that holds its output, and ends at a call", Transports: []Transport{Stdio}, Unanswered: true, Escapes: true, strike: func(t *turn) {
		spawn(true)
		t.quit()
	}},
}

// suicide sends a signal to this process.
func suicide(s syscall.Signal) {
	_ = syscall.Kill(os.Getpid(), s)
	time.Sleep(time.Second) // wait for the signal
}
