package jsvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/jsvm/assets"
)

// testHarness calls a named function in the module.
const testHarness = `__runtime.install(async (m, r, host) => r && m[r.call ?? "default"](r.args, host))`

func testPool(t testing.TB, change ...func(*Options)) *Pool {
	t.Helper()
	zod, err := assets.Read(assets.Zod)
	if err != nil {
		t.Skip(err)
	}
	opts := Options{Harness: testHarness, Modules: []Provided{{"zod", string(zod)}}, CacheDir: filepath.Join(os.TempDir(), "toolyard-test-cache")}
	for _, c := range change {
		c(&opts)
	}
	p, err := NewPool(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func compileText(t testing.TB, text string) *Module {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "m.ts"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, faults := compile("m.ts", CompileOptions{Root: dir, Provided: []string{"zod", "node:fs"}})
	for _, f := range faults {
		t.Fatalf("%v\n%s", &f, f.Frame())
	}
	return m
}

func TestRun(t *testing.T) {
	p := testPool(t)
	m := compileText(t, `import { z } from "zod";
interface Args { name: string }
const schema = z.object({ name: z.string(), greeting: z.string().default("Hello") });
let count = 0;
export default async (args: Args) => { count++; const { name, greeting } = schema.parse(args); return greeting + ", " + name + "! " + count; };
export const boom = () => { throw new RangeError("bad"); };
export const never = () => new Promise(() => {});
export const spin = () => { for (;;) {} };
`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 3 {
		got, err := p.Run(ctx, &Run{Module: m, Request: json.RawMessage(`{"args":{"name":"Ann"}}`)})
		if err != nil || string(got) != `"Hello, Ann! 1"` {
			t.Fatalf("%s, %v", got, err)
		}
	}
	var e *Exception
	if _, err := p.Run(ctx, &Run{Module: m, Request: json.RawMessage(`{"call":"boom"}`)}); !errors.As(err, &e) || e.Name != "RangeError" || e.Message != "bad" || e.File != "m.ts" || e.Line != 6 {
		t.Errorf("boom: %+v", err)
	}
	var s *Stopped
	if _, err := p.Run(ctx, &Run{Module: m, Request: json.RawMessage(`{"call":"never"}`)}); !errors.As(err, &s) || s.Reason != NeverSettles {
		t.Errorf("never: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := p.Run(short, &Run{Module: m, Request: json.RawMessage(`{"call":"spin"}`)}); (!errors.As(err, &s) || s.Reason != DeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) { // the latter if it did not even start in time
		t.Errorf("spin: %v", err)
	}
	if over := time.Since(start) - 300*time.Millisecond; over > time.Minute {
		t.Errorf("spin ended %v after its deadline", over)
	}
}

func TestOutside(t *testing.T) {
	p := testPool(t)
	m := compileText(t, `export default async (n: number, host: any) => {
	const list = await Promise.all(Array.from({length: n}, (_, i) => host.post("double", i)));
	return [host.ask("double", 21), ...list];
}`)
	double := func(_ context.Context, op string, payload json.RawMessage) (any, error) {
		var n int
		if err := json.Unmarshal(payload, &n); err != nil || op != "double" {
			return nil, errors.New("no")
		}
		time.Sleep(20 * time.Millisecond)
		return 2 * n, nil
	}
	start := time.Now()
	got, err := p.Run(t.Context(), &Run{Module: m, Request: json.RawMessage(`{"args":5}`), Host: double})
	if err != nil || string(got) != "[42,0,2,4,6,8]" {
		t.Fatalf("%s, %v", got, err)
	}
	t.Log(time.Since(start))
	if _, err := p.Run(t.Context(), &Run{Module: m, Request: json.RawMessage(`{"args":1}`)}); err == nil || !strings.Contains(err.Error(), "NotCapable") {
		t.Errorf("without an outside: %v", err)
	}
}

func BenchmarkRun(b *testing.B) {
	p := testPool(b, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil)) })
	m := compileText(b, `import { z } from "zod";
const schema = z.object({ name: z.string(), greeting: z.string().default("Hello") });
schema.safeParse({});
export default async (args: unknown) => { const { name, greeting } = schema.parse(args); return greeting + ", " + name; };`)
	r := &Run{Module: m, Request: json.RawMessage(`{"args":{"name":"Ann"}}`)}
	for b.Loop() {
		if _, err := p.Run(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRunParallel(b *testing.B) {
	p := testPool(b)
	m := compileText(b, `import { z } from "zod";
const schema = z.object({ name: z.string(), greeting: z.string().default("Hello") });
schema.safeParse({});
export default async (args: unknown) => { const { name, greeting } = schema.parse(args); return greeting + ", " + name; };`)
	r := &Run{Module: m, Request: json.RawMessage(`{"args":{"name":"Ann"}}`)}
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := p.Run(b.Context(), r); err != nil {
				b.Error(err)
			}
		}
	})
}

func TestTimers(t *testing.T) {
	p := testPool(t)
	m := compileText(t, `const sleep = (ms: number) => new Promise((r) => setTimeout(r, ms));
export default async () => {
	const order: string[] = [];
	setTimeout(() => order.push("c"), 600);
	setTimeout(() => order.push("a"), 200);
	const every = setInterval(() => order.push("b"), 400);
	await sleep(700);
	clearInterval(every);
	setImmediate(() => order.push("d"));
	await sleep(5);
	return order.join("");
}`)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		got, err := p.Run(ctx, &Run{Module: m, Request: json.RawMessage("{}")})
		cancel()
		if err != nil || string(got) != `"abcd"` {
			t.Errorf("%s, %v", got, err)
		}
	}
}

// Scripts run even if the cache of compiled code is damaged.
func TestDamagedCache(t *testing.T) {
	cache := t.TempDir()
	run := func() error {
		p := testPool(t, func(o *Options) { o.CacheDir, o.Workers = cache, 1 })
		defer p.Close()
		_, err := p.Run(t.Context(), &Run{Module: NewModule("m.js", "export default () => 1", nil), Request: json.RawMessage("{}")})
		return err
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(cache, "*", "*"))
	for _, damage := range [][]byte{nil, []byte("x")} {
		for _, f := range files {
			if err := os.WriteFile(f, damage, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := run(); err != nil || len(files) == 0 {
			t.Errorf("%q: %v", damage, err)
		}
	}
}

// Many tools with many concurrent calls leave enough resources for the next call.
func TestManyModulesAtOnce(t *testing.T) {
	p := testPool(t, func(o *Options) { o.Workers = 1 })
	for i := range 8 {
		m := NewModule(fmt.Sprint("m", i, ".js"), "export default async () => { await new Promise((r) => setTimeout(r, 50)); return 1 }", nil)
		var wg sync.WaitGroup
		for range 60 {
			wg.Go(func() {
				if _, err := p.Run(t.Context(), &Run{Module: m, Request: json.RawMessage("{}")}); err != nil {
					t.Errorf("module %d: %v", i, err)
				}
			})
		}
		wg.Wait()
	}
}

// The last line of a log contains the number of lines that were dropped because their reader was
// slow.
func TestDroppedLogLinesAreCounted(t *testing.T) {
	const sent = maxMessages + 50
	reading := make(chan struct{})
	var lines []string
	pend := &inFlight{run: &Run{Log: func(_ slog.Level, text string) {
		<-reading
		lines = append(lines, text)
	}}}
	for i := range sent {
		pend.enqueue(frame{kind: frameLog, body: fmt.Appendf(nil, "info\x00%d", i)})
	}
	pend.closeLogs()
	close(reading)
	<-pend.delivered
	dropped := 0
	if _, err := fmt.Sscanf(lines[len(lines)-1], "[%d more lines omitted]", &dropped); err != nil || dropped == 0 || dropped+len(lines)-1 != sent {
		t.Errorf("%d lines, of which the last is %q", len(lines), lines[len(lines)-1])
	}
}

// A caller that does not read a run's log does not block others.
func TestUnreadLogDoesNotBlock(t *testing.T) {
	p := testPool(t, func(o *Options) { o.Workers = 1 })
	loud := NewModule("l.js", "export default () => { for (let i = 0; i < 900; i++) console.log('x'.repeat(1000)); }", nil)
	good := NewModule("g.js", "export default () => 1", nil)
	deaf := make(chan struct{})
	defer close(deaf)
	go func() {
		_, _ = p.Run(t.Context(), &Run{Module: loud, Request: json.RawMessage("{}"), Log: func(slog.Level, string) { <-deaf }})
	}()
	time.Sleep(300 * time.Millisecond)
	start := time.Now()
	if _, err := p.Run(t.Context(), &Run{Module: good, Request: json.RawMessage("{}")}); err != nil || time.Since(start) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}
