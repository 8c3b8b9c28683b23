package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/framing"
	"github.com/toolyard/toolyard/internal/trust/outbound"
)

// Limits on HTTP responses.
const (
	maxEvents    = maxUnsolicited // events in one response
	streamIdle   = 90 * time.Second
	maxSessionID = 1 << 10
)

// httpLink is a link to a URL. Each request has its own HTTP response; notifications arrive on the
// stream that listen reads.
type httpLink struct {
	client      *outbound.ServerClient
	url         string
	authorizer  Authorizer     // authorizes every request; may be nil
	owner       *toolyard.Call // the call whose credentials are used for messages that belong to no call; may be nil
	onMessage   func(message)
	calls       runningCalls
	streamReady chan struct{} // closed when the notification stream has been opened or refused
	streamOnce  sync.Once
	*ending

	mu      sync.Mutex
	header  http.Header // sent with every request; replaced as a whole
	session string      // ID of the legacy session
	version string      // negotiated version; empty until then
}

// newHTTPLink creates a link to a URL. It does not send anything yet.
func newHTTPLink(o *Options, onMessage func(message)) (*httpLink, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, errors.New("the server's URL is invalid")
	}
	l := &httpLink{url: o.URL, header: http.Header{}, authorizer: o.Authorizer, owner: o.owner, onMessage: onMessage, streamReady: make(chan struct{}), ending: newEnding()}
	if l.client, err = outbound.NewServerClient(u, outbound.Network{Private: o.Private}, o.Connections); err != nil {
		return nil, err
	}
	if l.header, err = requestHeader(o); err != nil {
		return nil, err
	}
	return l, nil
}

// requestHeader returns the header that every request has.
func requestHeader(o *Options) (h http.Header, err error) {
	h = http.Header{}
	if o.Headers != nil {
		if h, err = o.Headers(); err != nil {
			return nil, err
		}
	}
	h.Set("User-Agent", o.Name+"/"+o.Version)
	return h, nil
}

// updateCredentials applies changed headers, starting with the next request.
func (l *httpLink) updateCredentials(o *Options) (restart bool) {
	h, err := requestHeader(o)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.header = h
	return false
}

// statusError is an HTTP response that is not an MCP message.
type statusError struct {
	status     int
	retryAfter time.Duration
	text       string // beginning of the body
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("the server responded with status %d", e.status)
	if name := http.StatusText(e.status); name != "" {
		s += " " + name
	}
	if e.text != "" {
		s += ": " + e.text // callers redact the text before showing it
	}
	return s
}

// unreachableError is returned for a request that received no response.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return "cannot reach the server: " + e.err.Error() }

func (e *unreachableError) Unwrap() error { return e.err }

// roundTrip implements link.
func (l *httpLink) roundTrip(ctx context.Context, x *exchange) (m message, err error) {
	l.calls.add(x)
	defer func() { l.calls.remove(x, err == nil) }()
	res, err := l.post(ctx, x, x.body)
	if err != nil {
		if ctx.Err() != nil {
			l.cancel(ctx, x)
		}
		return message{}, err
	}
	defer func() { _ = res.Body.Close() }()
	if x.method == "initialize" {
		l.setSession(res)
	}
	m, err = l.read(ctx, res, x)
	if err != nil && ctx.Err() != nil {
		l.cancel(ctx, x)
		return message{}, ctx.Err()
	}
	return m, err
}

// cancel notifies a legacy server that a request was canceled. For a modern server, closing the
// stream is enough.
func (l *httpLink) cancel(ctx context.Context, x *exchange) {
	if l.modern() || x.noCancel {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	go func() {
		defer stop()
		_ = l.notify(ctx, cancellation(x.id))
	}()
}

// post sends a message. x is nil if the message has no response.
func (l *httpLink) post(ctx context.Context, x *exchange, body []byte) (*http.Response, error) {
	req, err := l.request(ctx, http.MethodPost, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	limit := outbound.Limits{Body: 2 * maxMessage}
	if x != nil && (l.modern() || x.method == "server/discover") {
		req.Header.Set("Mcp-Protocol-Version", modernVersion)
		req.Header.Set("Mcp-Method", x.method)
		if x.name != "" {
			req.Header.Set("Mcp-Name", headerValue(x.name))
		}
		for _, h := range x.headers {
			req.Header.Set(h[0], headerValue(h[1]))
		}
	}
	if x != nil && x.method == "subscriptions/listen" {
		limit = outbound.Limits{Body: 1 << 40, Idle: streamIdle}
	}
	return l.do(req, callOf(x), limit)
}

// callOf returns a request's call, or nil for a message that has no response.
func callOf(x *exchange) *toolyard.Call {
	if x == nil {
		return nil
	}
	return x.call
}

// request returns a request with the headers that all requests have.
func (l *httpLink) request(ctx context.Context, method string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, l.url, body)
	if err != nil {
		return nil, errors.New("the server's URL is invalid")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	req.Header = l.header.Clone()
	if l.session != "" {
		req.Header.Set("Mcp-Session-Id", l.session)
	}
	if l.version != "" {
		req.Header.Set("Mcp-Protocol-Version", l.version)
	}
	return req, nil
}

// setVersion records the negotiated protocol version.
func (l *httpLink) setVersion(version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version = version
}

func (l *httpLink) modern() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version >= modernVersion
}

// setSession records the ID of the session that the server opened.
func (l *httpLink) setSession(res *http.Response) {
	id := res.Header.Get("Mcp-Session-Id")
	if len(id) > maxSessionID {
		id = ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = id
}

// read reads the response to a request: a message, or a stream of messages.
func (l *httpLink) read(ctx context.Context, res *http.Response, x *exchange) (message, error) {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case kind == "text/event-stream" && res.StatusCode == http.StatusOK:
		return l.readStream(ctx, res, x)
	case kind == "application/json":
		return l.readOne(res, x)
	}
	return message{}, statusErrorOf(res)
}

// statusErrorOf converts a response that is not an MCP message into an error.
func statusErrorOf(res *http.Response) error {
	head, _ := io.ReadAll(io.LimitReader(res.Body, maxKept))
	return &statusError{status: res.StatusCode, retryAfter: retryAfter(res), text: strings.TrimSpace(strings.ToValidUTF8(string(head), "\ufffd"))}
}

// maxRetryAfter limits the pause that a server can request.
const maxRetryAfter = time.Hour

func retryAfter(res *http.Response) time.Duration {
	return outbound.RetryAfter(res.Header, time.Now(), maxRetryAfter)
}

func (l *httpLink) readOne(res *http.Response, x *exchange) (message, error) {
	data, err := readBody(res)
	if err != nil {
		return message{}, err
	}
	m, err := parse(data)
	matches := m.method == "" && (number(m.id) == x.id || m.id == nil && m.err != nil)
	switch {
	case res.StatusCode != http.StatusOK && (err != nil || m.err == nil):
		res.Body = io.NopCloser(bytes.NewReader(data))
		return message{}, statusErrorOf(res)
	case slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}, res.StatusCode) || res.StatusCode >= 500:
		return message{}, &statusError{status: res.StatusCode, retryAfter: retryAfter(res), text: m.err.Message}
	case err != nil:
		return message{}, err
	case !matches:
		return message{}, errors.New("the server responded to a different request")
	}
	if m.err != nil {
		m.err.status = res.StatusCode
	}
	return m, nil
}

// readBody reads a whole response.
func readBody(res *http.Response) ([]byte, error) {
	if res.ContentLength > maxMessage {
		return nil, &sizeError{res.ContentLength}
	}
	b := make([]byte, 0, int(min(max(res.ContentLength, 512), 64<<10))+1) // the declared length may be wrong
	for {
		n, err := res.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > maxMessage:
			return nil, &sizeError{int64(len(b))}
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return nil, bodyError(err)
		}
		if len(b) == cap(b) {
			b = slices.Grow(b, max(int(res.ContentLength)-len(b)+1, len(b)/4))
		}
	}
}

// bodyError returns the reason why a response could not be read completely.
func bodyError(err error) error {
	if large, ok := errors.AsType[*outbound.TooLargeError](err); ok {
		return &sizeError{large.Max}
	}
	if errors.Is(err, framing.ErrLongEvent) {
		return &sizeError{maxMessage + 1}
	}
	if errors.Is(err, framing.ErrManyEvents) {
		return errUnsolicited
	}
	return &unreachableError{fmt.Errorf("the response ended early: %w", err)}
}

// readStream reads messages up to the response. A legacy server may close the stream early; the
// client then resumes it.
func (l *httpLink) readStream(ctx context.Context, res *http.Response, x *exchange) (message, error) {
	count := maxEvents
	if x.method == "subscriptions/listen" {
		count = 0 // this kind of stream is unlimited
	}
	events, body := framing.NewEventReader(res.Body, maxMessage, count), res.Body
	defer func() { _ = body.Close() }()
	for resumes := 0; ; {
		e, err := events.Next()
		if errors.Is(err, io.EOF) && e.ID != "" && !l.modern() && resumes < maxResumes {
			resumes++
			_ = body.Close()
			res, err := l.resume(ctx, e) //nolint:bodyclose // closed above, like the first
			if err != nil {
				return message{}, err
			}
			body = res.Body
			events = framing.NewEventReader(body, maxMessage, count)
			continue
		}
		if errors.Is(err, io.EOF) {
			return message{}, &unreachableError{errors.New("the response ended before the result arrived")}
		}
		if err != nil {
			return message{}, bodyError(err)
		}
		if len(bytes.TrimSpace(e.Data)) == 0 {
			continue // this event only carries an ID
		}
		m, err := parse(cloneMessage(e.Data))
		switch {
		case err != nil:
			return message{}, err
		case m.method == "" && number(m.id) == x.id:
			return m, nil
		case m.method == "":
			return message{}, errors.New("the server responded to a different request")
		case x.onMessage != nil:
			x.onMessage(m)
		default:
			l.onMessage(m)
		}
	}
}

// Limits on resumed streams.
const (
	maxResumes = 100
	maxRetry   = 10 * time.Second
)

// resume requests the events after the last one, once the pause that the server requested is over.
func (l *httpLink) resume(ctx context.Context, last framing.Event) (*http.Response, error) {
	pause := time.Second
	if last.Retry > 0 {
		pause = min(last.Retry, maxRetry)
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	req, err := l.request(ctx, http.MethodGet, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Last-Event-Id", last.ID)
	return l.stream(req, outbound.Limits{Body: 2 * maxMessage})
}

// stream sends a request for an event stream.
func (l *httpLink) stream(req *http.Request, limit outbound.Limits) (*http.Response, error) {
	res, err := l.do(req, nil, limit)
	if err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); res.StatusCode != http.StatusOK || kind != "text/event-stream" {
		defer func() { _ = res.Body.Close() }()
		return nil, statusErrorOf(res)
	}
	return res, nil
}

// notify implements link.
func (l *httpLink) notify(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	res, err := l.post(ctx, nil, body)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode/100 != 2 {
		return statusErrorOf(res)
	}
	return nil
}

// listen implements link: it reads the notification stream of a legacy session.
func (l *httpLink) listen(ctx context.Context) error {
	req, err := l.request(ctx, http.MethodGet, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := l.stream(req, outbound.Limits{Body: 1 << 40, Idle: streamIdle * 10})
	l.streamOnce.Do(func() { close(l.streamReady) })
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	events, meter := framing.NewEventReader(res.Body, maxMessage, 0), newMeter()
	for {
		e, err := events.Next()
		if err != nil {
			return bodyError(err)
		}
		if m, err := parse(cloneMessage(e.Data)); err == nil && m.method != "" {
			l.handleMessage(m)
		}
		if !meter.allow() {
			return errUnsolicited
		}
	}
}

// handleMessage handles a message from the notification stream. A question on this stream belongs
// to the only running call.
func (l *httpLink) handleMessage(m message) {
	if x := l.calls.sole(); x != nil && m.id != nil {
		x.onMessage(m)
		return
	}
	l.onMessage(m)
}

// close implements link. It deletes the session on the server.
func (l *httpLink) close() {
	l.fail(errClosed)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := l.request(ctx, http.MethodDelete, http.NoBody)
	if err == nil && req.Header.Get("Mcp-Session-Id") != "" {
		if res, err := l.do(req, nil, outbound.Limits{Body: 1 << 10}); err == nil {
			_ = res.Body.Close()
		}
	}
	l.client.Close()
}

// meter limits the rate of messages on a notification stream.
type meter struct {
	since time.Time
	count int
}

func newMeter() *meter { return &meter{since: time.Now()} }

// allow counts one message, and reports whether the rate is within the limit.
func (m *meter) allow() bool {
	if time.Since(m.since) > time.Minute {
		*m = meter{since: time.Now()}
	}
	m.count++
	return m.count <= maxUnsolicited
}

func (l *httpLink) sessionID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}
