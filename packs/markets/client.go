package markets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/outbound"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/packs/ratelimit"
)

// Limits on requests and responses.
const (
	maxBody     = 1 << 20
	connections = 8
	idleWithin  = 5 * time.Second // longest pause within a response
	shortPause  = time.Second     // after a 429 response that has no Retry-After
	longPause   = time.Minute     // maximum pause that a service can request
)

// client sends requests to one service.
type client struct {
	name    string // display name of the service
	url     *url.URL
	http    *outbound.ServerClient
	limiter *ratelimit.Limiter
	now     func() time.Time
}

func newClient(base string, s service, private []netip.Prefix, now func() time.Time) (*client, error) {
	if base == "" {
		return nil, errors.New("required because there is no default node")
	}
	u, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("the URL cannot be parsed") // the parse error would quote the URL, which may contain a key
	}
	h, err := outbound.NewServerClient(u, outbound.Network{Private: private}, connections)
	if err != nil {
		return nil, err
	}
	if s.path != "" {
		u = u.JoinPath(s.path)
	}
	return &client{name: s.name, url: u, http: h, limiter: ratelimit.Shared(u.Host, s.budget, s.window, now), now: now}, nil
}

// unavailable returns the error for a failing service. The cause is only logged, because it may
// contain text from the service.
func (c *client) unavailable(why string, cause error) *toolyard.Error {
	return &toolyard.Error{Code: toolyard.Unavailable, Message: c.name + " is not available: " + why, Err: cause}
}

// unexpectedAnswer returns the error for a response in an unexpected format.
func (c *client) unexpectedAnswer(what string, cause error) *toolyard.Error {
	return c.unavailable("it did not return "+what, cause)
}

// take waits until the limiter allows this weight.
func (c *client) take(ctx context.Context, weight int) error {
	err := c.limiter.Take(ctx, weight)
	if busy, ok := errors.AsType[*ratelimit.BusyError](err); ok {
		refused := c.unavailable("it is receiving too many requests", err)
		refused.RetryAfter = busy.Wait
		return refused
	}
	return c.explain(ctx, err)
}

// get sends a GET request with a query.
func (c *client) get(ctx context.Context, query url.Values) ([]byte, error) {
	u := *c.url
	u.RawQuery = query.Encode()
	return c.send(ctx, http.MethodGet, u.String(), nil)
}

// post sends a POST request with a JSON body.
func (c *client) post(ctx context.Context, body []byte) ([]byte, error) {
	return c.send(ctx, http.MethodPost, c.url.String(), body)
}

// send sends a request and returns the response, which is JSON that has passed [strictjson.Check].
func (c *client) send(ctx context.Context, method, url string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, c.unavailable("its URL cannot be parsed", nil)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "toolyard")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req, outbound.Limits{Body: maxBody, Idle: idleWithin})
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, c.refused(res)
	}
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if err := strictjson.Check(answer); err != nil {
		return nil, c.unexpectedAnswer("JSON", err)
	}
	return answer, nil
}

// explain converts a request's error.
func (c *client) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if tooLarge, ok := errors.AsType[*outbound.TooLargeError](err); ok {
		return c.unavailable(tooLarge.Error(), err)
	}
	if ctx.Err() != nil || errors.Is(err, outbound.ErrIdle) {
		return c.unavailable("it did not respond in time", err)
	}
	return c.unavailable("it is unreachable", err)
}

// refused returns the error for a status other than OK. After a rate-limit response, requests pause.
func (c *client) refused(res *http.Response) error {
	err := c.unavailable(fmt.Sprintf("the server responded with status %d", res.StatusCode), nil)
	err.RetryAfter = outbound.RetryAfter(res.Header, c.now(), longPause)
	if res.StatusCode == http.StatusTooManyRequests {
		if err.RetryAfter == 0 {
			err.RetryAfter = shortPause
		}
		err.Message = c.name + " is not available: it received too many requests"
		c.limiter.Pause(err.RetryAfter)
	}
	return err
}
