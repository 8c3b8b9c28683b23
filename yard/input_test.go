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

// confirming returns a tool that requests confirmation, and a counter of its runs.
func confirming() (*toolyard.Tool, *atomic.Int64) {
	var ran atomic.Int64
	return toolyard.Define(toolyard.Spec{Name: "confirm", Effects: toolyard.ReadOnly}, func(_ context.Context, c *toolyard.Call, _ struct{}) (*toolyard.Result, error) {
		ran.Add(1)
		if c.RequestState == "" {
			res := &toolyard.Result{}
			return res, json.Unmarshal([]byte(`{"resultType":"input_required","requestState":"private","inputRequests":{"sure":{"method":"elicitation/create",`+
				`"params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{"yes":{"type":"boolean"}}}}}}}`), res)
		}
		return &toolyard.Result{Content: []toolyard.Content{toolyard.Text(c.RequestState + " " + string(c.InputResponses))}}, nil
	}), &ran
}

// at returns a member of a response by its path, such as "session.status".
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

// A call that requests input is free and does not use its idempotency key; the call with the
// answer is charged once.
func TestInputRequestsAreNotCharged(t *testing.T) {
	tool, ran := confirming()
	s := newTestAPI(t, askingConfig, yard.Options{Tools: []*toolyard.Tool{tool}})
	_, session := s.do(t, "caller", "POST", "/api/v1/sessions", `{"limitUsd":"1"}`)
	id := at(session, "id")
	call := func(more string) (int, map[string]any) {
		return s.do(t, "caller", "POST", "/api/v1/tools/execute", fmt.Sprintf(`{"interactive":true,"tool":"confirm","session":%q,"idempotencyKey":"k"%s}`, id, more))
	}
	balance := func(spent, remaining string) {
		t.Helper()
		_, now := s.do(t, "caller", "GET", "/api/v1/sessions/"+id, "")
		if at(now, "spentUsd") != spent || at(now, "remainingUsd") != remaining || at(now, "heldUsd") != "0" {
			t.Errorf("the session has %v", now)
		}
	}
	status, first := call("")
	state := at(first, "inputRequired.state")
	if status != 200 || at(first, "inputRequired.questions.sure.message") != "Sure?" || state == "" || at(first, "result") != "" || at(first, "receipt.priceUsd") != "0" {
		t.Fatalf("%d %v", status, first)
	}
	balance("0", "1")
	_, onRecord := s.do(t, "caller", "GET", "/api/v1/calls/"+at(first, "receipt.call"), "")
	if at(onRecord, "id") == "" || strings.Contains(fmt.Sprint(onRecord), "private") {
		t.Errorf("the recorded call contains the state of the tool: %v", onRecord)
	}

	answer := fmt.Sprintf(`,"state":%q,"answers":{"sure":{"action":"accept","content":{"yes":true}}}`, state)
	status, second := call(answer)
	if status != 200 || !strings.Contains(at(second, "result.content"), `private {"sure":{"action":"accept","content":{"yes":true}}}`) || at(second, "receipt.priceUsd") != "0.5" {
		t.Fatalf("%d %v", status, second)
	}
	balance("0.5", "0.5")

	status, third := call("") // the key has been used now
	if status != 200 || at(third, "receipt.replayed") != "true" || at(third, "result.content") != at(second, "result.content") {
		t.Errorf("%d %v", status, third)
	}
	balance("0.5", "0.5")
	if ran.Load() != 2 {
		t.Errorf("the tool ran %d times", ran.Load())
	}
}

// A request state is valid only for its caller, and only once.
func TestRequestStateOfAnotherCallIsRefused(t *testing.T) {
	tool, ran := confirming()
	s := newTestAPI(t, askingConfig, yard.Options{Tools: []*toolyard.Tool{tool}})
	_, first := s.do(t, "caller", "POST", "/api/v1/calls", `{"interactive":true,"tool":"confirm"}`)
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
		status, answer := s.do(t, step.role, "POST", "/api/v1/calls", step.body)
		if status != step.status || status == 400 && (at(answer, "error") != string(toolyard.Invalid) || !strings.Contains(at(answer, "detail"), "state is not valid for this call")) {
			t.Errorf("%s: %d %v", step.role, status, answer)
		}
	}
	if ran.Load() != 2 {
		t.Errorf("the tool ran %d times", ran.Load())
	}
}

// A call that requests input does not count toward its session; the call with the answer does.
func TestInputRequestsAreNotCounted(t *testing.T) {
	for _, key := range []string{"", `,"idempotencyKey":"k"`} {
		tool, _ := confirming()
		s := newTestAPI(t, askingConfig, yard.Options{Tools: []*toolyard.Tool{tool}})
		_, session := s.do(t, "caller", "POST", "/api/v1/sessions", `{"limitUsd":"5","calls":1}`)
		call := func(more string) (int, map[string]any) {
			return s.do(t, "caller", "POST", "/api/v1/tools/execute", fmt.Sprintf(`{"interactive":true,"tool":"confirm","session":%q%s%s}`, at(session, "id"), key, more))
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

// Every replica accepts the answer to an input request.
func TestAnotherReplicaAcceptsTheAnswer(t *testing.T) {
	tool, ran := confirming()
	config := "store: sqlite:" + filepath.Join(t.TempDir(), "shared.db") + "\ngates: {all: {mode: read, callers: keys}}\n"
	one := newTestAPI(t, config, yard.Options{Tools: []*toolyard.Tool{tool}})
	other := newTestAPI(t, config, yard.Options{Tools: []*toolyard.Tool{tool}})
	_, first := one.do(t, "local", "POST", "/api/v1/calls", `{"interactive":true,"tool":"confirm"}`)
	status, second := other.do(t, "local", "POST", "/api/v1/calls", fmt.Sprintf(`{"tool":"confirm","state":%q,"answers":{"sure":{"action":"cancel"}}}`, at(first, "inputRequired.state")))
	if status != 200 || at(second, "result.content") == "" || ran.Load() != 2 {
		t.Errorf("%d %v, after %v", status, second, first)
	}
}

// Across all replicas, an answer is accepted once. It stays valid if it is refused before the tool
// runs.
func TestAnAnswerIsAcceptedOnceByAllReplicas(t *testing.T) {
	tool, ran := confirming()
	config := "store: sqlite:" + filepath.Join(t.TempDir(), "shared.db") + "\nlimits: {wait: 100ms}\nterms: {confirm: {rate: {perMinute: 3}}}\ngates: {all: {mode: read, callers: keys}}\n"
	one := newTestAPI(t, config, yard.Options{Tools: []*toolyard.Tool{tool}})
	other := newTestAPI(t, config, yard.Options{Tools: []*toolyard.Tool{tool}})
	ask := func() string {
		_, first := one.do(t, "local", "POST", "/api/v1/calls", `{"interactive":true,"tool":"confirm"}`)
		return at(first, "inputRequired.state")
	}
	answer := func(s *testAPI, state string, want int) {
		t.Helper()
		if status, answer := s.do(t, "local", "POST", "/api/v1/calls", fmt.Sprintf(answered, state, "")); status != want {
			t.Errorf("%d %v", status, answer)
		}
	}
	used, refused := ask(), ask()
	answer(one, used, 200)
	answer(other, used, 400)
	answer(one, refused, 429) // refused by the limit, so the answer can be sent again to any replica
	answer(other, refused, 429)
	if ran.Load() != 3 {
		t.Errorf("the tool ran %d times", ran.Load())
	}
}

// Only callers that declare that they can answer receive input requests.
func TestInputRequestsNeedAnInteractiveCaller(t *testing.T) {
	tool, _ := confirming()
	s := newTestAPI(t, "gates: {all: {mode: read, callers: keys}}\n", yard.Options{Tools: []*toolyard.Tool{tool}})
	status, answer := s.do(t, "caller", "POST", "/api/v1/calls", `{"tool":"confirm"}`)
	if status != 400 || at(answer, "error") != string(toolyard.MissingCapability) || at(answer, "requiredCapabilities.elicitation") == "" {
		t.Errorf("%d %v", status, answer)
	}
}

// answered is the body of a call with an answer and placeholders for more members.
const answered = `{"tool":"confirm","state":%q,"answers":{"sure":{"action":"accept"}}%s}`

// An answer that is resent with the same idempotency key gets the same result.
func TestAnAnswerCanBeResent(t *testing.T) {
	tool, ran := confirming()
	s := newTestAPI(t, askingConfig, yard.Options{Tools: []*toolyard.Tool{tool}})
	_, session := s.do(t, "caller", "POST", "/api/v1/sessions", `{"limitUsd":"5"}`)
	more := fmt.Sprintf(`,"session":%q,"idempotencyKey":"k"`, at(session, "id"))
	_, first := s.do(t, "caller", "POST", "/api/v1/tools/execute", `{"interactive":true,"tool":"confirm"`+more+`}`)
	for i := range 3 {
		status, answer := s.do(t, "caller", "POST", "/api/v1/tools/execute", fmt.Sprintf(answered, at(first, "inputRequired.state"), more))
		if status != 200 || (at(answer, "receipt.replayed") == "true") != (i > 0) || ran.Load() != 2 {
			t.Errorf("%d %v; the tool ran %d times", status, answer, ran.Load())
		}
	}
}

// An answer that was refused before the tool ran can be resent.
func TestARefusedAnswerStaysValid(t *testing.T) {
	tool, _ := confirming()
	s := newTestAPI(t, "terms: {confirm: {rate: {perMinute: 1}}}\nlimits: {wait: 100ms}\ngates: {all: {mode: read, callers: keys}}\n", yard.Options{Tools: []*toolyard.Tool{tool}})
	_, first := s.do(t, "caller", "POST", "/api/v1/calls", `{"interactive":true,"tool":"confirm"}`)
	for range 2 {
		if status, answer := s.do(t, "caller", "POST", "/api/v1/calls", fmt.Sprintf(answered, at(first, "inputRequired.state"), "")); status != 429 {
			t.Errorf("%d %v", status, answer)
		}
	}
}

// Idempotency keys require an authenticated caller.
func TestIdempotencyKeysRequireAuthentication(t *testing.T) {
	tool, ran := confirming()
	s := newTestAPI(t, "store: memory\ngates: {open: {mode: read}}\n", yard.Options{Tools: []*toolyard.Tool{tool}})
	status, answer := s.do(t, "none", "POST", "/api/v1/calls", `{"tool":"greet","args":{"name":"Ann"},"idempotencyKey":"k"}`)
	if status != 401 || !strings.Contains(at(answer, "detail"), "idempotency key") || ran.Load() != 0 {
		t.Errorf("%d %v", status, answer)
	}
}
