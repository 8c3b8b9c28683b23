package upstream

import (
	"fmt"
	"testing"
)

func TestRelayedResourcesAreBounded(t *testing.T) {
	r := newRelay()
	var stops []func()
	for i := range maxRelayed + 10 {
		stops = append(stops, r.watch(fmt.Sprintf("a://%06d", i), func() {}))
	}
	if n := len(r.uris()); n != maxRelayed {
		t.Errorf("%d resources", n)
	}
	for _, stop := range stops {
		stop()
		stop() // only the first call counts
	}
	if n := len(r.uris()); n != 0 {
		t.Errorf("%d resources remain", n)
	}
}
