package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// answerTime limits the wait for the answers in one round. The call's deadline is suspended during
// the wait.
const answerTime = 10 * time.Minute

// ask sends the requests in an unfinished result to a legacy client, one after the other, and
// returns the answers by key.
func (x *requestContext) ask(ctx context.Context, input *inputRequired) (json.RawMessage, error) {
	release, err := x.reserveWait()
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for _, end := range []context.Context{x.gate.server.done, x.gate.closed, x.gone} {
		defer context.AfterFunc(end, cancel)()
	}
	answers := []byte{'{'}
	for _, r := range input.requests {
		answer, err := x.askOne(ctx, &r)
		if err != nil {
			return nil, unanswered(ctx, &r, err)
		}
		answers = append(append(jsonobject.AppendString(answers, r.key), ':'), answer...)
		answers = append(answers, ',')
		if len(answers) > maxAnswers {
			return nil, toolyard.Errorf(toolyard.Failed, "The client's answers are larger than %d KiB.", maxAnswers>>10)
		}
	}
	return closeObject(answers), nil
}

// reserveWait charges the quotas for calls that wait for their client. Stdio has no quota because
// it has a single client.
func (x *requestContext) reserveWait() (release func(), err error) {
	if x.origin == "" {
		return func() {}, nil
	}
	slot, err := x.gate.server.legacy.waiting.acquire(x.origin, 1)
	if err != nil {
		return nil, err
	}
	memory, err := x.gate.server.legacy.waitingBytes.acquire(x.origin, len(x.message.params)+1)
	if err != nil {
		slot()
		return nil, err
	}
	return func() { slot(); memory() }, nil
}

func unanswered(ctx context.Context, r *inputRequest, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return toolyard.Errorf(toolyard.Timeout, "The client did not answer %s within %v.", r.method, answerTime)
	case ctx.Err() != nil:
		return toolyard.Errorf(toolyard.Canceled, "The call ended before the client answered %s.", r.method)
	}
	return toolyard.Errorf(toolyard.Failed, "The client did not answer %s: %.200w", r.method, err)
}

// askOne sends one request to the client and returns its answer.
func (x *requestContext) askOne(ctx context.Context, r *inputRequest) (json.RawMessage, error) {
	s := x.gate.server
	id, answered := s.legacy.questions.open(x.peer, s.questionID(x.peer))
	defer s.legacy.questions.close(id)
	if x.silent != nil && x.silent.Err() != nil {
		return nil, errSilent
	}
	sent := x.send(append(append([]byte(`{"jsonrpc":"2.0","id":`+id+`,"method":"`+r.method+`","params":`), r.legacyParams()...), '}'))
	if !sent {
		return nil, errors.New("the client is unreachable; it must accept text/event-stream to receive questions")
	}
	select {
	case a := <-answered:
		return a.object()
	case <-ctx.Done():
		x.send([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`))
		return nil, ctx.Err()
	}
}

var errSilent = errors.New("the client stopped sending messages")

// legacyParams returns the params for a legacy client. The legacy era requires an ID for URLs.
func (r *inputRequest) legacyParams() json.RawMessage {
	if string(strictjson.Member(r.params, "mode")) != `"url"` || strictjson.Member(r.params, "elicitationId") != nil {
		return r.params
	}
	return apply(r.params, []edit{{1, 0, `"elicitationId":"` + rand.Text() + `",`}})
}

// clientReply is a client's reply: a result or an error.
type clientReply struct{ result, fault json.RawMessage }

func (a clientReply) object() (json.RawMessage, error) {
	if a.fault != nil {
		message, _ := strictjson.String(strictjson.Member(a.fault, "message"))
		return nil, errors.New(message)
	}
	if len(a.result) == 0 || a.result[0] != '{' {
		return nil, errors.New("the answer is not an object")
	}
	return a.result, nil
}

// questions holds the pending questions to clients.
type questions struct {
	mu   sync.Mutex
	last uint64
	all  map[string]pendingQuestion // by ID, encoded as JSON
}

type pendingQuestion struct {
	peer  string // MCP session or connection
	reply chan clientReply
}

// open registers a question to a peer. makeID derives the question's ID from a serial number.
func (q *questions) open(peer string, makeID func(number uint64) string) (id string, reply <-chan clientReply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	id = makeID(q.last)
	if q.all == nil {
		q.all = make(map[string]pendingQuestion)
	}
	pending := pendingQuestion{peer, make(chan clientReply, 1)}
	q.all[id] = pending
	return id, pending.reply
}

func (q *questions) close(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.all, id)
}

// answer delivers an answer to the waiting call. Later answers to the same question are ignored.
func (q *questions) answer(peer, id string, r clientReply) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	pending, ok := q.all[id]
	if !ok || pending.peer != peer {
		return false
	}
	delete(q.all, id)
	pending.reply <- r
	return true
}

// fail answers all questions to a peer with an error.
func (q *questions) fail(peer string, fault json.RawMessage) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, pending := range q.all {
		if pending.peer == peer {
			delete(q.all, id)
			pending.reply <- clientReply{fault: fault}
		}
	}
}

// questionID returns a function that creates question IDs. If there are other replicas, an ID
// contains this replica, sealed for the session, because the answer may arrive at any replica.
func (s *Server) questionID(peer string) func(uint64) string {
	return func(number uint64) string {
		if s.opts.Replicas.Bus == nil {
			return strconv.FormatUint(number, 10)
		}
		sealed := s.legacy.questionSealer.Seal(s.opts.Replicas.ID+" "+strconv.FormatUint(number, 10), []byte(peer), s.opts.Now().Add(answerTime+time.Second))
		return `"` + sealed + `"`
	}
}

// receiveAnswer delivers an answer to a question, which another replica may have asked.
func (x *requestContext) receiveAnswer(ctx context.Context) error {
	s := x.gate.server
	if len(x.message.result)+len(x.message.fault) > maxAnswers {
		x.message.result, x.message.fault = nil, json.RawMessage(fmt.Sprintf(`{"message":"the answer is larger than %d KiB"}`, maxAnswers>>10))
	}
	if s.legacy.questions.answer(x.peer, string(x.message.id), clientReply{x.message.result, x.message.fault}) || s.opts.Replicas.Bus == nil {
		return nil
	}
	sealed, _ := strictjson.String(x.message.id)
	replica, _, ok := s.legacy.questionSealer.Open(sealed, []byte(x.peer), s.opts.Now())
	if !ok {
		return nil // unknown or expired question
	}
	return x.notifyReplicas(ctx, &replicaMessage{Kind: answerQuestion, To: replicaOf(replica), ID: x.message.id, Result: x.message.result, Fault: x.message.fault})
}
