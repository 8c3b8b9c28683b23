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

// patience is how long the questions of one round may wait for their answers. People
// think, and the deadline of the call does not run meanwhile.
const patience = 10 * time.Minute

// ask puts the questions of an unfinished result to a client of the legacy era, one after
// the other, and returns the answers by their keys.
func (x *exchange) ask(ctx context.Context, asked *inquiry) (json.RawMessage, error) {
	release, err := x.hold()
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, end := range []context.Context{x.gate.server.done, x.gate.closed, x.left} {
		defer context.AfterFunc(end, cancel)()
	}
	answers := []byte{'{'}
	for _, q := range asked.questions {
		answer, err := x.put(ctx, &q)
		if err != nil {
			return nil, unanswered(ctx, &q, err)
		}
		answers = append(append(jsonobject.AppendString(answers, q.key), ':'), answer...)
		answers = append(answers, ',')
		if len(answers) > maxAnswers {
			return nil, toolyard.Errorf(toolyard.Failed, "The client's answers have more than %d KiB.", maxAnswers>>10)
		}
	}
	return closeObject(answers), nil
}

// hold takes a place for a call that waits for its client. On stdio there is only one.
func (x *exchange) hold() (release func(), err error) {
	if x.origin == "" {
		return func() {}, nil
	}
	place, err := x.gate.server.asking.take(x.origin, 1)
	if err != nil {
		return nil, err
	}
	memory, err := x.gate.server.askingBytes.take(x.origin, len(x.env.params)+1)
	if err != nil {
		place()
		return nil, err
	}
	return func() { place(); memory() }, nil
}

func unanswered(ctx context.Context, q *question, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return toolyard.Errorf(toolyard.Timeout, "The client did not answer %s within %v.", q.method, patience)
	case ctx.Err() != nil:
		return toolyard.Errorf(toolyard.Canceled, "The call ended before the client answered %s.", q.method)
	}
	return toolyard.Errorf(toolyard.Failed, "The client did not answer %s: %.200w", q.method, err)
}

// put sends one question to the client and returns the bytes of its answer.
func (x *exchange) put(ctx context.Context, q *question) (json.RawMessage, error) {
	s := x.gate.server
	id, answered := s.questions.open(x.peer, s.questionID(x.peer))
	defer s.questions.close(id)
	if x.silent != nil && x.silent.Err() != nil {
		return nil, errSilent
	}
	sent := x.send(append(append([]byte(`{"jsonrpc":"2.0","id":`+id+`,"method":"`+q.method+`","params":`), q.legacyParams()...), '}'))
	if !sent {
		return nil, errors.New("it cannot be reached; a client that can be asked accepts text/event-stream")
	}
	select {
	case a := <-answered:
		return a.object()
	case <-ctx.Done():
		x.send([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`))
		return nil, ctx.Err()
	}
}

var errSilent = errors.New("the client has stopped sending")

// legacyParams are the params as the legacy era has them: there, who sends a person to a
// page gives that an id.
func (q *question) legacyParams() json.RawMessage {
	if string(strictjson.Member(q.params, "mode")) != `"url"` || strictjson.Member(q.params, "elicitationId") != nil {
		return q.params
	}
	return apply(q.params, []edit{{1, 0, `"elicitationId":"` + rand.Text() + `",`}})
}

// clientReply is what a client answers to a question: a result, or an error.
type clientReply struct{ result, fault json.RawMessage }

func (r clientReply) object() (json.RawMessage, error) {
	if r.fault != nil {
		message, _ := strictjson.String(strictjson.Member(r.fault, "message"))
		return nil, errors.New(message)
	}
	if len(r.result) == 0 || r.result[0] != '{' {
		return nil, errors.New("the answer is not an object")
	}
	return r.result, nil
}

// questions are the questions of this server that clients have not answered yet.
type questions struct {
	mu   sync.Mutex
	last uint64
	all  map[string]pendingQuestion // by their ids, as JSON
}

type pendingQuestion struct {
	peer  string // the session or connection that is asked
	reply chan clientReply
}

// open registers a question to a peer. The id is made from its number.
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

// answer hands a reply to whoever waits for it. The first one counts.
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

// refuse answers all questions to a peer with an error.
func (q *questions) refuse(peer string, fault json.RawMessage) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, pending := range q.all {
		if pending.peer == peer {
			delete(q.all, id)
			pending.reply <- clientReply{fault: fault}
		}
	}
}

// questionID makes the ids of questions. If there are other replicas, an id says, sealed for
// the session, which one asks: the answer may come to any.
func (s *Server) questionID(peer string) func(uint64) string {
	return func(number uint64) string {
		if s.opts.Fleet == nil {
			return strconv.FormatUint(number, 10)
		}
		sealed := s.askers().Seal(s.opts.Replica+" "+strconv.FormatUint(number, 10), []byte(peer), s.opts.Now().Add(patience+time.Second))
		return `"` + sealed + `"`
	}
}

// takeAnswer takes the client's answer to a question, which another replica may have asked.
func (x *exchange) takeAnswer(ctx context.Context) error {
	s := x.gate.server
	if len(x.env.result)+len(x.env.fault) > maxAnswers {
		x.env.result, x.env.fault = nil, json.RawMessage(fmt.Sprintf(`{"message":"the answer has more than %d KiB"}`, maxAnswers>>10))
	}
	if s.questions.answer(x.peer, string(x.env.id), clientReply{x.env.result, x.env.fault}) || s.opts.Fleet == nil {
		return nil
	}
	sealed, _ := strictjson.String(x.env.id)
	asker, _, ok := s.askers().Open(sealed, []byte(x.peer), s.opts.Now())
	if !ok {
		return nil // not a question of ours, or one that is over
	}
	return x.tellFleet(ctx, &fleetMessage{Kind: answerQuestion, To: askerOf(asker), ID: x.env.id, Result: x.env.result, Fault: x.env.fault})
}
