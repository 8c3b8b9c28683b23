package mcpserver

import (
	"net/http"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/inbound"
)

// quota limits a resource that clients hold. A single caller gets at most a quarter.
type quota struct {
	name   string // for messages
	shares *inbound.Shares
}

func newQuota(name string, maximum int) *quota {
	return &quota{name, inbound.NewShares(maximum, maximum/4)}
}

// acquire reserves n units until release is called.
func (q *quota) acquire(origin string, n int) (release func(), err error) {
	release, v := q.shares.Take(origin, n)
	switch v {
	case inbound.CallerFull:
		return nil, &toolyard.Error{Code: toolyard.RateLimited, Message: "You have too many " + q.name + ". Try again after some have ended.", RetryAfter: 5 * time.Second}
	case inbound.AllFull:
		return nil, &toolyard.Error{Code: toolyard.Unavailable, Message: "The server has too many " + q.name + ". Try again later.", RetryAfter: 30 * time.Second}
	}
	return release, nil
}

// anonymousOrigin is the origin prefix for unauthenticated callers.
const anonymousOrigin = "address "

// originOf returns the key for per-caller quotas: the caller's ID, or its network address if it is
// unauthenticated.
func originOf(caller toolyard.Caller, r *http.Request) string {
	if caller.Authenticated() {
		return "caller " + caller.Account + " " + caller.ID
	}
	return anonymousOrigin + inbound.CallerAddress(r.RemoteAddr)
}
