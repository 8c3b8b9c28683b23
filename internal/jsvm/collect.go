package jsvm

import (
	"runtime"
	"runtime/metrics"
)

// collectIfDue collects garbage if the next collection is near. Workers and compilers call it when
// they have nothing to do, because a collection delays the run or the compilation during which it
// happens by a millisecond or more.
func collectIfDue() {
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/goal:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	if collectionDue(heap[0].Value.Uint64(), heap[1].Value.Uint64(), heap[2].Value.Uint64()) {
		runtime.GC()
	}
}

// collectionDue reports whether three quarters of the memory between the last collection and the
// next one are in use, given the bytes after the last, at the next, and now.
func collectionDue(live, goal, objects uint64) bool {
	return goal > live && objects > live && objects-live > (goal-live)/4*3
}
