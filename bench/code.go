package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
)

// measureOnlyCode measures only code runs.
func measureOnlyCode(ctx context.Context, quick bool) error {
	defer runtime.KeepAlive(make([]byte, ballast))
	b, err := newAgentBench("127.0.0.1:1") // no model is used
	if err != nil {
		return err
	}
	defer b.stop()
	runs := 2000
	if quick {
		runs = 100
	}
	return b.measureCode(ctx, runs)
}

// codeCalls is the number of calls in the measured code.
const codeCalls = 10

// measureCode measures code runs: alone, and with calls of a Go tool. In turn with each of the
// latter, the control runs: the same CPU time, exchanged between two processes as often. Its p99
// shows what the machine adds.
func (b *agentBench) measureCode(ctx context.Context, runs int) error {
	fmt.Printf("run_code, %d runs (goal: p99 at most 5 ms with ten calls on an idle machine)\n\n| code | p50 | p99 | CPU of the yard | CPU of its script processes |\n|---|---|---|---|---|\n", runs)
	const alone, calls = "return 45;", "let sum = 0; for (let n = 0; n < 10; n++) sum += (await tools.lookup({ n })).n; return sum;"
	if _, err := b.runCode(ctx, alone, 20, nil); err != nil { // starts processes
		return err
	}
	_, _, err := b.measureRuns(ctx, "no calls", alone, runs)
	if err != nil {
		return err
	}
	own, others, err := b.measureRuns(ctx, "ten calls of a Go tool, one after the other", calls, runs)
	if err != nil {
		return err
	}
	c, err := startControl(ctx, own/(codeCalls+2), others/(codeCalls+2))
	if err != nil {
		return err
	}
	defer c.stop()
	controls := make([]time.Duration, 0, runs)
	durations, err := b.runCode(ctx, calls, runs, func() error {
		began := time.Now()
		defer func() { controls = append(controls, time.Since(began)) }()
		return c.exchange(codeCalls + 2) // one for the compilation, one for the start
	})
	if err != nil {
		return err
	}
	fmt.Printf("| the same again, in turn with the control | %s | | |\n", medianAndTail(durations))
	fmt.Printf("| control: a loop with the same CPU time and as many switches between processes | %s | %v | %v |\n\n",
		medianAndTail(controls), own.Round(10*time.Microsecond), others.Round(10*time.Microsecond))
	return nil
}

// measureRuns measures runs of one code, prints a row and returns the CPU time of a run: of this
// process, and of its script processes.
func (b *agentBench) measureRuns(ctx context.Context, title, code string, runs int) (own, others time.Duration, err error) {
	ownBefore, othersBefore, err := cpuOfFamily()
	if err != nil {
		return 0, 0, err
	}
	durations, err := b.runCode(ctx, code, runs, nil)
	if err != nil {
		return 0, 0, err
	}
	if own, others, err = cpuOfFamily(); err != nil {
		return 0, 0, err
	}
	own, others = (own-ownBefore)/time.Duration(runs), (others-othersBefore)/time.Duration(runs)
	fmt.Printf("| %s | %s | %v | %v |\n", title, medianAndTail(durations), own.Round(10*time.Microsecond), others.Round(10*time.Microsecond))
	return own, others, nil
}

// medianAndTail returns the p50 and the p99 as cells of a table.
func medianAndTail(durations []time.Duration) string {
	slices.Sort(durations)
	n := len(durations)
	return fmt.Sprintf("%v | %v", durations[n/2].Round(10*time.Microsecond), durations[n*99/100].Round(10*time.Microsecond))
}

// runCode runs code repeatedly and returns the duration of each run. Every run has different code, as
// in every turn of a model. It calls between, if not nil, after each run.
func (b *agentBench) runCode(ctx context.Context, code string, runs int, between func() error) ([]time.Duration, error) {
	durations := make([]time.Duration, runs)
	for i := range durations {
		args, err := json.Marshal(map[string]string{"code": fmt.Sprintf("const run: number = %d;\n%s", i, code)})
		if err != nil {
			return nil, err
		}
		began := time.Now()
		res, err := b.Call(ctx, "code", toolyard.Caller{ID: "bench"}, "run_code", args)
		if err != nil {
			return nil, err
		}
		durations[i] = time.Since(began)
		if text, _ := res.Items()[0].(toolyard.Text); text != "45" {
			return nil, fmt.Errorf("run_code returned %q", text)
		}
		if between == nil {
			continue
		}
		if err := between(); err != nil {
			return nil, err
		}
	}
	return durations, nil
}

// control exchanges messages with a process that only uses CPU time.
type control struct {
	stop   func()
	in     io.Writer
	out    *bufio.Reader
	own    uint64 // rounds of spin in this process per exchange
	others uint64 // in the other one
}

// startControl starts a control that uses CPU time in each exchange: in this process, and in another
// one.
func startControl(ctx context.Context, own, others time.Duration) (*control, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-serve", "spin")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	const rounds = 50_000_000
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime()
	_ = spin(rounds)
	each := float64(threadTime()-began) / rounds
	c := &control{in: in, out: bufio.NewReader(out), own: uint64(float64(own) / each), others: uint64(float64(others) / each)}
	c.stop = func() { _, _ = in.Close(), cmd.Wait() }
	return c, c.exchange(1)
}

// exchange exchanges a number of messages, one after the other.
func (c *control) exchange(times int) error {
	for range times {
		_ = spin(c.own)
		var message [8]byte
		binary.LittleEndian.PutUint64(message[:], c.others)
		if _, err := c.in.Write(message[:]); err != nil {
			return err
		}
		if _, err := io.ReadFull(c.out, message[:]); err != nil {
			return err
		}
	}
	return nil
}

// serveSpin is the other process of a control.
func serveSpin() error {
	in := bufio.NewReader(os.Stdin)
	for {
		var message [8]byte
		if _, err := io.ReadFull(in, message[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		binary.LittleEndian.PutUint64(message[:], spin(binary.LittleEndian.Uint64(message[:])))
		if _, err := os.Stdout.Write(message[:]); err != nil {
			return err
		}
	}
}

// spin uses CPU time.
//
//go:noinline
func spin(rounds uint64) uint64 {
	x := rounds | 1
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// cpuOfFamily returns the CPU time of this process, and that of the processes that it has started.
func cpuOfFamily() (own, others time.Duration, err error) {
	if own, err = cpuOf(os.Getpid()); err != nil {
		return 0, 0, err
	}
	if others, err = cpuOfEnded(os.Getpid()); err != nil {
		return 0, 0, err
	}
	for _, pid := range family(os.Getpid())[1:] {
		used, err := cpuOf(pid)
		if err != nil {
			return 0, 0, err
		}
		others += used
	}
	return own, others, nil
}
