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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Network specifies which non-public networks may be reached.
type Network struct {
	Private []netip.Prefix
	// Unverified accepts any TLS certificate. It is meant for health checks, which send no secrets
	// and reach a server at an address that is not in its certificate.
	Unverified bool
}

// Limits limits a response.
type Limits struct {
	Body int64         // maximum bytes of the body; 16 MiB if zero
	Idle time.Duration // longest wait for the next bytes of the body; zero for no limit
}

const (
	defaultBody   = 16 << 20
	maxHops       = 3        // redirects per request
	maxHeader     = 64 << 10 // bytes in a response's header
	maxHost       = 253      // bytes in a DNS name
	maxShownURL   = 200      // bytes of a URL in an error
	connectWithin = 5 * time.Second
)

// ErrIdle is returned when a server sends nothing for longer than [Limits] allows.
var ErrIdle = errors.New("the server stopped sending data")

// TooLargeError is returned for a response that is larger than [Limits] allows.
type TooLargeError struct{ Max int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the response exceeds %d bytes", e.Max)
}

// NotPublicError is returned for a host that resolves to an address that must not be reached.
type NotPublicError struct {
	Host    string
	Address netip.Addr
}

func (e *NotPublicError) Error() string {
	text := e.Address.String()
	if e.Host != text {
		text = e.Host + " resolves to " + text + ", which"
	}
	kind := "a public address"
	if e.Host == localhost {
		kind = "a local address"
	}
	return text + " is not " + kind + "; to allow it, add its network to privateNetworks"
}

// ServerClient sends requests to one HTTP server whose URL an operator configured. It checks the
// address of each connection, so that a DNS response cannot redirect it.
type ServerClient struct {
	server    string     // scheme, host and port
	host      string     // as in the configuration
	literal   netip.Addr // set if the host is an IP address
	private   []netip.Prefix
	resolver  *net.Resolver // nil uses the system's
	transport *http.Transport
}

// NewServerClient creates a client for the server at base. It keeps at most conns idle connections.
func NewServerClient(base *url.URL, n Network, conns int) (*ServerClient, error) {
	server, err := serverOf(base)
	if err != nil {
		return nil, err
	}
	literal, err := parseHost(base)
	if err != nil {
		return nil, err
	}
	h := &ServerClient{server: server, host: base.Hostname(), literal: literal, private: slices.Clone(n.Private)}
	if literal.IsValid() {
		if err := h.admit(literal); err != nil {
			return nil, err
		}
	}
	conns = max(conns, 1)
	h.transport = &http.Transport{
		DialContext:  h.dial,
		MaxIdleConns: conns, MaxIdleConnsPerHost: conns, MaxConnsPerHost: 4*conns + 16, IdleConnTimeout: time.Minute,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: connectWithin,
		DisableCompression: true, MaxResponseHeaderBytes: maxHeader, ForceAttemptHTTP2: true,
		// Detects dead connections before many calls are sent on them.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
	return h, nil
}

// Close closes idle connections.
func (h *ServerClient) Close() { h.transport.CloseIdleConnections() }

// Do sends a request to the server. The request's context limits the time until the response
// begins. Redirects within the server are followed. The caller must close the body, which returns
// [*TooLargeError] or [ErrIdle] if a limit is exceeded. Errors do not contain the URL, because it
// may contain a key.
func (h *ServerClient) Do(req *http.Request, l Limits) (*http.Response, error) {
	if err := h.check(req.URL); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	out := req.Clone(ctx)
	out.Host = ""
	if out.Header == nil {
		out.Header = http.Header{}
	}
	out.Header.Set("Accept-Encoding", "identity")
	res, err := h.follow(out)
	if err != nil {
		cancel(nil)
		if refused, ok := errors.AsType[*NotPublicError](err); ok {
			return nil, refused
		}
		return nil, err
	}
	res.Body = newBody(ctx, cancel, res.Body, l)
	return res, nil
}

// follow sends a request and follows redirects.
func (h *ServerClient) follow(req *http.Request) (*http.Response, error) {
	for range maxHops + 1 {
		res, err := h.transport.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		if res.StatusCode == http.StatusSwitchingProtocols { // an upgraded connection is not tied to a context
			_ = res.Body.Close()
			return nil, errors.New("the server switched to a protocol other than HTTP")
		}
		if !isRedirect(res.StatusCode) {
			if err := checkEncoding(res); err != nil {
				_ = res.Body.Close()
				return nil, err
			}
			return res, nil
		}
		_ = res.Body.Close()
		if req, err = h.redirected(req, res); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("more than %d redirects", maxHops)
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// redirected returns the request for a redirect.
func (h *ServerClient) redirected(req *http.Request, res *http.Response) (*http.Request, error) {
	location := res.Header.Get("Location")
	to, err := req.URL.Parse(location)
	if err != nil || location == "" {
		return nil, fmt.Errorf("the server redirects to %s, which is not a valid URL", shown(location))
	}
	if err := h.check(to); err != nil {
		return nil, fmt.Errorf("the server redirects to %s: %w", shownURL(to), err)
	}
	keeps := res.StatusCode == http.StatusTemporaryRedirect || res.StatusCode == http.StatusPermanentRedirect
	if !keeps && req.Method != http.MethodGet && req.Method != http.MethodHead && req.Method != "" {
		return nil, fmt.Errorf("the server redirects a %s request to %s with status %d, which would drop the body; set the server's URL to the new address",
			req.Method, shownURL(to), res.StatusCode)
	}
	next := req.Clone(req.Context())
	next.URL = to
	if req.Body == nil || req.Body == http.NoBody {
		return next, nil
	}
	if req.GetBody == nil {
		return nil, fmt.Errorf("the server redirects to %s, but the request cannot be sent again", shownURL(to))
	}
	next.Body, err = req.GetBody()
	return next, err
}

// shown quotes text for use in an error.
func shown(text string) string {
	return strconv.QuoteToASCII(untrusted.Truncate(text, maxShownURL))
}

// shownURL quotes a URL without the parts that may contain a secret.
func shownURL(u *url.URL) string {
	bare := *u
	bare.RawQuery = ""
	return shown(bare.Redacted())
}

// checkEncoding refuses compressed responses, because a few bytes could expand to a great many.
func checkEncoding(res *http.Response) error {
	for _, value := range res.Header.Values("Content-Encoding") {
		if value != "" && !strings.EqualFold(strings.TrimSpace(value), "identity") {
			return errors.New("the server sent compressed data that was not requested")
		}
	}
	return nil
}

// check returns an error if a URL belongs to another server.
func (h *ServerClient) check(u *url.URL) error {
	server, err := serverOf(u)
	if err != nil {
		return err
	}
	if server != h.server {
		return fmt.Errorf("%s is not the same server as %s", shown(server), h.server)
	}
	return nil
}

// serverOf returns the scheme, host and port of a URL, and rejects URLs with other parts.
func serverOf(u *url.URL) (string, error) {
	if u == nil {
		return "", errors.New("the URL is missing")
	}
	port := u.Port()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("unsupported scheme %s; use http or https", shown(u.Scheme))
	case u.Opaque != "" || u.Hostname() == "":
		return "", errors.New("the URL has no host")
	case u.User != nil:
		return "", errors.New("the URL contains a username; use a header instead")
	case u.Fragment != "":
		return "", errors.New("the URL has a fragment, which is never sent; remove it")
	case port == "" && u.Scheme == "http":
		port = "80"
	case port == "":
		port = "443"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "", fmt.Errorf("%s is not a valid port", shown(port))
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port), nil
}

const localhost = "localhost"

// IsSecureURL reports whether a URL uses https, or http on loopback. The URL must not contain a
// user name or a fragment.
func IsSecureURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	if u.Scheme == "https" {
		return true
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == localhost || err == nil && ip.IsLoopback())
}

// parseHost returns the address if a URL's host is an IP address. It rejects hosts that parsers
// interpret differently.
func parseHost(u *url.URL) (netip.Addr, error) {
	host := u.Hostname()
	if ip, err := netip.ParseAddr(host); err == nil {
		plain := ip.Unmap().WithZone("")
		if plain.String() != host || plain.Is6() != strings.HasPrefix(u.Host, "[") {
			return netip.Addr{}, fmt.Errorf("%s is a nonstandard IP address notation; use %s", shown(host), plain)
		}
		return ip, nil
	}
	if len(host) > maxHost || strings.ContainsFunc(host, notInName) {
		return netip.Addr{}, fmt.Errorf("%s is not a valid host name; use letters, digits, hyphens and dots", shown(host))
	}
	if endsInNumber(host) {
		return netip.Addr{}, fmt.Errorf("%s is a nonstandard IP address notation; use four decimal numbers separated by dots", shown(host))
	}
	return netip.Addr{}, nil
}

const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

func notInName(r rune) bool { return !strings.ContainsRune(nameBytes, r) }

// endsInNumber reports whether some parsers would interpret a name as an IPv4 address, such as
// 2130706433, 0x7f.1, or 127.0.0.1. with a trailing dot.
func endsInNumber(name string) bool {
	name = strings.ToLower(strings.TrimRight(name, "."))
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// dial connects to the server. Each resolved address is checked.
func (h *ServerClient) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: connectWithin, Resolver: h.resolver}
	dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return h.admit(at.Addr())
	}
	return dialer.DialContext(ctx, network, address)
}

// admit returns an error if the server must not have an address.
func (h *ServerClient) admit(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	var ok bool
	switch {
	case inAny(h.private, ip):
		ok = true
	case requiresPrivateNetwork(ip):
	case h.literal.IsValid():
		ok = ip == h.literal
	case h.host == localhost:
		ok = ip.IsLoopback()
	default:
		ok = isPublic(ip)
	}
	if !ok {
		return &NotPublicError{h.host, ip}
	}
	return nil
}

// body is a response body with limits.
type body struct {
	io.ReadCloser
	ctx       context.Context
	cancel    context.CancelCauseFunc
	max, left int64
	idle      time.Duration
	timer     *time.Timer // ends a read that waits too long; nil if there is no limit
}

func newBody(ctx context.Context, cancel context.CancelCauseFunc, r io.ReadCloser, l Limits) *body {
	if l.Body == 0 {
		l.Body = defaultBody
	}
	b := &body{ReadCloser: r, ctx: ctx, cancel: cancel, max: l.Body, left: l.Body, idle: l.Idle}
	if l.Idle > 0 {
		b.timer = time.AfterFunc(l.Idle, func() { cancel(ErrIdle) })
		b.timer.Stop()
	}
	return b
}

// Read reads up to one byte more than the limit, to distinguish the end of the body from the limit.
func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, &TooLargeError{b.max}
	}
	if int64(len(p))-1 > b.left {
		p = p[:b.left+1]
	}
	if b.timer != nil {
		b.timer.Reset(b.idle)
	}
	n, err := b.ReadCloser.Read(p)
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.left -= int64(n); b.left < 0 {
		return n - 1, &TooLargeError{b.max}
	}
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(b.ctx), ErrIdle) {
		err = ErrIdle
	}
	return n, err
}

// Close closes the body and discards the rest.
func (b *body) Close() error {
	if b.timer != nil {
		b.timer.Stop()
	}
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
