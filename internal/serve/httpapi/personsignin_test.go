package httpapi

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/trust/seal"
)

func TestUsedSignInsAreBounded(t *testing.T) {
	var used usedFlows
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	id := func(n int) (id seal.Nonce) {
		binary.BigEndian.PutUint32(id[:], uint32(n))
		return id
	}
	for n := range maxUsedFlows + 100 {
		if !used.add(id(n), now) || used.add(id(n), now) {
			t.Fatalf("sign-in %d cannot be used, or twice", n)
		}
	}
	if len(used.used) > maxUsedFlows {
		t.Errorf("%d are remembered", len(used.used))
	}
	later := now.Add(flowTime)
	if used.add(id(maxUsedFlows+100), later); len(used.used) != 1 {
		t.Errorf("%d are remembered after they expired", len(used.used))
	}
}
