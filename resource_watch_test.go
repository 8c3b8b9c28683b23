package toolyard_test

import (
	"fmt"
	"testing"

	"github.com/toolyard/toolyard"
)

func ExampleResourceWatchers() {
	var watchers toolyard.ResourceWatchers
	lamp := &toolyard.Resource{URI: "home://states/{id}", Template: true, Watch: watchers.Watch}

	stop := lamp.Watch("home://states/lamp", func() { fmt.Println("the lamp changed") })
	watchers.Changed("home://states/lamp")
	watchers.Changed("home://states/door")
	stop()
	watchers.Changed("home://states/lamp")
	// Output: the lamp changed
}

func TestResourceWatchersForgetStoppedWatchers(t *testing.T) {
	var watchers toolyard.ResourceWatchers
	calls := 0
	stop := watchers.Watch("a", func() { calls++ })
	other := watchers.Watch("a", func() { calls += 10 })
	watchers.Changed("a")
	stop()
	stop()
	watchers.Changed("a")
	if calls != 21 || !watchers.Watched("a") {
		t.Errorf("%d calls", calls)
	}
	if other(); watchers.Watched("a") {
		t.Error("it is still watched")
	}
}
