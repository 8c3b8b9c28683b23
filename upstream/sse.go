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

// sseLink is a server that speaks HTTP+SSE, the transport of 2024-11-05: it says
// everything on one stream, and first where messages are to be sent.
type sseLink struct {
	*duplex
	http   *httpLink
	cancel context.CancelFunc
	start  func() // begins to listen
	done   sync.WaitGroup
}

// openSSE opens the stream and learns where to send to.
func openSSE(ctx context.Context, o *Options, heard func(message)) (*sseLink, error) {
	h, err := newHTTPLink(o, heard)
	if err != nil {
		return nil, err
	}
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel) // until it is open
	req, err := h.request(lasting, http.MethodGet, http.NoBody)
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := h.do(req, outbound.Limits{Body: 1 << 40}) //nolint:bodyclose // hear closes it
	if err != nil {
		cancel()
		return nil, err
	}
	l := &sseLink{duplex: newDuplex(heard), http: h, cancel: cancel}
	events := framing.NewEventReader(res.Body, maxMessage, 0)
	if res.StatusCode != http.StatusOK {
		err = refused(res)
	} else {
		err = l.begin(events)
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
	l.start = func() { l.done.Go(func() { l.hear(res.Body, events) }) }
	return l, nil
}

// begin reads the event that says where to send to, which must be the same server.
func (l *sseLink) begin(events *framing.EventReader) error {
	e, err := events.Next()
	if err != nil {
		return broken(err)
	}
	base, err := url.Parse(l.http.url)
	if err != nil || e.Name != "endpoint" {
		return errors.New("it does not say where to send messages to")
	}
	to, err := base.Parse(string(bytes.TrimSpace(e.Data)))
	if err != nil || to.Scheme != base.Scheme || to.Host != base.Host || to.User != nil {
		return errors.New("it wants messages to be sent to another server")
	}
	l.http.url = to.String()
	return nil
}

func (l *sseLink) hear(body io.Closer, events *framing.EventReader) {
	defer func() { _ = body.Close() }()
	for {
		e, err := events.Next()
		if err == nil && e.Name == "message" {
			err = l.receive(own(e.Data))
		}
		switch {
		case errors.Is(err, io.EOF):
			err = errors.New("it ended its stream")
		case err != nil && !errors.Is(err, errChatter):
			err = broken(err)
		}
		if err != nil {
			l.end(err)
			return
		}
	}
}

// post sends a message; its answer comes on the stream.
func (l *sseLink) post(ctx context.Context, body []byte) error {
	res, err := l.http.post(ctx, nil, body)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode/100 != 2 {
		return refused(res)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 4<<10)) // so that the connection can be used again
	return nil
}

// tell implements link.
func (l *sseLink) tell(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, sayTimeout)
	defer cancel()
	return l.post(ctx, body)
}

// close implements link.
func (l *sseLink) close() {
	l.end(errClosed)
	l.cancel()
	l.done.Wait()
	l.http.client.Close()
}
