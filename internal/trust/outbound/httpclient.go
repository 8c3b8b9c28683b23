package outbound

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// NewHTTPClient creates a standard HTTP client for Go code that an operator configured, such as a
// pack. It can reach any public host. It can reach a private host only if the operator listed it as
// an address, as localhost, or as a name within a network that n allows. Responses are limited by
// l, and redirects are refused.
//
// A WebSocket upgrade is passed through: the body of its response is an [io.ReadWriteCloser] with
// no limits. The code that requested the upgrade must limit and close it.
func NewHTTPClient(named []string, n Network, l Limits) *http.Client {
	c := NewClient(append(Allowlist{"*"}, named...), nil, n, l.Body)
	return &http.Client{
		Transport: &boundedTransport{c, l},
		CheckRedirect: func(req *http.Request, _ []*http.Request) error {
			return fmt.Errorf("the server redirects to %s; use this address instead", shownURL(req.URL))
		},
	}
}

// boundedTransport applies a client's rules and limits responses.
type boundedTransport struct {
	client *Client
	limits Limits
}

// RoundTrip implements [http.RoundTripper].
func (t *boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.client.check(req.URL); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	res, err := t.client.http.Transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		res.Body = newBody(ctx, cancel, res.Body, t.limits)
		return res, nil
	}
	defer cancel(nil) // does not end an upgraded connection
	if !requestsWebSocket(req) {
		_ = res.Body.Close()
		return nil, errors.New("the server switched to a protocol other than HTTP")
	}
	return res, nil
}

// CloseIdleConnections is called by [http.Client.CloseIdleConnections].
func (t *boundedTransport) CloseIdleConnections() { t.client.http.CloseIdleConnections() }

func requestsWebSocket(req *http.Request) bool {
	return strings.EqualFold(req.Header.Get("Upgrade"), "websocket")
}
