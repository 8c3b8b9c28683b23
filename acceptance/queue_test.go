package acceptance

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// By default, a server runs eight calls at a time. Calls on many connections wait for each other,
// and none is refused.
func TestManyConnectionsToOneServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a second of all processors")
	}
	fake := startFake(t, freeAddress(t), "modern")
	p := serve(t, "toolyard", "limits: {wait: 2m}\n"+servers(onHTTP("up", fake.url))) // the machine may be busy
	for _, connections := range []int{64, 512} {
		var made, refused atomic.Int64
		var wg sync.WaitGroup
		for i := range connections {
			wg.Go(func() {
				c := modernHTTP{t: t, url: p.url}
				for range 5 {
					m := call(t, c, "mcp_up__echo", `{"text":"`+strconv.Itoa(i)+`"}`)
					made.Add(1)
					if m.Error != nil || !strings.Contains(string(m.Result), `"`+strconv.Itoa(i)+`"`) {
						if refused.Add(1) == 1 {
							t.Errorf("%+v %s", m.Error, m.Result)
						}
					}
				}
			})
		}
		wg.Wait()
		if refused.Load() > 0 {
			t.Errorf("%d connections: %d of %d calls failed", connections, refused.Load(), made.Load())
		}
	}
}
