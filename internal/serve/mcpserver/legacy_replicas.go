package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
)

// ReplicaBus connects a yard's replicas, so that a legacy client can send each message to a
// different replica.
type ReplicaBus interface {
	// Send sends a message to a replica, or to all replicas if to is empty. Receivers pass it to
	// Server.Receive. Delivery is not guaranteed. Messages to all replicas are smaller than 1 KiB,
	// other messages smaller than 70 KiB.
	Send(ctx context.Context, to string, message []byte) error
	// EndSession records the end of an MCP session for replicas that start later.
	EndSession(ctx context.Context, id string, owner toolyard.Caller, expires time.Time) error
}

// Kinds of messages between replicas.
const (
	cancelRequest  = "cancel"
	answerQuestion = "answer"
	endSession     = "end"
	setLevel       = "level"

	subscribeResource   = "subscribe"
	unsubscribeResource = "unsubscribe"
)

// replicaMessage is a message between replicas about an MCP session.
type replicaMessage struct {
	Kind    string          `json:"kind"`
	From    string          `json:"from"`
	To      string          `json:"to,omitempty"` // receiving replica; empty means all
	Session string          `json:"session"`
	ID      json.RawMessage `json:"id,omitempty"` // ID of the request or question
	Result  json.RawMessage `json:"result,omitempty"`
	Fault   json.RawMessage `json:"fault,omitempty"`
	Level   string          `json:"level,omitempty"`
	URI     string          `json:"uri,omitempty"`

	Subscriber string `json:"subscriber,omitempty"`
}

// notifyReplicas sends a message about the request's MCP session to the other replicas. Sessions on
// connections are not shared.
func (x *requestContext) notifyReplicas(ctx context.Context, m *replicaMessage) error {
	if x.session == nil || !x.session.shared {
		return nil
	}
	return x.access.notifyReplicas(ctx, x.session, m)
}

// notifyReplicas sends a message about an MCP session to the other replicas, within rate limits.
func (a *access) notifyReplicas(ctx context.Context, about *session, m *replicaMessage) error {
	s := a.gate.server
	if s.opts.Replicas.Bus == nil {
		return nil
	}
	if !s.legacy.busRate.allow(a.origin, s.opts.Now()) {
		return &toolyard.Error{Code: toolyard.RateLimited, Message: "Too many cancellations, answers and session terminations are pending. Try again later.", RetryAfter: time.Second}
	}
	m.From, m.Session = s.opts.Replicas.ID, about.id
	var message bytes.Buffer
	encoder := json.NewEncoder(&message)
	encoder.SetEscapeHTML(false) // preserves the bytes of answers and IDs
	if err := encoder.Encode(m); err != nil {
		return err
	}
	return s.opts.Replicas.Bus.Send(ctx, m.To, message.Bytes())
}

// Receive handles a message from another replica.
func (s *Server) Receive(message []byte) {
	var m replicaMessage
	if json.Unmarshal(message, &m) != nil || m.From == s.opts.Replicas.ID || m.To != "" && m.To != s.opts.Replicas.ID {
		return
	}
	switch m.Kind {
	case cancelRequest:
		s.cancelRequest(m.Session, string(m.ID))
	case answerQuestion:
		s.legacy.questions.answer(m.Session, string(m.ID), clientReply{m.Result, m.Fault})
	case endSession:
		s.Forget(m.Session)
	case setLevel:
		if level, ok := levelOf(m.Level); ok {
			s.legacy.logLevels.set(m.Session, level, s.opts.Now())
		}
	case subscribeResource:
		if err := s.legacy.subscriptions.add(m.Session, m.Subscriber, m.URI, s.opts.Now()); err != nil {
			s.opts.Log.Warn("could not accept a resource subscription from another replica", "error", err)
		}
	case unsubscribeResource:
		s.legacy.subscriptions.remove(m.Session, m.URI)
	}
}

// Forget marks MCP sessions as ended.
func (s *Server) Forget(sessions ...string) {
	for _, id := range sessions {
		s.legacy.ended.set(id, struct{}{}, s.opts.Now())
		s.legacy.subscriptions.forget(id)
	}
}

// replicaOf returns the replica in a decrypted question ID.
func replicaOf(opened string) string {
	replica, _, _ := strings.Cut(opened, " ")
	return replica
}

// Limits on messages to other replicas per second. Unauthenticated callers have a separate limit,
// so that they cannot use up everyone else's.
const (
	maxRatePerCaller     = 50
	maxRateAuthenticated = 1000
	maxRateAnonymous     = 200
)

// messageRate counts messages per second.
type messageRate struct {
	mu                       sync.Mutex
	second                   int64
	authenticated, anonymous int
	byOrigin                 map[string]int
}

func (p *messageRate) allow(origin string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if second := now.Unix(); second != p.second || p.byOrigin == nil {
		p.second, p.authenticated, p.anonymous, p.byOrigin = second, 0, 0, make(map[string]int)
	}
	total, limit := &p.authenticated, maxRateAuthenticated
	if strings.HasPrefix(origin, anonymousOrigin) {
		total, limit = &p.anonymous, maxRateAnonymous
	}
	if *total >= limit || p.byOrigin[origin] >= maxRatePerCaller {
		return false
	}
	*total++
	p.byOrigin[origin]++
	return true
}
