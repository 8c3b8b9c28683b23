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
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/trust/framing"
	"github.com/toolyard/toolyard/internal/trust/outbound"
)

// Bounds on the answers of servers over HTTP.
const (
	maxEvents    = maxChatter // in the answer to one request
	streamIdle   = 90 * time.Second
	maxSessionID = 1 << 10
)

// httpLink is a server at a URL. Each request has an answer of its own; what the server
// says unasked comes on a stream that listen holds open.
type httpLink struct {
	client  *outbound.ServerClient
	url     string
	header  http.Header // of every request
	heard   func(message)
	calls   calls
	hearing chan struct{} // closed when the stream of listen is open, or refused
	heardOf sync.Once
	*ending

	mu      sync.Mutex
	session string // of the legacy era
	version string // that was agreed on, empty before
}

// newHTTPLink makes a link to a URL. Nothing is sent yet.
func newHTTPLink(o *Options, heard func(message)) (*httpLink, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, errors.New("its url cannot be read")
	}
	l := &httpLink{url: o.URL, header: http.Header{}, heard: heard, hearing: make(chan struct{}), ending: newEnding()}
	if l.client, err = outbound.NewServerClient(u, outbound.Network{Private: o.Private}, o.Connections); err != nil {
		return nil, err
	}
	if o.Headers != nil {
		if l.header, err = o.Headers(); err != nil {
			return nil, err
		}
	}
	l.header.Set("User-Agent", o.Name+"/"+o.Version)
	return l, nil
}

// statusError is an answer that is no MCP message.
type statusError struct {
	status     int
	retryAfter time.Duration
	text       string // the beginning of what it said
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("it answers with status %d", e.status)
	if name := http.StatusText(e.status); name != "" {
		s += " " + name
	}
	if e.text != "" {
		s += ": " + e.text // which is not shown before secrets are taken out of it
	}
	return s
}

// unreachable says that a request did not get through.
type unreachable struct{ err error }

func (e *unreachable) Error() string { return "it cannot be reached: " + e.err.Error() }

func (e *unreachable) Unwrap() error { return e.err }

// exchange implements link.
func (l *httpLink) exchange(ctx context.Context, q *query) (m message, err error) {
	l.calls.enter(q)
	defer func() { l.calls.leave(q, err == nil) }()
	res, err := l.post(ctx, q, q.body)
	if err != nil {
		if ctx.Err() != nil {
			l.cancel(ctx, q)
		}
		return message{}, err
	}
	defer func() { _ = res.Body.Close() }()
	if q.method == "initialize" {
		l.keepSession(res)
	}
	m, err = l.read(ctx, res, q)
	if err != nil && ctx.Err() != nil {
		l.cancel(ctx, q)
		return message{}, ctx.Err()
	}
	return m, err
}

// cancel tells a server of the legacy era that nobody waits any more; for the modern one
// that the stream was closed is enough.
func (l *httpLink) cancel(ctx context.Context, q *query) {
	if l.modern() || q.silence {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), sayTimeout)
	go func() {
		defer stop()
		_ = l.tell(ctx, cancellation(q.id))
	}()
}

// post sends a message. A nil query is for messages that no answer is owed to.
func (l *httpLink) post(ctx context.Context, q *query, body []byte) (*http.Response, error) {
	req, err := l.request(ctx, http.MethodPost, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	limit := outbound.Limits{Body: 2 * maxMessage}
	if q != nil && (l.modern() || q.method == "server/discover") {
		req.Header.Set("Mcp-Protocol-Version", modernVersion)
		req.Header.Set("Mcp-Method", q.method)
		if q.name != "" {
			req.Header.Set("Mcp-Name", headerValue(q.name))
		}
		for _, h := range q.headers {
			req.Header.Set(h[0], headerValue(h[1]))
		}
	}
	if q != nil && q.method == "subscriptions/listen" {
		limit = outbound.Limits{Body: 1 << 40, Idle: streamIdle}
	}
	return l.do(req, limit)
}

func (l *httpLink) do(req *http.Request, limit outbound.Limits) (*http.Response, error) {
	res, err := l.client.Do(req, limit)
	if err != nil {
		if req.Context().Err() != nil {
			return nil, req.Context().Err()
		}
		return nil, &unreachable{err}
	}
	return res, nil
}

// request is a request with all headers that every one has.
func (l *httpLink) request(ctx context.Context, method string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, l.url, body)
	if err != nil {
		return nil, errors.New("its url cannot be read")
	}
	req.Header = l.header.Clone()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != "" {
		req.Header.Set("Mcp-Session-Id", l.session)
	}
	if l.version != "" {
		req.Header.Set("Mcp-Protocol-Version", l.version)
	}
	return req, nil
}

// agree notes the version of the protocol that was agreed on.
func (l *httpLink) agree(version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version = version
}

func (l *httpLink) modern() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version >= modernVersion
}

// keepSession notes the session that the server opened.
func (l *httpLink) keepSession(res *http.Response) {
	id := res.Header.Get("Mcp-Session-Id")
	if len(id) > maxSessionID {
		id = ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = id
}

// read takes in the answer to a query: a message, or a stream of them.
func (l *httpLink) read(ctx context.Context, res *http.Response, q *query) (message, error) {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case kind == "text/event-stream" && res.StatusCode == http.StatusOK:
		return l.readStream(ctx, res, q)
	case kind == "application/json":
		return l.readOne(res, q)
	}
	return message{}, refused(res)
}

// refused is an answer that is no MCP message.
func refused(res *http.Response) error {
	head, _ := io.ReadAll(io.LimitReader(res.Body, maxKept))
	return &statusError{status: res.StatusCode, retryAfter: retryAfter(res), text: strings.TrimSpace(strings.ToValidUTF8(string(head), "\ufffd"))}
}

// retryAfter is when the server wants to be asked again, an hour at most.
func retryAfter(res *http.Response) time.Duration {
	seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, 3600)) * time.Second
}

func (l *httpLink) readOne(res *http.Response, q *query) (message, error) {
	data, err := readBody(res)
	if err != nil {
		return message{}, err
	}
	m, err := parse(data)
	mine := m.method == "" && (number(m.id) == q.id || m.id == nil && m.err != nil)
	switch {
	case res.StatusCode != http.StatusOK && (err != nil || m.err == nil):
		res.Body = io.NopCloser(bytes.NewReader(data))
		return message{}, refused(res)
	case slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}, res.StatusCode) || res.StatusCode >= 500:
		return message{}, &statusError{status: res.StatusCode, retryAfter: retryAfter(res), text: m.err.Message}
	case err != nil:
		return message{}, err
	case !mine:
		return message{}, errors.New("it answered another request than it was sent")
	}
	if m.err != nil {
		m.err.status = res.StatusCode
	}
	return m, nil
}

// readBody reads a whole answer.
func readBody(res *http.Response) ([]byte, error) {
	if res.ContentLength > maxMessage {
		return nil, &sizeError{res.ContentLength}
	}
	b := make([]byte, 0, int(min(max(res.ContentLength, 512), 64<<10))+1) // what is claimed may never come
	for {
		n, err := res.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > maxMessage:
			return nil, &sizeError{int64(len(b))}
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return nil, broken(err)
		}
		if len(b) == cap(b) {
			b = slices.Grow(b, max(int(res.ContentLength)-len(b)+1, len(b)/4))
		}
	}
}

// broken is an answer that ended before its end.
func broken(err error) error {
	if large, ok := errors.AsType[*outbound.TooLargeError](err); ok {
		return &sizeError{large.Max}
	}
	if errors.Is(err, framing.ErrLongEvent) {
		return &sizeError{maxMessage + 1}
	}
	if errors.Is(err, framing.ErrManyEvents) {
		return errChatter
	}
	return &unreachable{fmt.Errorf("its answer broke off: %w", err)}
}

// readStream reads messages up to the answer. A server of the legacy era may end the stream
// before and have it taken up again later.
func (l *httpLink) readStream(ctx context.Context, res *http.Response, q *query) (message, error) {
	count := maxEvents
	if q.method == "subscriptions/listen" {
		count = 0 // a stream that lasts
	}
	events, body := framing.NewEventReader(res.Body, maxMessage, count), res.Body
	defer func() { _ = body.Close() }()
	for turn := 0; ; {
		e, err := events.Next()
		if errors.Is(err, io.EOF) && e.ID != "" && !l.modern() && turn < maxTurns {
			turn++
			_ = body.Close()
			res, err := l.resume(ctx, e) //nolint:bodyclose // its body is closed above, as that of the first
			if err != nil {
				return message{}, err
			}
			body = res.Body
			events = framing.NewEventReader(body, maxMessage, count)
			continue
		}
		if errors.Is(err, io.EOF) {
			return message{}, &unreachable{errors.New("its answer ended before the result")}
		}
		if err != nil {
			return message{}, broken(err)
		}
		if len(bytes.TrimSpace(e.Data)) == 0 {
			continue // an event that only says where a stream goes on
		}
		m, err := parse(own(e.Data))
		switch {
		case err != nil:
			return message{}, err
		case m.method == "" && number(m.id) == q.id:
			return m, nil
		case m.method == "":
			return message{}, errors.New("it answered another request than it was sent")
		case q.heard != nil:
			q.heard(m)
		default:
			l.heard(m)
		}
	}
}

// Bounds on streams that are taken up again.
const (
	maxTurns = 100
	maxRetry = 10 * time.Second
)

// resume asks for what comes after the last event of a stream, when the server wants to be
// asked.
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

// stream sends a request for a stream of events.
func (l *httpLink) stream(req *http.Request, limit outbound.Limits) (*http.Response, error) {
	res, err := l.do(req, limit)
	if err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); res.StatusCode != http.StatusOK || kind != "text/event-stream" {
		defer func() { _ = res.Body.Close() }()
		return nil, refused(res)
	}
	return res, nil
}

// tell implements link.
func (l *httpLink) tell(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, sayTimeout)
	defer cancel()
	res, err := l.post(ctx, nil, body)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode/100 != 2 {
		return refused(res)
	}
	return nil
}

// listen implements link: the stream of a legacy session, if the server has one.
func (l *httpLink) listen(ctx context.Context) error {
	req, err := l.request(ctx, http.MethodGet, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := l.stream(req, outbound.Limits{Body: 1 << 40, Idle: streamIdle * 10})
	l.heardOf.Do(func() { close(l.hearing) })
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	events, said := framing.NewEventReader(res.Body, maxMessage, 0), newMeter()
	for {
		e, err := events.Next()
		if err != nil {
			return broken(err)
		}
		if m, err := parse(own(e.Data)); err == nil && m.method != "" {
			l.overhear(m)
		}
		if !said.one() {
			return errChatter
		}
	}
}

// overhear takes in what comes on the stream that belongs to no request. A question there
// is about the only call there is.
func (l *httpLink) overhear(m message) {
	if q := l.calls.only(); q != nil && m.id != nil {
		q.heard(m)
		return
	}
	l.heard(m)
}

// close implements link. The server is told, so that it need not keep the session.
func (l *httpLink) close() {
	l.end(errClosed)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := l.request(ctx, http.MethodDelete, http.NoBody)
	if err == nil && req.Header.Get("Mcp-Session-Id") != "" {
		if res, err := l.do(req, outbound.Limits{Body: 1 << 10}); err == nil {
			_ = res.Body.Close()
		}
	}
	l.client.Close()
}

// meter bounds how much a server may say unasked on a stream that lasts.
type meter struct {
	since time.Time
	n     int
}

func newMeter() *meter { return &meter{since: time.Now()} }

// one counts one message, and reports whether that is still within bounds.
func (m *meter) one() bool {
	if time.Since(m.since) > time.Minute {
		*m = meter{since: time.Now()}
	}
	m.n++
	return m.n <= maxChatter
}

func (l *httpLink) sessionID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}
