package yard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/yard"
)

const askingConfig = `
name: staff
record: {arguments: full}
terms: {confirm: {executeUsd: "0.5", rate: {perMinute: 100}}}
gates:
  sell: {mode: read, surface: execute, callers: keys}
`

// confirming is a tool that asks before it does something, and how often it ran.
func confirming() (*toolyard.Tool, *atomic.Int64) {
	var ran atomic.Int64
	return toolyard.Define(toolyard.Spec{Name: "confirm", Effects: toolyard.ReadOnly}, func(_ context.Context, c *toolyard.Call, _ struct{}) (*toolyard.Result, error) {
		ran.Add(1)
		if c.RequestState == "" {
			return toolyard.RawResult(json.RawMessage(`{"resultType":"input_required","requestState":"private","inputRequests":{"sure":{"method":"elicitation/create",` +
				`"params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{"yes":{"type":"boolean"}}}}}}}`))
		}
		return &toolyard.Result{Content: []toolyard.Content{toolyard.Text(c.RequestState + " " + string(c.InputResponses))}}, nil
	}), &ran
}

// at is a member of an answer: "session.status".
func at(answer map[string]any, path string) string {
	var value any = answer
	for name := range strings.SplitSeq(path, ".") {
		o, _ := value.(map[string]any)
		value = o[name]
	}
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// A call that asks costs nothing and leaves its idempotency key free for the call that
// answers, which is charged once.
func TestACallThatAsksIsNotCharged(t *testing.T) {
	tool, ran := confirming()
	s := newStaffWith(t, askingConfig, yard.Options{Tools: []*toolyard.Tool{tool}})
	_, session := s.ask(t, "caller", "POST", "/api/v1/sessions", `{"limitUsd":"1"}`)
	id := at(session, "id")
	call := func(more string) (int, map[string]any) {
		return s.ask(t, "caller", "POST", "/api/v1/tools/execute", fmt.Sprintf(`{"interactive":true,"tool":"confirm","session":%q,"idempotencyKey":"k"%s}`, id, more))
	}
	purse := func(spent, remaining string) {
		t.Helper()
		_, now := s.ask(t, "caller", "GET", "/api/v1/sessions/"+id, "")
		if at(now, "spentUsd") != spent || at(now, "remainingUsd") != remaining || at(now, "heldUsd") != "0" {
			t.Errorf("the session has %v", now)
		}
	}
	status, first := call("")
	state := at(first, "inputRequired.state")
	if status != 200 || at(first, "inputRequired.questions.sure.message") != "Sure?" || state == "" || at(first, "result") != "" || at(first, "receipt.priceUsd") != "0" {
		t.Fatalf("%d %v", status, first)
	}
	purse("0", "1")
	_, onRecord := s.ask(t, "caller", "GET", "/api/v1/calls/"+at(first, "receipt.call"), "")
	if at(onRecord, "id") == "" || strings.Contains(fmt.Sprint(onRecord), "private") {
		t.Errorf("the record tells the tool's state: %v", onRecord)
	}

	answer := fmt.Sprintf(`,"state":%q,"answers":{"sure":{"action":"accept","content":{"yes":true}}}`, state)
	status, second := call(answer)
	if status != 200 || !strings.Contains(at(second, "result.content"), `private {"sure":{"action":"accept","content":{"yes":true}}}`) || at(second, "receipt.priceUsd") != "0.5" {
		t.Fatalf("%d %v", status, second)
	}
	purse("0.5", "0.5")

	status, third := call("") // the key is taken now
	if status != 200 || at(third, "receipt.replayed") != "true" || at(third, "result.content") != at(second, "result.content") {
		t.Errorf("%d %v", status, third)
	}
	purse("0.5", "0.5")
	if ran.Load() != 2 {
		t.Errorf("the tool ran %d times", ran.Load())
	}
}

// Nobody goes on with a call of somebody else, or with one that has gone on.
func TestAStateOfAnotherCall(t *testing.T) {
	tool, ran := confirming()
	s := newStaffWith(t, askingConfig, yard.Options{Tools: []*toolyard.Tool{tool}})
	_, first := s.ask(t, "caller", "POST", "/api/v1/calls", `{"interactive":true,"tool":"confirm"}`)
	state := at(first, "inputRequired.state")
	body := fmt.Sprintf(`{"tool":"confirm","state":%q,"answers":{"sure":{"action":"decline"}}}`, state)
	for _, step := range []struct {
		role, body string
		status     int
	}{
		{"operator", body, 400},
		{"caller", strings.Replace(body, state, state+"A", 1), 400},
		{"caller", strings.Replace(body, state, "private", 1), 400},
		{"caller", body, 200},
		{"caller", body, 400},
	} {
		status, answer := s.ask(t, step.role, "POST", "/api/v1/calls", step.body)
		if status != step.status || status == 400 && (at(answer, "error") != string(toolyard.Invalid) || !strings.Contains(at(answer, "detail"), "state is not for this call")) {
			t.Errorf("%s: %d %v", step.role, status, answer)
		}
	}
	if ran.Load() != 2 {
		t.Errorf("the tool ran %d times", ran.Load())
	}
}

// A call that asks does not use up a call of its session: the one that answers does.
func TestACallThatAsksIsNotCounted(t *testing.T) {
	for _, key := range []string{"", `,"idempotencyKey":"k"`} {
		tool, _ := confirming()
		s := newStaffWith(t, askingConfig, yard.Options{Tools: []*toolyard.Tool{tool}})
		_, session := s.ask(t, "caller", "POST", "/api/v1/sessions", `{"limitUsd":"5","calls":1}`)
		call := func(more string) (int, map[string]any) {
			return s.ask(t, "caller", "POST", "/api/v1/tools/execute", fmt.Sprintf(`{"interactive":true,"tool":"confirm","session":%q%s%s}`, at(session, "id"), key, more))
		}
		_, first := call("")
		status, second := call(fmt.Sprintf(`,"state":%q,"answers":{"sure":{"action":"decline"}}`, at(first, "inputRequired.state")))
		if status != 200 || at(second, "receipt.priceUsd") != "0.5" {
			t.Errorf("%s: %d %v, after %v", key, status, second, first)
		}
		key = strings.Replace(key, "k\"", "other\"", 1)
		if status, third := call(""); status != 402 {
			t.Errorf("%s: %d %v", key, status, third)
		}
	}
}

// What one replica asked can be answered to another.
func TestAnotherReplicaTakesTheAnswer(t *testing.T) {
	tool, ran := confirming()
	config := "store: sqlite:" + filepath.Join(t.TempDir(), "shared.db") + "\ngates: {all: {mode: read, callers: keys}}\n"
	one := newStaffWith(t, config, yard.Options{Tools: []*toolyard.Tool{tool}})
	other := newStaffWith(t, config, yard.Options{Tools: []*toolyard.Tool{tool}})
	_, first := one.ask(t, "local", "POST", "/api/v1/calls", `{"interactive":true,"tool":"confirm"}`)
	status, second := other.ask(t, "local", "POST", "/api/v1/calls", fmt.Sprintf(`{"tool":"confirm","state":%q,"answers":{"sure":{"action":"cancel"}}}`, at(first, "inputRequired.state")))
	if status != 200 || at(second, "result.content") == "" || ran.Load() != 2 {
		t.Errorf("%d %v, after %v", status, second, first)
	}
}

// An answer that one replica has used is refused by all others, unless it is refused before
// the tool ran.
func TestAnAnswerIsUsedOnceByAllReplicas(t *testing.T) {
	tool, ran := confirming()
	config := "store: sqlite:" + filepath.Join(t.TempDir(), "shared.db") + "\nlimits: {wait: 100ms}\nterms: {confirm: {rate: {perMinute: 3}}}\ngates: {all: {mode: read, callers: keys}}\n"
	one := newStaffWith(t, config, yard.Options{Tools: []*toolyard.Tool{tool}})
	other := newStaffWith(t, config, yard.Options{Tools: []*toolyard.Tool{tool}})
	ask := func() string {
		_, first := one.ask(t, "local", "POST", "/api/v1/calls", `{"interactive":true,"tool":"confirm"}`)
		return at(first, "inputRequired.state")
	}
	answer := func(s *staff, state string, want int) {
		t.Helper()
		if status, answer := s.ask(t, "local", "POST", "/api/v1/calls", fmt.Sprintf(answered, state, "")); status != want {
			t.Errorf("%d %v", status, answer)
		}
	}
	used, refused := ask(), ask()
	answer(one, used, 200)
	answer(other, used, 400)
	answer(one, refused, 429) // the limit, so the answer can be sent again, to any replica
	answer(other, refused, 429)
	if ran.Load() != 3 {
		t.Errorf("the tool ran %d times", ran.Load())
	}
}

// Nobody is asked who does not say that they can answer.
func TestOnlyWhoCanAnswerIsAsked(t *testing.T) {
	tool, _ := confirming()
	s := newStaffWith(t, "gates: {all: {mode: read, callers: keys}}\n", yard.Options{Tools: []*toolyard.Tool{tool}})
	status, answer := s.ask(t, "caller", "POST", "/api/v1/calls", `{"tool":"confirm"}`)
	if status != 400 || at(answer, "error") != string(toolyard.MissingCapability) || at(answer, "requiredCapabilities.elicitation") == "" {
		t.Errorf("%d %v", status, answer)
	}
}

// answered is a call with an answer, and with more members of the body.
const answered = `{"tool":"confirm","state":%q,"answers":{"sure":{"action":"accept"}}%s}`

// Who sends an answer again with the same idempotency key gets the same result.
func TestAnAnswerIsSentAgain(t *testing.T) {
	tool, ran := confirming()
	s := newStaffWith(t, askingConfig, yard.Options{Tools: []*toolyard.Tool{tool}})
	_, session := s.ask(t, "caller", "POST", "/api/v1/sessions", `{"limitUsd":"5"}`)
	more := fmt.Sprintf(`,"session":%q,"idempotencyKey":"k"`, at(session, "id"))
	_, first := s.ask(t, "caller", "POST", "/api/v1/tools/execute", `{"interactive":true,"tool":"confirm"`+more+`}`)
	for i := range 3 {
		status, answer := s.ask(t, "caller", "POST", "/api/v1/tools/execute", fmt.Sprintf(answered, at(first, "inputRequired.state"), more))
		if status != 200 || (at(answer, "receipt.replayed") == "true") != (i > 0) || ran.Load() != 2 {
			t.Errorf("%d %v; the tool ran %d times", status, answer, ran.Load())
		}
	}
}

// An answer that was refused before the tool ran can be sent again.
func TestARefusedAnswerIsNotUsedUp(t *testing.T) {
	tool, _ := confirming()
	s := newStaffWith(t, "terms: {confirm: {rate: {perMinute: 1}}}\nlimits: {wait: 100ms}\ngates: {all: {mode: read, callers: keys}}\n", yard.Options{Tools: []*toolyard.Tool{tool}})
	_, first := s.ask(t, "caller", "POST", "/api/v1/calls", `{"interactive":true,"tool":"confirm"}`)
	for range 2 {
		if status, answer := s.ask(t, "caller", "POST", "/api/v1/calls", fmt.Sprintf(answered, at(first, "inputRequired.state"), "")); status != 429 {
			t.Errorf("%d %v", status, answer)
		}
	}
}

// Who is not authenticated cannot have results kept for idempotency keys.
func TestIdempotencyKeysNeedACaller(t *testing.T) {
	tool, ran := confirming()
	s := newStaffWith(t, "store: memory\ngates: {open: {mode: read}}\n", yard.Options{Tools: []*toolyard.Tool{tool}})
	status, answer := s.ask(t, "none", "POST", "/api/v1/calls", `{"tool":"greet","args":{"name":"Ann"},"idempotencyKey":"k"}`)
	if status != 401 || !strings.Contains(at(answer, "detail"), "idempotency key") || ran.Load() != 0 {
		t.Errorf("%d %v", status, answer)
	}
}
