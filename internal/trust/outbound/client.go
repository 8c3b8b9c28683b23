// Package outbound makes HTTP requests to untrusted servers. It decides which hosts and
// addresses may be reached and bounds the size and duration of a response.
package outbound

import (
	"context"
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

// Allowlist is the hosts that code may reach over HTTP: api.example.com, api.example.com:8443,
// *.example.com for all below, or *. Names lead to public addresses only. Other addresses are
// reached by a pattern that is one, by localhost, and by names without a star that lead to a
// network which the client may reach.
type Allowlist []string

// allows reports whether a host may be reached, and whether it was named exactly.
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

// Overlaps reports whether some of the hosts that a pattern stands for may be reached.
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

// hostWithin reports whether all hosts of pattern a are hosts of pattern b.
func hostWithin(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	below, star := strings.CutPrefix(b, "*.")
	return a == b || b == "*" || star && strings.HasSuffix(a, "."+below)
}

// NotAllowedError says that a host is not within reach.
type NotAllowedError struct{ Host string }

func (e *NotAllowedError) Error() string { return "network access to " + e.Host + " is not allowed" }

// Client reaches strangers' HTTP servers: only those within reach, checked again for each
// redirect and at the address that a name leads to, and never more than the given bytes.
type Client struct {
	reach   Allowlist
	within  Allowlist // what else must allow a host, nil for nothing
	network Network
	max     int64
	http    http.Client
}

// NewClient makes a client for a reach, and for what is within another one beside it unless
// that is nil. An answer may have at most maxBody bytes.
func NewClient(reach, within Allowlist, n Network, maxBody int64) *Client {
	c := &Client{reach: slices.Clone(reach), within: slices.Clone(within), network: n, max: maxBody}
	c.http.Transport = &http.Transport{
		DialContext:  c.dial,
		MaxIdleConns: 16, MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
	c.http.CheckRedirect = c.checkRedirect
	return c
}

// dial connects to a host. Each address that its name leads to is checked when it is tried,
// so that no answer of DNS can lead elsewhere.
func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	_, exactly := c.reach.allows(host, port)
	dialer := net.Dialer{Timeout: 10 * time.Second}
	dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return c.admit(strings.ToLower(strings.TrimSuffix(host, ".")), exactly, at.Addr().Unmap().WithZone(""))
	}
	return dialer.DialContext(ctx, network, address)
}

// admit refuses an address that a host must not have. Addresses that are not public need a
// host that was named exactly.
func (c *Client) admit(host string, exactly bool, ip netip.Addr) error {
	literal, _ := netip.ParseAddr(host) // none if it is a name
	explicit := literal.IsValid() || host == localhost
	switch {
	case isPublic(ip), exactly && inAny(c.network.Private, ip):
		return nil
	case explicit && !exactly:
		return &NotAllowedError{host}
	case isNever(ip):
	case literal.IsValid() && ip == literal.Unmap().WithZone(""), host == localhost && ip.IsLoopback():
		return nil
	}
	return &NotPublicError{host, ip}
}

// unicast6 is all that was given to the IPv6 internet so far. Beyond it lie what is local,
// what stands for an IPv4 address (mapped, compatible, NAT64) and what leads nowhere.
var unicast6 = netip.MustParsePrefix("2000::/3")

// shared are ranges that are not private by name and yet not the public internet: shared by
// many, kept for protocols, tests and documentation, or a tunnel to an IPv4 address.
var shared = prefixes("100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "0.0.0.0/8",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

// never are the addresses that even an operator who writes one has to allow as private too:
// those that are no server's, those where clouds hand out the secrets of a machine, and those
// that stand for another address.
var never = prefixes("0.0.0.0/8", "255.255.255.255/32", "169.254.0.0/16", "224.0.0.0/4",
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

func isNever(ip netip.Addr) bool { return inAny(never, ip) && !ip.IsLoopback() }

func inAny(list []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// isPublic reports whether an address is one of the public internet.
func isPublic(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("") // no range contains an address with a zone
	if ip.Is6() && !unicast6.Contains(ip) {
		return false
	}
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && !ip.IsLoopback() && !inAny(shared, ip) && !isNever(ip)
}

// maxRedirects is how many redirects are followed.
const maxRedirects = 5

// redirectKey is where a request says what becomes of redirects.
type redirectKey struct{}

func (c *Client) checkRedirect(req *http.Request, via []*http.Request) error {
	switch mode, _ := req.Context().Value(redirectKey{}).(string); {
	case mode == "manual":
		return http.ErrUseLastResponse
	case mode == "error":
		return errors.New("it redirects")
	case len(via) > maxRedirects:
		return errors.New("it redirects too often")
	}
	if err := c.check(req.URL); err != nil {
		return err
	}
	if req.URL.Host != via[0].URL.Host { // credentials are for the first host only
		req.Header.Del("Authorization")
		req.Header.Del("Cookie")
	}
	return nil
}

// check reports whether a URL is within reach.
func (c *Client) check(u *url.URL) error {
	port := u.Port()
	switch {
	case u.Scheme == "https" && port == "":
		port = "443"
	case u.Scheme == "http" && port == "":
		port = "80"
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("only http and https can be fetched, not %s", u.Scheme)
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

// Do sends a request. Redirect is follow, manual or error. The whole body of the answer is
// read; one that is larger than the client takes is an error.
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
		err = fmt.Errorf("the answer is larger than %d MiB", c.max>>20)
	}
	return res, body, err
}
