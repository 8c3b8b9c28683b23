package signin

import (
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/toolyard/toolyard"
)

// Many concurrent sign-ins do not flood the issuer.
func TestRequestsToTheIssuerAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := New(nil, nil, nil, slog.New(slog.DiscardHandler))
		c := New(nil, nil, first, slog.New(slog.DiscardHandler)) // as after a reload
		var releases []func()
		for range maxRequests {
			release, err := first.acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			releases = append(releases, release)
		}
		if _, err := c.acquire(t.Context()); toolyard.AsError(err).Code != toolyard.Unavailable {
			t.Error(err)
		}
		releases[0]()
		if _, err := c.acquire(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
