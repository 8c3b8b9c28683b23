//go:build linux

package jsvm

import (
	"math/rand/v2"
	"testing"
	"time"
)

// After every run, a VM's memory is identical to its image, no matter what the program did or how
// the VM was used before.
func TestRestoreIsExact(t *testing.T) {
	s := testSetup(t)
	s.Harness = testHarness
	e, err := newEngine(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	newRun := func() *execution {
		now := time.Now()
		return &execution{ctx: t.Context(), deadline: now.Add(20 * time.Millisecond), clock: newClock(now, [32]byte{})}
	}
	rounds := 300
	if testing.Short() {
		rounds = 20
	}
	kept := &module{engine: e, name: "kept.js", code: `export default async (n) => { const a = []; for (let i = 0; i < n; i++) a.push({ i }); globalThis.left = a; return a.length }`}
	checked := 0
	check := func(what string, v *vm, img *image) {
		t.Helper()
		checked++
		if d := differences(img.flat, v.memory.reserved[:v.memory.size], 0); len(d) > 0 {
			t.Fatalf("%s: %d parts of the memory differ from the image, the first at %#x", what, len(d), d[0].start)
		}
	}
	for i := range uint64(rounds) {
		r := rand.New(rand.NewPCG(i, 2))
		m := &module{engine: e, name: "m.js", code: "export default async (x) => {\n" + program(r, 4) + "\n};\nglobalThis.leftByLoad = new Array(" + pick(r, "1", "5000", "100000") + ").fill(1);"}
		_, _ = m.runOnce(newRun(), `{"args":[1]}`)
		for range len(e.blanks) {
			v := <-e.blanks
			check("a module that runs once", v, e.base)
			e.blanks <- v
		}
		for range 3 {
			long := newRun()
			long.deadline = long.clock.started.Add(time.Minute)
			long.shared = r.IntN(3) == 0
			if _, err := kept.run(long, `{"args":`+pick(r, "1", "100", "3000", "20000")+`}`); err != nil {
				t.Fatal(err)
			}
			if long.shared {
				continue // this VM keeps its writes; the next one must not
			}
			for _, v := range kept.idle {
				check("a module that is kept", v, kept.image)
			}
		}
	}
	if checked < rounds {
		t.Errorf("only %d VMs were checked", checked)
	}
}
