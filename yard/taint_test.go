package yard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent/model"
	"github.com/toolyard/toolyard/internal/trust/taint"
	"github.com/toolyard/toolyard/yard"
)

// caller is a model that calls the tools listed in the question, one per turn.
type caller struct{}

func (caller) Turn(_ context.Context, r *model.Request, _ func(model.Event)) (*model.Turn, error) {
	names := strings.Fields(r.Messages[0].Text)
	done := (len(r.Messages) - 1) / 2
	if done >= len(names) || r.NoTools {
		return &model.Turn{Text: "done [e1]", Stop: model.StopEnd}, nil
	}
	return &model.Turn{Calls: []model.FunctionCall{{ID: fmt.Sprint(done), Name: names[done], Arguments: json.RawMessage(`{}`)}}, Stop: model.StopCalls}, nil
}

const taintConfig = `
approvals: {hold: 0s}
agents:
  clerk: {model: own, gate: work, instructions: You work.}
  chief: {model: own, gate: lead, instructions: You read.}
toolsets:
  work: {tools: [inbox, web, send]}
  inbox: {tools: [inbox]}
gates:
  work: {mode: write, surface: answer, toolset: work, callers: keys%s}
  lead: {mode: write, surface: answer, toolset: inbox, callers: keys}
  ask: {mode: write, callers: keys, agents: [clerk, chief]}
`

// newTaintAPI starts a yard whose tools have labels. sent counts how often data was sent out.
func newTaintAPI(t *testing.T, accept string) (s *testAPI, sent *atomic.Int64) {
	t.Helper()
	sent = &atomic.Int64{}
	labelled := func(name string, effects toolyard.Effects, label string) *toolyard.Tool {
		return toolyard.Define(toolyard.Spec{Name: name, Effects: effects, Terms: toolyard.Terms{Labels: []string{label}}}, func(context.Context, *toolyard.Call, struct{}) (string, error) {
			if name == "send" {
				sent.Add(1)
			}
			return "done", nil
		})
	}
	tools := []*toolyard.Tool{labelled("inbox", toolyard.ReadOnly, taint.Private), labelled("web", toolyard.ReadOnly, taint.Untrusted), labelled("send", "", taint.Egress)}
	s = newTestAPI(t, fmt.Sprintf(taintConfig, accept), yard.Options{Tools: tools, Models: map[string]model.Model{"own": caller{}}})
	return s, sent
}

// Attack 31: after private data and untrusted text have entered a query, in either order, a call
// that sends data out needs an operator's approval. Other queries are not affected.
func TestAttack31TaintWithinAQuery(t *testing.T) {
	s, sent := newTaintAPI(t, "")
	for question, want := range map[string]struct {
		sent int64
		code string
	}{
		"inbox web send": {0, "APPROVAL_REQUIRED"}, "web inbox send": {0, "APPROVAL_REQUIRED"},
		"inbox send": {1, ""}, "web send": {1, ""}, "send inbox web": {1, ""},
	} {
		sent.Store(0)
		status, got := s.do(t, "operator", "POST", "/api/v1/query", fmt.Sprintf(`{"query":%q,"agent":"clerk"}`, question))
		list, _ := got["evidence"].([]any)
		code := ""
		for _, e := range list {
			if one := e.(map[string]any); one["tool"] == "send" && one["ok"] == false {
				code, _ = one["error"].(string)
			}
		}
		if status != 200 || sent.Load() != want.sent || code != want.code {
			t.Errorf("%s: status %d, sent %d times, %q; want %+v", question, status, sent.Load(), code, want)
		}
	}
}

// Queries made by the same code run, or by the same parent query, share their taint.
func TestTaintCoversNestedQueries(t *testing.T) {
	s, sent := newTaintAPI(t, "")
	ctx := taint.With(t.Context(), &taint.Tracker{})
	for _, step := range []struct{ agent, question string }{{"chief", "inbox"}, {"clerk", "web send"}} {
		args := json.RawMessage(fmt.Sprintf(`{"query":%q}`, step.question))
		if _, err := s.yard.Call(ctx, "ask", toolyard.Caller{ID: "ann", Account: "acme"}, "ask_"+step.agent, args); err != nil {
			t.Fatal(step, err)
		}
	}
	if sent.Load() != 0 {
		t.Error("private data of one query and untrusted text of another did not require approval")
	}
}

// An agent inherits the labels of the agents that its queries can reach: here, chief reads private data
// itself, and its delegates read untrusted text and send data out. The problem names the path.
func TestRuleOfTwoCoversDelegates(t *testing.T) {
	problems := func(change ...string) string {
		config := strings.NewReplacer(change...).Replace(`
agents:
  chief: {model: own, gate: lead, instructions: x, delegates: [clerk]}
  clerk: {model: own, gate: web, instructions: x, delegates: [mailer]}
  mailer: {model: own, gate: mail, instructions: x}
toolsets: {inbox: {tools: [inbox]}, web: {tools: [web]}, mail: {tools: [send]}}
gates:
  lead: {mode: write, toolset: inbox}
  web: {mode: write, toolset: web}
  mail: {mode: write, toolset: mail}
`)
		tools := []*toolyard.Tool{labelledTool("inbox", toolyard.ReadOnly, taint.Private), labelledTool("web", toolyard.ReadOnly, taint.Untrusted), labelledTool("send", "", taint.Egress)}
		y := start(t, yard.Options{ConfigFile: writeConfig(t, config), Tools: tools, Models: map[string]model.Model{"own": caller{}}})
		var texts []string
		for _, p := range y.Problems() {
			texts = append(texts, p.String(), p.Fix)
		}
		return strings.Join(texts, "\n")
	}
	const path = "private data (inbox) and untrusted text (web through chief → clerk), and send data out (send through chief → clerk → mailer)"
	if got := problems(); !strings.Contains(got, path) || !strings.Contains(got, "Remove one of the agents in chief → clerk → mailer") || !strings.Contains(got, "accept: trifecta on gate lead") || strings.Contains(got, "agents.clerk") {
		t.Error(got)
	}
	for name, change := range map[string][]string{
		"without the last step": {"delegates: [mailer]", "delegates: []"},
		"accepted":              {"toolset: inbox}", "toolset: inbox, accept: trifecta}"},
	} {
		if got := problems(change...); strings.Contains(got, "private data") {
			t.Errorf("%s: %s", name, got)
		}
	}
	// An agent that a gate offers counts as a delegate.
	if got := problems("delegates: [clerk]", "delegates: []", "toolset: inbox}", "toolset: inbox, agents: [clerk]}"); !strings.Contains(got, path) {
		t.Error(got)
	}
}

// A gate whose tools together have all three labels is a problem if an agent uses it, unless the
// risk is accepted.
func TestRuleOfTwoForAgents(t *testing.T) {
	problems := func(accept string) string {
		s, _ := newTaintAPI(t, accept)
		return fmt.Sprint(s.yard.Problems())
	}
	if got := problems(""); !strings.Contains(got, "agent clerk can read private data") || strings.Contains(got, "chief") {
		t.Error(got)
	}
	if got := problems(", accept: trifecta"); strings.Contains(got, "private data") {
		t.Error(got)
	}
}
