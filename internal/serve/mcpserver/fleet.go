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

// Fleet connects the replicas of a yard, so that a client of the legacy era can send each of
// its messages to another one.
type Fleet interface {
	// Send sends a message to the replica that is named, or to all if none is, which hand it to
	// Server.Receive. A replica that does not listen misses it. Messages to all have less than
	// 1 KiB, the others less than 70 KiB.
	Send(ctx context.Context, to string, message []byte) error
	// EndSession makes a session known as ended to replicas that start later, until it expires.
	EndSession(ctx context.Context, id string, owner toolyard.Caller, expires time.Time) error
}

// The kinds of messages between replicas.
const (
	cancelRequest  = "cancel"
	answerQuestion = "answer"
	endSession     = "end"
	setLevel       = "level"
)

// fleetMessage is what one replica tells the others about a session.
type fleetMessage struct {
	Kind    string          `json:"kind"`
	From    string          `json:"from"`
	To      string          `json:"to,omitempty"` // the replica that it is for; empty for all
	Session string          `json:"session"`
	ID      json.RawMessage `json:"id,omitempty"` // of the request or the question
	Result  json.RawMessage `json:"result,omitempty"`
	Fault   json.RawMessage `json:"fault,omitempty"`
	Level   string          `json:"level,omitempty"`
}

// tellFleet sends a message about the session of an exchange to the other replicas. What
// happens on a connection does not concern them.
func (x *exchange) tellFleet(ctx context.Context, m *fleetMessage) error {
	if x.session == nil || !x.session.shared {
		return nil
	}
	return x.access.tellFleet(ctx, x.session, m)
}

// tellFleet sends a message about a session to the other replicas. How many messages one
// caller can cause in a second is bounded.
func (a *access) tellFleet(ctx context.Context, about *session, m *fleetMessage) error {
	s := a.gate.server
	if s.opts.Fleet == nil {
		return nil
	}
	if !s.pace.allow(a.origin, s.opts.Now()) {
		return &toolyard.Error{Code: toolyard.RateLimited, Message: "Too many cancellations, answers or ended sessions; slow down.", RetryAfter: time.Second}
	}
	m.From, m.Session = s.opts.Replica, about.id
	var message bytes.Buffer
	encoder := json.NewEncoder(&message)
	encoder.SetEscapeHTML(false) // answers and ids keep their bytes
	if err := encoder.Encode(m); err != nil {
		return err
	}
	return s.opts.Fleet.Send(ctx, m.To, message.Bytes())
}

// Receive takes a message of another replica.
func (s *Server) Receive(message []byte) {
	var m fleetMessage
	if json.Unmarshal(message, &m) != nil || m.From == s.opts.Replica || m.To != "" && m.To != s.opts.Replica {
		return
	}
	switch m.Kind {
	case cancelRequest:
		s.cancelRequest(m.Session, string(m.ID))
	case answerQuestion:
		s.questions.answer(m.Session, string(m.ID), clientReply{m.Result, m.Fault})
	case endSession:
		s.Forget(m.Session)
	case setLevel:
		if level, ok := levelOf(m.Level); ok {
			s.levels.set(m.Session, level, s.opts.Now())
		}
	}
}

// Forget makes this server treat sessions as ended.
func (s *Server) Forget(sessions ...string) {
	for _, id := range sessions {
		s.ended.set(id, struct{}{}, s.opts.Now())
	}
}

// askerOf is the replica that a question names.
func askerOf(asker string) string {
	replica, _, _ := strings.Cut(asker, " ")
	return replica
}

// How many messages to other replicas one caller, and all together, may cause in a second.
// Callers that are not known have a share of their own, so that they cannot use up the others'.
const (
	fleetPerCaller = 50
	fleetKnown     = 1000
	fleetUnknown   = 200
)

// pace counts the messages to other replicas in each second.
type pace struct {
	mu             sync.Mutex
	second         int64
	known, unknown int
	each           map[string]int
}

func (p *pace) allow(origin string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if second := now.Unix(); second != p.second || p.each == nil {
		p.second, p.known, p.unknown, p.each = second, 0, 0, make(map[string]int)
	}
	total, limit := &p.known, fleetKnown
	if strings.HasPrefix(origin, unknownOrigin) {
		total, limit = &p.unknown, fleetUnknown
	}
	if *total >= limit || p.each[origin] >= fleetPerCaller {
		return false
	}
	*total++
	p.each[origin]++
	return true
}
