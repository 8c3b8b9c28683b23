// Package outbound makes HTTP requests to untrusted servers. It decides which hosts and addresses
// may be reached and limits the size and duration of responses.
package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Allowlist lists the hosts that code may reach over HTTP: api.example.com, api.example.com:8443,
// *.example.com for all subdomains, or *. Names may resolve only to public addresses. To reach
// other addresses, an entry must be the address itself or localhost, or a name with no star that
// resolves to a network that the client may reach.
type Allowlist []string

// allows reports whether a host may be reached, and whether an entry matches it exactly.
func (r Allowlist) allows(host, port string) (ok, exactly bool) {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	for _, pattern := range r {
		pattern = strings.ToLower(pattern)
		if name, wanted, err := net.SplitHostPort(pattern); err == nil {
			if wanted != port {
				continue
			}
			pattern = name
		}
		below, star := strings.CutPrefix(pattern, "*.")
		switch {
		case pattern == host || pattern == "["+host+"]":
			return true, true
		case pattern == "*", star && strings.HasSuffix(host, "."+below):
			ok = true
		}
	}
	return ok, false
}

// Overlaps reports whether any host that matches a pattern may be reached.
func (r Allowlist) Overlaps(pattern string) bool {
	host, port, err := net.SplitHostPort(pattern)
	if err != nil {
		host, port = pattern, ""
	}
	return slices.ContainsFunc(r, func(granted string) bool {
		other, otherPort, err := net.SplitHostPort(granted)
		if err != nil {
			other, otherPort = granted, ""
		}
		return (port == "" || otherPort == "" || port == otherPort) && (hostWithin(host, other) || hostWithin(other, host))
	})
}

// hostWithin reports whether all hosts that match pattern a also match pattern b.
func hostWithin(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	below, star := strings.CutPrefix(b, "*.")
	return a == b || b == "*" || star && strings.HasSuffix(a, "."+below)
}

// NotAllowedError is returned for a host that is not on the allowlist.
type NotAllowedError struct{ Host string }

func (e *NotAllowedError) Error() string { return "network access to " + e.Host + " is not allowed" }

// Client sends requests to the hosts on an allowlist. It checks hosts again for each redirect and
// each resolved address, and limits responses.
type Client struct {
	reach   Allowlist
	within  Allowlist // must also allow the host, unless nil
	network Network
	max     int64
	http    http.Client

	resolver *net.Resolver // nil uses the system's
}

// NewClient creates a client for hosts that are on both allowlists. If within is nil, it allows all
// hosts. Responses may have at most maxBody bytes.
func NewClient(reach, within Allowlist, n Network, maxBody int64) *Client {
	c := &Client{reach: slices.Clone(reach), within: slices.Clone(within), network: n, max: maxBody}
	c.http.Transport = &http.Transport{
		DialContext:  c.dial,
		MaxIdleConns: 16, MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: n.Unverified}, //nolint:gosec // only for health checks
	}
	c.http.CheckRedirect = c.checkRedirect
	return c
}

// WithoutReuse returns a client with the same rules that opens a new connection for each request, so
// that a request never fails because the server closes an idle connection at the same time.
func (c *Client) WithoutReuse() *Client {
	single := *c
	transport := c.http.Transport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	single.http.Transport = transport
	return &single
}

// dial connects to a host. It checks each resolved address when it tries to connect, so that a DNS
// response cannot redirect the connection.
func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	_, exactly := c.reach.allows(host, port)
	dialer := net.Dialer{Timeout: 10 * time.Second, Resolver: c.resolver}
	dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return c.admit(strings.ToLower(strings.TrimSuffix(host, ".")), exactly, at.Addr().Unmap().WithZone(""))
	}
	return dialer.DialContext(ctx, network, address)
}

// admit returns an error if a host must not have an address. Addresses that are not public require
// an exact entry.
func (c *Client) admit(host string, exactly bool, ip netip.Addr) error {
	literal, _ := netip.ParseAddr(host) // invalid if host is a name
	explicit := literal.IsValid() || host == localhost
	switch {
	case isPublic(ip), exactly && inAny(c.network.Private, ip):
		return nil
	case explicit && !exactly:
		return &NotAllowedError{host}
	case requiresPrivateNetwork(ip):
	case literal.IsValid() && ip == literal.Unmap().WithZone(""), host == localhost && ip.IsLoopback():
		return nil
	}
	return &NotPublicError{host, ip}
}

// unicast6 is the allocated public part of IPv6. Addresses outside it are local addresses, other
// forms of IPv4 addresses (mapped, compatible, NAT64) and unassigned ranges.
var unicast6 = netip.MustParsePrefix("2000::/3")

// shared lists further ranges outside the public internet: shared address space, ranges for
// protocols, tests and documentation, and tunnels to IPv4 addresses.
var shared = prefixes("100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "0.0.0.0/8",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

// needsPrivateNetwork lists addresses for which an allowlist entry is not sufficient:
// privateNetworks must contain them too. They are addresses that cannot belong to a server, cloud
// metadata services, and other forms of addresses.
var needsPrivateNetwork = prefixes("0.0.0.0/8", "255.255.255.255/32", "169.254.0.0/16", "224.0.0.0/4",
	"fe80::/10", "fec0::/10", "ff00::/8", "100::/64",
	"100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::/32", "fd20:ce::254/128", "fd00:42::42/128",
	"::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

func requiresPrivateNetwork(ip netip.Addr) bool {
	return inAny(needsPrivateNetwork, ip) && !ip.IsLoopback()
}

func inAny(list []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// isPublic reports whether an address belongs to the public internet.
func isPublic(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("") // prefixes never contain addresses that have a zone
	if ip.Is6() && !unicast6.Contains(ip) {
		return false
	}
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && !ip.IsLoopback() && !inAny(shared, ip) && !requiresPrivateNetwork(ip)
}

// maxRedirects is the maximum number of redirects per request.
const maxRedirects = 5

// redirectKey is the context key for a request's redirect mode.
type redirectKey struct{}

func (c *Client) checkRedirect(req *http.Request, via []*http.Request) error {
	switch mode, _ := req.Context().Value(redirectKey{}).(string); {
	case mode == "manual":
		return http.ErrUseLastResponse
	case mode == "error":
		return errors.New("it redirects")
	case len(via) > maxRedirects:
		return errors.New("too many redirects")
	}
	if err := c.check(req.URL); err != nil {
		return err
	}
	if req.URL.Host != via[0].URL.Host { // credentials are only for the first host
		req.Header.Del("Authorization")
		req.Header.Del("Cookie")
	}
	return nil
}

// check returns an error if a URL's host is not allowed.
func (c *Client) check(u *url.URL) error {
	port := u.Port()
	switch {
	case u.Scheme == "https" && port == "":
		port = "443"
	case u.Scheme == "http" && port == "":
		port = "80"
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("unsupported scheme %s; use http or https", u.Scheme)
	}
	ok, _ := c.reach.allows(u.Hostname(), port)
	if ok && c.within != nil {
		ok, _ = c.within.allows(u.Hostname(), port)
	}
	if !ok {
		return &NotAllowedError{net.JoinHostPort(u.Hostname(), port)}
	}
	return nil
}

// Do sends a request and reads the whole response. redirect is follow, manual or error. It returns
// an error if the response exceeds the limit.
func (c *Client) Do(req *http.Request, redirect string) (*http.Response, []byte, error) {
	if err := c.check(req.URL); err != nil {
		return nil, nil, err
	}
	ctx := context.WithValue(req.Context(), redirectKey{}, redirect)
	res, err := c.http.Do(req.WithContext(ctx))
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, c.max+1))
	if err == nil && int64(len(body)) > c.max {
		err = fmt.Errorf("the response is larger than %d MiB", c.max>>20)
	}
	return res, body, err
}
