package mcpserver

import (
	"context"
	"encoding/json"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// Reply is how far a call has come: to its end, or to what its tool asks before it goes on.
type Reply struct {
	Call   *toolyard.Call   // nil when nothing ran
	Result *toolyard.Result // nil for a call that failed, and for one that asks
	Asks   *Asks            // nil for a call that has ended
}

// Asks is what a tool wants to know from a person. It goes on when the same caller makes the
// same call again, with the answers and the state.
type Asks struct {
	Questions map[string]Question // by the keys of their answers
	State     string              // of the tool, sealed
}

// Question is a form to be filled in, or a page to be opened.
type Question struct {
	Message string
	Schema  json.RawMessage // of the form; nil for a page
	URL     string          // of the page; empty for a form
}

// Answerable are the features of callers who do not speak MCP, but have a person who can be
// asked.
var Answerable = json.RawMessage(`{"elicitation":{"form":{},"url":{}}}`)

// Do calls a tool at a gate for somebody who does not speak MCP, but may be asked, and may go
// on with a call that asked something before.
func (s *Server) Do(ctx context.Context, gate string, r *Request) (Reply, error) {
	g, ok := (*s.gates.Load())[gate]
	if !ok {
		return Reply{}, unknownGate(gate)
	}
	j := &job{Request: *r, gate: g, view: g.view.Load(), era: modernEra, method: "tools/call", name: r.Tool}
	if err := j.resolve(); err != nil {
		return Reply{}, err
	}
	fault, err := j.resume(ctx)
	if err != nil {
		return Reply{}, err
	}
	if fault != nil {
		return Reply{}, &toolyard.Error{
			Code: toolyard.Invalid, Message: "The call cannot go on: " + fault.Path + " " + fault.Message + ".", Issues: []toolyard.Issue{*fault},
		}
	}
	at, err := j.step(ctx)
	if err != nil || at.asked == nil {
		return Reply{Call: at.call, Result: at.res}, err
	}
	return Reply{Call: at.call, Asks: &Asks{Questions: at.asked.toPeople(), State: j.seal(at.asked)}}, nil
}

// toPeople are the questions without the words of MCP. All of them are for people.
func (q *inquiry) toPeople() map[string]Question {
	questions := make(map[string]Question, len(q.questions))
	for _, asked := range q.questions {
		message, _ := strictjson.String(strictjson.Member(asked.params, "message"))
		shown := Question{Message: message}
		if string(strictjson.Member(asked.params, "mode")) == `"url"` {
			shown.URL, _ = strictjson.String(strictjson.Member(asked.params, "url"))
		} else {
			shown.Schema = strictjson.Member(asked.params, "requestedSchema")
		}
		questions[asked.key] = shown
	}
	return questions
}
