package mcpserve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/guard"
)

// patience is how long the questions of one round may wait for their answers. People
// think, and the deadline of the call does not run meanwhile.
const patience = 10 * time.Minute

// ask puts the questions of an unfinished result to the client of a session, one after the
// other, and returns the answers by their keys.
func (l *legacy) ask(ctx context.Context, session *mcp.ServerSession, asked *inquiry) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer context.AfterFunc(l.gate.server.done, cancel)()
	defer context.AfterFunc(l.gate.closed, cancel)()
	answers := []byte{'{'}
	for _, q := range asked.questions {
		answer, err := l.put(ctx, session, &q)
		if err != nil {
			return nil, unanswered(ctx, &q, err)
		}
		answers = append(append(toolyard.AppendJSONString(answers, q.key), ':'), answer...)
		answers = append(answers, ',')
		if len(answers) > maxAnswers {
			return nil, toolyard.Errorf(toolyard.Failed, "The client's answers have more than %d KiB.", maxAnswers>>10)
		}
	}
	return closeObject(answers), nil
}

func unanswered(ctx context.Context, q *question, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return toolyard.Errorf(toolyard.Timeout, "The client did not answer %s within %v.", q.method, patience)
	case ctx.Err() != nil:
		return toolyard.Errorf(toolyard.Canceled, "The call ended before the client answered %s.", q.method)
	}
	if refusal, ok := errors.AsType[*jsonrpc.Error](err); ok {
		err = errors.New(refusal.Message)
	}
	return toolyard.Errorf(toolyard.Failed, "The client did not answer %s: %.200w", q.method, err)
}

// asking is the context key of the question that takes the place of another.
type asking struct{}

// put sends one question to a client and returns the bytes of its answer. Of the requests
// that the SDK can send, that for roots is the plainest; substitute puts the question in its
// place, and mask has hidden the answer from the types of the SDK.
func (l *legacy) put(ctx context.Context, session *mcp.ServerSession, q *question) (json.RawMessage, error) {
	res, err := session.ListRoots(context.WithValue(ctx, asking{}, q), &mcp.ListRootsParams{}) //nolint:staticcheck // deprecated, not gone
	if err != nil {
		return nil, err
	}
	answer := l.gate.server.mask.carried(res.Meta)
	if len(answer) == 0 || answer[0] != '{' {
		return nil, errors.New("the answer is not an object")
	}
	return answer, nil
}

// substitute is a sending middleware that sends the question of the context, if there is
// one, with its own method and its own bytes.
func substitute(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		q, ok := ctx.Value(asking{}).(*question)
		if !ok {
			return next(ctx, method, req)
		}
		session, _ := req.GetSession().(*mcp.ServerSession)
		res, err := next(ctx, q.method, &mcp.ServerRequest[mcp.Params]{Session: session, Params: &rawParams{json: q.legacyParams()}})
		if err != nil {
			return nil, err
		}
		return &mcp.ListRootsResult{Meta: res.GetMeta()}, nil //nolint:staticcheck // deprecated, not gone
	}
}

// legacyParams are the params as the legacy era has them: there, who sends a person to a
// page gives that an id.
func (q *question) legacyParams() json.RawMessage {
	if string(guard.Member(q.params, "mode")) != `"url"` || guard.Member(q.params, "elicitationId") != nil {
		return q.params
	}
	return apply(q.params, []edit{{1, 0, `"elicitationId":"` + rand.Text() + `",`}})
}

// rawParams are params that the SDK writes as they are.
type rawParams struct {
	mcp.ListRootsParams
	json []byte
}

// MarshalJSON implements json.Marshaler.
func (p *rawParams) MarshalJSON() ([]byte, error) { return p.json, nil }
