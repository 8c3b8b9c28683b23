package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/toolyard/toolyard/internal/trust/framing"
	"github.com/toolyard/toolyard/internal/trust/outbound"
)

// sseLink is a link over HTTP+SSE, the transport of version 2024-11-05. The server sends everything
// on one stream, starting with the URL for the client's messages.
type sseLink struct {
	*duplex
	http    *httpLink
	cancel  context.CancelFunc
	start   func() // starts reading
	reading sync.WaitGroup
}

func (l *sseLink) updateCredentials(o *Options) (restart bool) { return l.http.updateCredentials(o) }

// openSSE opens the stream and reads the URL for messages.
func openSSE(ctx context.Context, o *Options, onMessage func(message)) (*sseLink, error) {
	h, err := newHTTPLink(o, onMessage)
	if err != nil {
		return nil, err
	}
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel) // ctx applies only until the stream is open
	req, err := h.request(lasting, http.MethodGet, http.NoBody)
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := h.do(req, nil, outbound.Limits{Body: 1 << 40}) //nolint:bodyclose // readLoop closes it
	if err != nil {
		cancel()
		return nil, err
	}
	l := &sseLink{duplex: newDuplex(onMessage), http: h, cancel: cancel}
	events := framing.NewEventReader(res.Body, maxMessage, 0)
	if res.StatusCode != http.StatusOK {
		err = statusErrorOf(res)
	} else {
		err = l.readEndpoint(events)
	}
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		_ = res.Body.Close()
		return nil, err
	}
	l.send = l.post
	l.start = func() { l.reading.Go(func() { l.readLoop(res.Body, events) }) }
	return l, nil
}

// readEndpoint reads the URL for messages, which must be on the same server.
func (l *sseLink) readEndpoint(events *framing.EventReader) error {
	e, err := events.Next()
	if err != nil {
		return bodyError(err)
	}
	base, err := url.Parse(l.http.url)
	if err != nil || e.Name != "endpoint" {
		return errors.New("the server does not declare a message endpoint")
	}
	to, err := base.Parse(string(bytes.TrimSpace(e.Data)))
	if err != nil || to.Scheme != base.Scheme || to.Host != base.Host || to.User != nil {
		return errors.New("the message endpoint is on another server")
	}
	l.http.url = to.String()
	return nil
}

func (l *sseLink) readLoop(body io.Closer, events *framing.EventReader) {
	defer func() { _ = body.Close() }()
	for {
		e, err := events.Next()
		if err == nil && e.Name == "message" {
			err = l.receive(cloneMessage(e.Data))
		}
		switch {
		case errors.Is(err, io.EOF):
			err = errors.New("the server closed its stream")
		case err != nil && !errors.Is(err, errUnsolicited):
			err = bodyError(err)
		}
		if err != nil {
			l.fail(err)
			return
		}
	}
}

// post sends a message. Its response arrives on the stream.
func (l *sseLink) post(ctx context.Context, body []byte) error {
	res, err := l.http.post(ctx, nil, body)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode/100 != 2 {
		return statusErrorOf(res)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 4<<10)) // allows the connection to be reused
	return nil
}

// notify implements link.
func (l *sseLink) notify(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	return l.post(ctx, body)
}

// close implements link.
func (l *sseLink) close() {
	l.fail(errClosed)
	l.cancel()
	l.reading.Wait()
	l.http.client.Close()
}
