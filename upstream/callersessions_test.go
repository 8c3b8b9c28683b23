package upstream

import (
	"fmt"
	"testing"
	"time"
)

func TestSessionsOfCallersAreBounded(t *testing.T) {
	cs := newCallerSessions(nil)
	stopped := map[string]bool{}
	now := time.Now()
	add := func(identity string, used time.Time) {
		cs.evict()
		cs.all[identity] = &callerSession{opened: make(chan struct{}), used: used, stop: func() { stopped[identity] = true }}
	}
	add("idle", now.Add(-callerIdle-time.Second))
	for i := range maxCallerSessions + 5 {
		add(fmt.Sprint(i), now.Add(time.Duration(i)*time.Millisecond))
	}
	if len(cs.all) != maxCallerSessions || len(stopped) != 6 || !stopped["idle"] || !stopped["0"] || !stopped["4"] {
		t.Errorf("%d sessions, ended: %v", len(cs.all), stopped)
	}
}
