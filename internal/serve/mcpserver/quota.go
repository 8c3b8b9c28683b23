package mcpserver

import (
	"net/http"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/inbound"
)

// quota bounds how much of something clients hold at once. Nobody gets more than a quarter.
type quota struct {
	of     string // what it bounds, in words
	shares *inbound.Shares
}

func newQuota(of string, maximum int) *quota {
	return &quota{of, inbound.NewShares(maximum, maximum/4)}
}

// take takes n, which release gives back.
func (q *quota) take(origin string, n int) (release func(), err error) {
	release, v := q.shares.Take(origin, n)
	switch v {
	case inbound.CallerFull:
		return nil, &toolyard.Error{Code: toolyard.RateLimited, Message: "You have too many " + q.of + " here. Try again when some have ended.", RetryAfter: 5 * time.Second}
	case inbound.AllFull:
		return nil, &toolyard.Error{Code: toolyard.Unavailable, Message: "This server has too many " + q.of + ". Try again later.", RetryAfter: 30 * time.Second}
	}
	return release, nil
}

// unknownOrigin begins the origins of unauthenticated callers.
const unknownOrigin = "address "

// originOf is what bounds for one sender are counted under: the caller, or the network address
// of an unauthenticated one.
func originOf(caller toolyard.Caller, r *http.Request) string {
	if caller.Authenticated() {
		return "caller " + caller.Account + " " + caller.ID
	}
	return unknownOrigin + inbound.CallerAddress(r.RemoteAddr)
}
