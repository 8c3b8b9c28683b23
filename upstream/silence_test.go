package upstream

import (
	"testing"
	"testing/synctest"
	"time"
)

// If a server responds at the moment when it starts to count as silent, while its definitions are
// still being checked, it is not reported as silent afterward.
func TestSilenceEndsWithTheResponse(t *testing.T) {
	for _, response := range []time.Duration{0, slowStart - 1, slowStart, slowStart + 1} {
		synctest.Test(t, func(t *testing.T) {
			d := newDefinitions(&reporter{})
			heard := d.expectResponse(slowStart, func() {})
			time.Sleep(response)
			time.Sleep(time.Millisecond) // while the definitions are checked
			heard()
			time.Sleep(time.Second)
			if problems := d.listProblems(); len(problems) > 0 {
				t.Errorf("response after %v: %v", response, problems)
			}
		})
	}
}
