// Package oauthclient obtains access tokens for protected HTTP services as an OAuth client. It
// finds a service's authorization server, registers or identifies itself there, and requests,
// refreshes and revokes tokens. It does not store anything.
package oauthclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/trust/outbound"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// Limits on responses from untrusted servers.
const (
	requestTimeout = 10 * time.Second
	maxDocument    = 256 << 10 // bytes per response
	maxText        = 4 << 10   // bytes per string in metadata
	maxToken       = 16 << 10  // bytes per token
	maxList        = 500       // strings per list
)

// Client sends requests to authorization servers. It checks every URL that it receives in a
// response: only https, or http on loopback, and only public addresses are allowed.
type Client struct {
	http    *outbound.Client
	single  *outbound.Client // like http, but does not reuse connections
	now     func() time.Time
	timeout time.Duration // per request
}

// New creates a client. The named hosts, which an operator has configured, may have addresses in
// private networks; all others must be public.
func New(named []string, private []netip.Prefix, now func() time.Time) *Client {
	reach := append(outbound.Allowlist{"*"}, named...)
	client := outbound.NewClient(reach, nil, outbound.Network{Private: private}, maxDocument)
	return &Client{http: client, single: client.WithoutReuse(), now: now, timeout: requestTimeout}
}

// response is a response of limited size.
type response struct {
	status int
	body   object // nil if it is not a JSON object
}

// do sends a request and reads the response within the time limit.
func (c *Client) do(ctx context.Context, method, address string, header http.Header, body []byte) (*response, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return send(ctx, c.http, method, address, header, body)
}

// send sends a request and reads the response. Redirects are errors.
func send(ctx context.Context, client *outbound.Client, method, address string, header http.Header, body []byte) (*response, error) {
	if !outbound.IsSecureURL(address) {
		return nil, fmt.Errorf("%.200q is not an https URL", address)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%.200q is not a URL", address)
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Accept", "application/json")
	res, data, err := client.Do(req, "error") //nolint:bodyclose // Do has already read and closed it
	if err != nil {
		if inner, ok := err.(*url.Error); ok { //nolint:errorlint // the outermost error contains the whole URL
			err = inner.Err
		}
		return nil, fmt.Errorf("%s: %w", hostOf(address), err)
	}
	out := &response{status: res.StatusCode}
	if strictjson.Check(data) == nil && strings.HasPrefix(strings.TrimLeft(string(data), " \t\r\n"), "{") {
		out.body = data
	}
	return out, nil
}

// get reads a JSON object, or returns nil if there is none at the URL.
func (c *Client) get(ctx context.Context, address string) (object, error) {
	res, err := c.do(ctx, http.MethodGet, address, http.Header{}, nil)
	switch {
	case err != nil:
		return nil, err
	case res.status >= 400 && res.status < 500:
		return nil, nil
	case res.status != http.StatusOK:
		return nil, fmt.Errorf("%s: status %d", hostOf(address), res.status)
	case res.body == nil:
		return nil, fmt.Errorf("%s: the response is not a JSON object", hostOf(address))
	}
	return res.body, nil
}

// hostOf returns an address's host for use in an error.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the server"
	}
	return u.Host
}

// object is an untrusted JSON object. Names are compared exactly.
type object json.RawMessage

// text returns a string, or "" if it is absent.
func (o object) text(name string) (string, error) {
	raw := strictjson.Member(json.RawMessage(o), name)
	if raw == nil || string(raw) == "null" {
		return "", nil
	}
	value, ok := strictjson.String(raw)
	if !ok || len(value) > maxText {
		return "", fmt.Errorf("%s is not a string of at most %d bytes", name, maxText)
	}
	return value, nil
}

// address returns a secure URL, or "" if it is absent.
func (o object) address(name string) (string, error) {
	value, err := o.text(name)
	if err == nil && value != "" && !outbound.IsSecureURL(value) {
		err = fmt.Errorf("%s is not an https URL", name)
	}
	return value, err
}

// list returns an array of strings, or nil if it is absent.
func (o object) list(name string) (values []string, err error) {
	raw := strictjson.Member(json.RawMessage(o), name)
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	if json.Unmarshal(raw, &values) != nil || len(values) > maxList {
		return nil, fmt.Errorf("%s is not a list of at most %d strings", name, maxList)
	}
	for _, value := range values {
		if value == "" || len(value) > maxText {
			return nil, fmt.Errorf("%s contains an invalid string", name)
		}
	}
	return values, nil
}

// flag reports whether a member is true.
func (o object) flag(name string) bool {
	return string(strictjson.Member(json.RawMessage(o), name)) == "true"
}
