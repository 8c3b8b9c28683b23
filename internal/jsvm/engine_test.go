package jsvm

import (
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/jsvm/assets"
)

func testSetup(t testing.TB) *setup {
	t.Helper()
	s := &setup{Memory: 64 << 20, Budget: 1 << 30, CacheDir: "", Harness: `__runtime.install((m, r) => r.parse ? m.inputSchema.parse(r.args).name : m.default(r.args))`}
	var err error
	if s.Engine, err = assets.Read(assets.Engine); err != nil {
		t.Skip(err)
	}
	rt, err := assets.Read(assets.Runtime)
	if err != nil {
		t.Skip(err)
	}
	s.Runtime = string(rt)
	zod, _ := assets.Read(assets.Zod)
	s.Modules = []Provided{{"zod", string(zod)}}
	return s
}

func TestEngine(t *testing.T) {
	start := time.Now()
	e, err := newEngine(t.Context(), testSetup(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Log("engine", time.Since(start), "base", e.base.bytes()>>10, "KiB of", e.base.size>>10)
	start = time.Now()
	v, err := e.newVM(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Log("vm", time.Since(start))
	start = time.Now()
	if err := v.restore(e.base); err != nil {
		t.Fatal(err)
	}
	t.Log("restore", time.Since(start))
	r := func() *execution {
		return &execution{ctx: t.Context(), deadline: time.Now().Add(time.Minute), clock: newClock(time.Now(), [32]byte{})}
	}
	v.begin(r())
	start = time.Now()
	ns, err := v.evalDone("hello.js", `import {z} from "zod"; export const inputSchema=z.object({name:z.string().describe("who"),greeting:z.string().default("Hello")}); inputSchema.safeParse({}); export default async ({name})=>"Hello, "+name+"!"`, evalModule)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("load", time.Since(start))
	start = time.Now()
	img, err := v.memory.capture(e.base)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("capture", time.Since(start), img.bytes()>>10, "KiB")
	start = time.Now()
	if err := v.restore(img); err != nil {
		t.Fatal(err)
	}
	t.Log("restore tool", time.Since(start))
	best := time.Hour
	const n = 3000
	all := time.Now()
	for range n {
		start = time.Now()
		v.begin(r())
		got, err := v.perform(ns, `{"parse":true,"args":{"name":"Ann"}}`)
		if err != nil || got != `{"value":"Ann"}` {
			t.Fatal(got, err)
		}
		if err := v.restore(img); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(start))
	}
	t.Log("isolated call: best", best, "mean", time.Since(all)/n)
	all = time.Now()
	for range n {
		v.begin(r())
		if _, err := v.perform(ns, `{"parse":true,"args":{"name":"Ann"}}`); err != nil {
			t.Fatal(err)
		}
	}
	t.Log("reused call: mean", time.Since(all)/n)
}
