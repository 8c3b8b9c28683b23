package yard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/yard"
)

// A key that another process revokes is rejected soon, although it is cached.
func TestARevokedKeyIsRejectedSoon(t *testing.T) {
	s := newTestAPI(t, "gates: {all: {mode: read, callers: keys}}\n", yard.Options{})
	call := func() int {
		status, _ := s.do(t, "caller", "POST", "/api/v1/calls", `{"tool":"greet","args":{"name":"Ann"}}`)
		return status
	}
	if status := call(); status != 200 {
		t.Fatal(status)
	}
	if err := s.store.RevokeKey(t.Context(), strings.Split(s.keys["caller"], "_")[1], time.Now()); err != nil {
		t.Fatal(err)
	}
	within(t, time.Minute, "the key to be rejected", func() bool { return call() == 401 })
}
