package hass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/coder/websocket"
)

const (
	maxMessage = 32 << 20 // bytes in one message
	maxPending = 1000     // commands waiting for a response
	maxWrite   = 10 * time.Second
)

// session is one authenticated connection. Any goroutine can send commands; one goroutine reads and
// calls the handlers for the answers.
type session struct {
	conn   *websocket.Conn
	closed chan struct{} // closed when the connection is broken

	mu      sync.Mutex // IDs must increase in the order of sending
	lastID  int
	pending map[int]func(message) // handlers for answers, by command ID
	events  map[int]func(message) // handlers for events, by subscription ID
}

// dial connects and authenticates.
func (c *Client) dial(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, c.times.handshake)
	defer cancel()
	conn, response, err := websocket.Dial(ctx, c.base.JoinPath("api/websocket").String(), &websocket.DialOptions{HTTPClient: c.config.HTTP})
	if response != nil && response.Body != nil {
		_ = response.Body.Close()
	}
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(maxMessage)
	if err := c.authenticate(ctx, conn); err != nil {
		_ = conn.CloseNow()
		return nil, err
	}
	return &session{conn: conn, closed: make(chan struct{}), pending: make(map[int]func(message)), events: make(map[int]func(message))}, nil
}

func (c *Client) authenticate(ctx context.Context, conn *websocket.Conn) error {
	for _, step := range []struct{ expect, send string }{{"auth_required", "auth"}, {"auth_ok", ""}} {
		_, raw, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		m, err := parseMessage(raw)
		switch {
		case err != nil:
			return err
		case m.Type == "auth_invalid":
			return ErrToken
		case m.Type != step.expect:
			return fmt.Errorf("unexpected message %.40q instead of %s", m.Type, step.expect)
		case step.send == "":
			return nil
		}
		auth, err := json.Marshal(map[string]string{"type": step.send, "access_token": c.config.Token})
		if err != nil {
			return err
		}
		if err := conn.Write(ctx, websocket.MessageText, auth); err != nil {
			return err
		}
	}
	return nil
}

// send sends a command. The reading goroutine calls handle with the answer. Canceling the context
// does not interrupt a message, because that would break the shared connection.
func (s *session) send(ctx context.Context, kind string, members map[string]any, handle func(message)) (id int, err error) {
	command := maps.Clone(members)
	if command == nil {
		command = make(map[string]any, 2)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending) >= maxPending {
		return 0, fmt.Errorf("%w: %d commands have not been answered yet", ErrNotSent, maxPending)
	}
	s.lastID++
	command["id"], command["type"] = s.lastID, kind
	raw, err := json.Marshal(command)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxWrite)
	defer cancel()
	s.pending[s.lastID] = handle
	if err := s.conn.Write(ctx, websocket.MessageText, raw); err != nil {
		delete(s.pending, s.lastID)
		return 0, fmt.Errorf("%w: %w", ErrNoAnswer, err) // part of the message may have been sent
	}
	return s.lastID, nil
}

// subscribe sends a command whose answer is followed by events. Only the reading goroutine may
// call it.
func (s *session) subscribe(ctx context.Context, kind string, members map[string]any, answer, event func(message)) error {
	id, err := s.send(ctx, kind, members, answer)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events[id] = event
	return nil
}

// forget removes the handler for an answer that is no longer expected.
func (s *session) forget(id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, id)
}

// read reads one message and calls its handler. It ignores messages that have no handler.
func (s *session) read(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, raw, err := s.conn.Read(ctx)
	if err != nil {
		return err
	}
	m, err := parseMessage(raw)
	if err != nil {
		return err
	}
	s.mu.Lock()
	var handle func(message)
	if m.Type == "event" {
		handle = s.events[m.ID]
	} else {
		handle = s.pending[m.ID]
		delete(s.pending, m.ID)
	}
	s.mu.Unlock()
	if handle != nil {
		handle(m)
	}
	return nil
}

// keepAlive sends pings until the session ends.
func (s *session) keepAlive(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-ticker.C:
			if _, err := s.send(ctx, "ping", nil, nil); err != nil {
				_ = s.conn.CloseNow()
				return
			}
		}
	}
}

// Command sends a command and, unless result is nil, decodes the response into it. Errors are of
// type [*Error], or wrap [ErrNotSent], [ErrNoAnswer] or the error of ctx.
func (c *Client) Command(ctx context.Context, kind string, members map[string]any, result any) error {
	s := c.session.Load()
	if s == nil {
		return errors.Join(ErrNotSent, c.Err())
	}
	answer := make(chan message, 1)
	id, err := s.send(ctx, kind, members, func(m message) { answer <- m })
	if err != nil {
		return err
	}
	defer s.forget(id)
	select {
	case m := <-answer:
		switch {
		case !m.Success:
			return m.Error
		case result == nil:
			return nil
		}
		if err := json.Unmarshal(m.Result, result); err != nil {
			return fmt.Errorf("invalid answer to %s: %w", kind, err)
		}
		return nil
	case <-s.closed:
		return ErrNoAnswer
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNoAnswer, ctx.Err())
	}
}
