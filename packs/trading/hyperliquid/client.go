// Package hyperliquid is a client for the Hyperliquid exchange. It reads market data and accounts
// from the Info API, and sends signed orders. Decimals are never floating-point numbers, response
// sizes are limited, and requests stay within the venue's rate limit.
package hyperliquid

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/ratelimit"
)

// The venue's URLs.
const (
	mainnetURL     = "https://api.hyperliquid.xyz"
	testnetURL     = "https://api.hyperliquid-testnet.xyz"
	leaderboardURL = "https://stats-data.hyperliquid.xyz/Mainnet/leaderboard"
)

// Limits on requests and responses.
const (
	budget        = 1200 // weight per minute and network address, from the venue's documentation
	maxAnswer     = 8 << 20
	maxErrorText  = 300
	answerWithin  = 10 * time.Second
	pauseOn429    = 10 * time.Second // the venue sends no Retry-After
	longestPause  = time.Minute
	maxDecimalLen = 40
)

// Options configure a client.
type Options struct {
	URL         string       // URL of the API; defaults to the network's public URL
	Testnet     bool         // network for which signatures are valid
	Leaderboard string       // URL of the leaderboard; defaults to the public URL
	HTTP        *http.Client //nolint:forbidigo // required; the client that the yard lends to packs
	Now         func() time.Time
}

// Client queries the Info API. It is safe for concurrent use.
type Client struct {
	base        *url.URL
	leaderboard string
	testnet     bool
	http        *http.Client //nolint:forbidigo // as above
	limiter     *ratelimit.Limiter
	now         func() time.Time

	universe cached[*universe]
	leaders  cached[*leaders]
}

// New returns a client. It does not send a request.
func New(o Options) (*Client, error) {
	if o.HTTP == nil {
		return nil, errors.New("hyperliquid: an HTTP client is required")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	public := mainnetURL
	if o.Testnet {
		public = testnetURL
	}
	base, err := url.Parse(cmp.Or(o.URL, public))
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, errors.New("hyperliquid: url must be an http or https URL")
	}
	return &Client{
		base: base, leaderboard: cmp.Or(o.Leaderboard, leaderboardURL), testnet: o.Testnet, http: o.HTTP,
		limiter: ratelimit.Shared(base.Host, budget, time.Minute, o.Now), now: o.Now,
	}, nil
}

// Testnet reports whether the client uses the testnet.
func (c *Client) Testnet() bool { return c.testnet }

func unavailable(why string, cause error) *toolyard.Error {
	return &toolyard.Error{Code: toolyard.Unavailable, Message: "Hyperliquid is not available: " + why + ".", Err: cause}
}

// unexpected returns the error for a response in an unexpected format.
func unexpected(kind string, cause error) error {
	return unavailable("its response to "+kind+" has an unexpected format", cause)
}

// take waits for the rate limit.
func (c *Client) take(ctx context.Context, weight int) error {
	err := c.limiter.Take(ctx, weight)
	if busy, ok := errors.AsType[*ratelimit.BusyError](err); ok {
		return &toolyard.Error{
			Code: toolyard.RateLimited, RetryAfter: busy.Wait, Err: err,
			Message: "The Hyperliquid request budget is exhausted. Try again in " + strconv.Itoa(int(busy.Wait/time.Second)+1) +
				" seconds.",
		}
	}
	return err
}

// info sends an Info request and decodes the response into out.
func (c *Client) info(ctx context.Context, kind string, weight int, request, out any) error {
	if err := c.take(ctx, weight); err != nil {
		return err
	}
	answer, err := c.post(ctx, "info", request)
	if err != nil {
		return err
	}
	if string(bytes.TrimSpace(answer)) == "null" {
		return errNull
	}
	if err := decode(answer, out); err != nil {
		return unexpected(kind, err)
	}
	return nil
}

// errNull means that the response was null, which the venue returns for things that do not exist.
var errNull = errors.New("the response is null")

// decode decodes exactly one JSON value.
func decode(answer []byte, out any) error {
	d := json.NewDecoder(bytes.NewReader(answer))
	if err := d.Decode(out); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the end of the JSON value")
	}
	return nil
}

// statusError is a response with an HTTP status other than 200. For a 4xx status, the venue did not
// accept the request.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.text) }

// post sends a JSON request to a path under the base URL and returns the response body.
func (c *Client) post(ctx context.Context, path string, request any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.send(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, unavailable("its response was cut off", err)
	case len(answer) > maxAnswer:
		return nil, unavailable("its response is too large", nil)
	}
	return answer, nil
}

// send returns a response with status 200. The caller must close its body.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "toolyard")
	res, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(req.Context()); cause != nil {
			return nil, unavailable("it did not respond in time", err)
		}
		return nil, unavailable("it is unreachable", err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorText))
	cause := &statusError{res.StatusCode, strings.ToValidUTF8(string(text), "�")}
	if res.StatusCode == http.StatusTooManyRequests {
		wait := cmp.Or(ratelimit.RetryAfter(res.Header, c.now(), longestPause), pauseOn429)
		c.limiter.Pause(wait)
		return nil, &toolyard.Error{
			Code: toolyard.RateLimited, RetryAfter: wait, Err: cause,
			Message: "Hyperliquid received too many requests from this address. Try again later.",
		}
	}
	return nil, unavailable(fmt.Sprintf("the server responded with status %d", res.StatusCode), cause)
}
