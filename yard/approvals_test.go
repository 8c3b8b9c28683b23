package yard_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/yard"
)

const operatorRules = `
approvals: {hold: %s}
rules:
  - {name: refunds, tools: [refund], then: ask, by: operator, within: 30m}
  - {name: no-fraud, tools: [refund], args: {properties: {amount: {exclusiveMinimum: 1000}}, required: [amount]}, then: deny}
gates: {all: {mode: write, callers: keys}}
`

// approvalTest is a yard whose refunds require an operator's approval.
type approvalTest struct {
	*testAPI
	*refunds
}

func newApprovalTest(t *testing.T, config string) *approvalTest {
	t.Helper()
	r := newRefunds()
	s := newTestAPI(t, config, yard.Options{Tools: []*toolyard.Tool{r.tool}})
	a := &approvalTest{s, r}
	a.addKey(t, "alice", "acme", identity.Write)
	a.addKey(t, "bob", "acme", identity.Write)
	a.addKey(t, "eve", "other", identity.Write, identity.Operator)
	a.addKey(t, "ann", "acme", identity.Approver)
	a.addKey(t, "zoe", "other", identity.Approver)
	return a
}

func (a *approvalTest) addKey(t *testing.T, caller, account string, scopes ...string) identity.Key {
	t.Helper()
	key, token, err := identity.New(caller, caller, account, scopes, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.store.PutKey(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	a.keys[caller] = token
	return key
}

const refundCall = `{"gate":"all","tool":"refund","args":{"order":"A","amount":50}}`

// call calls refund and returns the error code, or OK.
func (a *approvalTest) call(t *testing.T, caller, body string) (code string, answer map[string]any) {
	t.Helper()
	status, answer := a.do(t, caller, "POST", "/api/v1/calls", body)
	if status == 200 {
		return "OK", answer
	}
	return at(answer, "error"), answer
}

func (a *approvalTest) decide(t *testing.T, role, id, what, body string) int {
	t.Helper()
	status, _ := a.do(t, role, "POST", "/api/v1/approvals/"+id+"/"+what, body)
	return status
}

// request calls refund, expects it to require approval, and returns the approval's ID.
func (a *approvalTest) request(t *testing.T, caller, body string) string {
	t.Helper()
	code, answer := a.call(t, caller, body)
	if code != "APPROVAL_REQUIRED" || at(answer, "approval") == "" {
		t.Fatalf("%s %v", code, answer)
	}
	return at(answer, "approval")
}

func TestAnOperatorApprovesACallOnce(t *testing.T) {
	a := newApprovalTest(t, fmt.Sprintf(operatorRules, "0s"))
	code, first := a.call(t, "alice", refundCall)
	id := at(first, "approval")
	if code != "APPROVAL_REQUIRED" || at(first, "retryable") != "true" || at(first, "retryAfterMs") != "15000" || at(first, "expiresAt") == "" {
		t.Fatal(code, first)
	}
	if again := a.request(t, "alice", refundCall); again != id {
		t.Errorf("a repeated call requests another approval: %s", again)
	}
	_, page := a.do(t, "ann", "GET", "/api/v1/approvals?state=pending", "")
	if list, _ := page["approvals"].([]any); len(list) != 1 {
		t.Fatal(page)
	}
	_, shown := a.do(t, "operator", "GET", "/api/v1/approvals/"+id, "")
	for path, want := range map[string]string{"state": "pending", "tool": "refund", "caller": "alice", "account": "acme", "gate": "all", "rule": "refunds", "arguments": "map[amount:50 order:A]"} {
		if at(shown, path) != want {
			t.Errorf("%s is %q, want %q", path, at(shown, path), want)
		}
	}
	if status := a.decide(t, "ann", id, "approve", `{"reason":"fine"}`); status != 200 {
		t.Fatal(status)
	}
	if status := a.decide(t, "ann", id, "decline", `{}`); status != 409 {
		t.Errorf("decided twice: %d", status)
	}
	if code, answer := a.call(t, "alice", refundCall); code != "OK" || a.ran.Load() != 1 {
		t.Fatal(code, answer)
	}
	_, shown = a.do(t, "operator", "GET", "/api/v1/approvals/"+id, "")
	if at(shown, "state") != "used" || at(shown, "usedBy") == "" || at(shown, "decision.by") != "ann" || at(shown, "decision.reason") != "fine" {
		t.Error(shown)
	}
	if next := a.request(t, "alice", refundCall); next == id || a.ran.Load() != 1 {
		t.Error("the approval was used twice")
	}
	_, log := a.do(t, "operator", "GET", "/api/v1/changes?action=approval.approve", "")
	if !strings.Contains(fmt.Sprint(log), "caller:ann") || !strings.Contains(fmt.Sprint(log), id) {
		t.Errorf("the decision is not audited: %v", log)
	}
}

// A waiting call continues as soon as it is approved, and ends as soon as it is declined.
func TestACallWaitsForTheDecision(t *testing.T) {
	for what, want := range map[string]string{"approve": "OK", "decline": "AUTHORIZATION_ERROR"} {
		a := newApprovalTest(t, fmt.Sprintf(operatorRules, "60s"))
		done := make(chan string, 1)
		go func() {
			code, _ := a.call(t, "alice", refundCall)
			done <- code
		}()
		var id string
		within(t, 30*time.Second, "the request", func() bool {
			_, page := a.do(t, "ann", "GET", "/api/v1/approvals?state=pending", "")
			list, _ := page["approvals"].([]any)
			if len(list) == 1 {
				id = at(list[0].(map[string]any), "id")
			}
			return id != ""
		})
		if status := a.decide(t, "ann", id, what, `{"reason":"because"}`); status != 200 {
			t.Fatal(status)
		}
		if got := <-done; got != want {
			t.Errorf("%s: %s", what, got)
		}
	}
}

// An approval can be used only once, and only for exactly the approved call.
func TestAttack17ApprovalsAreBoundAndUsedOnce(t *testing.T) {
	approved := func(t *testing.T, config string) *approvalTest {
		t.Helper()
		a := newApprovalTest(t, config)
		if status := a.decide(t, "ann", a.request(t, "alice", refundCall), "approve", `{}`); status != 200 {
			t.Fatal(status)
		}
		return a
	}
	config := fmt.Sprintf(operatorRules, "0s")
	for name, tt := range map[string]struct{ caller, body, want string }{
		"the same call":      {"alice", refundCall, "OK"},
		"reordered keys":     {"alice", `{"gate":"all","tool":"refund","args":{"amount":5e1,"order":"A"}}`, "OK"},
		"changed arguments":  {"alice", strings.Replace(refundCall, `"A"`, `"B"`, 1), "APPROVAL_REQUIRED"},
		"another caller":     {"bob", refundCall, "APPROVAL_REQUIRED"},
		"denied arguments":   {"alice", strings.Replace(refundCall, "50", "5000", 1), "AUTHORIZATION_ERROR"},
		"a default argument": {"alice", `{"gate":"all","tool":"refund","args":{"order":"A"}}`, "APPROVAL_REQUIRED"},
	} {
		a := approved(t, config)
		if code, answer := a.call(t, tt.caller, tt.body); code != tt.want || (a.ran.Load() == 1) != (tt.want == "OK") {
			t.Errorf("%s: %s %v", name, code, answer)
		}
	}
	t.Run("after a decline", func(t *testing.T) {
		a := newApprovalTest(t, config)
		id := a.request(t, "alice", refundCall)
		a.decide(t, "ann", id, "decline", `{"reason":"too much"}`)
		code, answer := a.call(t, "alice", refundCall)
		if code != "AUTHORIZATION_ERROR" || !strings.Contains(fmt.Sprint(answer), "too much") || a.decide(t, "ann", id, "approve", `{}`) != 409 || a.ran.Load() != 0 {
			t.Error(code, answer)
		}
	})
	t.Run("after the rule changed", func(t *testing.T) {
		a := approved(t, config)
		write(t, a.file, strings.Replace(config, "within: 30m", "within: 29m", 1))
		if err := a.yard.Reload(); err != nil {
			t.Fatal(err)
		}
		if code, _ := a.call(t, "alice", refundCall); code != "APPROVAL_REQUIRED" {
			t.Error(code)
		}
	})
	t.Run("after the definition changed", func(t *testing.T) {
		a := approved(t, config)
		write(t, a.file, "terms: {refund: {latencyClass: fast}}\n"+config)
		if err := a.yard.Reload(); err != nil {
			t.Fatal(err)
		}
		if code, _ := a.call(t, "alice", refundCall); code != "APPROVAL_REQUIRED" {
			t.Error(code)
		}
	})
	t.Run("after a deny rule was added", func(t *testing.T) {
		a := approved(t, config)
		write(t, a.file, strings.Replace(config, "exclusiveMinimum: 1000", "exclusiveMinimum: 10", 1))
		if err := a.yard.Reload(); err != nil {
			t.Fatal(err)
		}
		if code, _ := a.call(t, "alice", refundCall); code != "AUTHORIZATION_ERROR" {
			t.Error(code)
		}
	})
	t.Run("after the key was revoked", func(t *testing.T) {
		a := approved(t, config)
		if err := a.store.RevokeKey(t.Context(), strings.Split(a.keys["alice"], "_")[1], time.Now()); err != nil {
			t.Fatal(err)
		}
		within(t, 30*time.Second, "the key to be rejected", func() bool {
			code, _ := a.call(t, "alice", strings.Replace(refundCall, `"A"`, `"other"`, 1))
			return code == "AUTHENTICATION_ERROR"
		})
		if code, _ := a.call(t, "alice", refundCall); code != "AUTHENTICATION_ERROR" || a.ran.Load() != 0 {
			t.Error(code)
		}
	})
	t.Run("after it expired", func(t *testing.T) {
		for within := time.Second; ; within *= 2 {
			a := newApprovalTest(t, strings.Replace(config, "within: 30m", "within: "+within.String(), 1))
			begin := time.Now()
			id := a.request(t, "alice", refundCall)
			expires := time.Now().Add(within) // the actual time may be slightly earlier
			if status := a.decide(t, "ann", id, "approve", `{}`); status == 409 && time.Since(begin) > within && within < time.Minute {
				continue // expired before it was approved
			} else if status != 200 {
				t.Fatal(status)
			}
			time.Sleep(time.Until(expires) + 100*time.Millisecond)
			if code, _ := a.call(t, "alice", refundCall); code != "APPROVAL_REQUIRED" || a.ran.Load() != 0 {
				t.Error(code)
			}
			return
		}
	})
}

// If a key is revoked while its call waits, the call does not run, even if it is approved.
func TestARevokedKeyDoesNotRunAWaitingCall(t *testing.T) {
	a := newApprovalTest(t, fmt.Sprintf(operatorRules, "60s"))
	done := make(chan string, 1)
	go func() {
		code, _ := a.call(t, "alice", refundCall)
		done <- code
	}()
	var id string
	within(t, 30*time.Second, "the request", func() bool {
		_, page := a.do(t, "ann", "GET", "/api/v1/approvals?state=pending", "")
		if list, _ := page["approvals"].([]any); len(list) == 1 {
			id = at(list[0].(map[string]any), "id")
		}
		return id != ""
	})
	if err := a.store.RevokeKey(t.Context(), strings.Split(a.keys["alice"], "_")[1], time.Now()); err != nil {
		t.Fatal(err)
	}
	a.decide(t, "ann", id, "approve", `{}`)
	if got := <-done; got != "AUTHENTICATION_ERROR" || a.ran.Load() != 0 {
		t.Error(got)
	}
}

// If two replicas use the same approval at the same time, the call runs once.
func TestAttack17TwoReplicasUseAnApprovalOnce(t *testing.T) {
	address := "sqlite:" + filepath.Join(t.TempDir(), "shared.db")
	config := "store: " + address + fmt.Sprintf(operatorRules, "0s")
	r := newRefunds()
	one := newTestAPI(t, config, yard.Options{Tools: []*toolyard.Tool{r.tool}})
	other := newTestAPI(t, config, yard.Options{Tools: []*toolyard.Tool{r.tool}})
	shared, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = shared.Close() }()
	const rounds = 20
	for n := range rounds {
		body := fmt.Sprintf(`{"gate":"all","tool":"refund","args":{"order":"%d"}}`, n)
		_, first := one.do(t, "local", "POST", "/api/v1/calls", body)
		if _, err := shared.Decide(t.Context(), at(first, "approval"), true, store.ApprovalDecision{By: "ann"}, nil); err != nil {
			t.Fatal(err)
		}
		codes := make(chan int, 4)
		for _, s := range []*testAPI{one, other, one, other} {
			go func() {
				status, _ := s.do(t, "local", "POST", "/api/v1/calls", body)
				codes <- status
			}()
		}
		ran := 0
		for range 4 {
			if <-codes == 200 {
				ran++
			}
		}
		if ran != 1 || int(r.ran.Load()) != n+1 {
			t.Fatalf("round %d: %d calls succeeded, and the tool ran %d times", n, ran, r.ran.Load())
		}
	}
}

func TestAttack18CallersCannotApproveTheirOwnCalls(t *testing.T) {
	a := newApprovalTest(t, fmt.Sprintf(operatorRules, "0s"))
	own := a.request(t, "eve", refundCall) // eve is an operator
	for role, want := range map[string]int{"eve": 403, "alice": 403, "bob": 403, "ann": 404, "viewer": 403, "none": 401, "zoe": 200} {
		if role == "zoe" {
			continue // decides last, below
		}
		if got := a.decide(t, role, own, "approve", `{}`); got != want {
			t.Errorf("%s: %d, want %d", role, got, want)
		}
	}
	if _, page := a.do(t, "ann", "GET", "/api/v1/approvals", ""); strings.Contains(fmt.Sprint(page), own) {
		t.Error("an approver sees the approvals of another account")
	}
	if code, _ := a.call(t, "eve", refundCall); code != "APPROVAL_REQUIRED" || a.ran.Load() != 0 {
		t.Error(code)
	}
	if got := a.decide(t, "zoe", own, "approve", `{}`); got != 200 {
		t.Error(got)
	}
	if code, _ := a.call(t, "eve", refundCall); code != "OK" {
		t.Error(code)
	}
}

// Secrets in arguments appear neither to approvers nor in the audit log, but calls with different
// secrets need separate approvals.
func TestAttack20SecretsAreNotShownToApprovers(t *testing.T) {
	config := strings.Replace(fmt.Sprintf(operatorRules, "0s"), "tools: [refund], then", "tools: [login], then", 1)
	type args struct {
		Password string `json:"password"`
		Note     string `json:"note"`
	}
	login := toolyard.Define(toolyard.Spec{Name: "login"}, func(context.Context, *toolyard.Call, args) (string, error) { return "ok", nil })
	r := newRefunds()
	s := newTestAPI(t, config, yard.Options{Tools: []*toolyard.Tool{login, r.tool}})
	a := &approvalTest{s, r}
	a.addKey(t, "alice", "acme", identity.Write)
	a.addKey(t, "ann", "acme", identity.Approver)
	ids := make(map[string]bool)
	for _, secret := range []string{"correct-horse-1", "correct-horse-2"} {
		id := a.request(t, "alice", `{"gate":"all","tool":"login","args":{"password":"`+secret+`","note":"Bearer `+secret+`"}}`)
		ids[id] = true
		_, shown := a.do(t, "ann", "GET", "/api/v1/approvals/"+id, "")
		if strings.Contains(fmt.Sprint(shown), "correct-horse") || at(shown, "hidden") != "2" {
			t.Error(shown)
		}
		a.decide(t, "ann", id, "approve", `{}`)
	}
	_, log := a.do(t, "operator", "GET", "/api/v1/changes", "")
	if len(ids) != 2 || strings.Contains(fmt.Sprint(log), "correct-horse") {
		t.Errorf("%d approvals, log %v", len(ids), log)
	}
}

func TestAttack21AFloodOfRequestsIsBounded(t *testing.T) {
	a := newApprovalTest(t, fmt.Sprintf(operatorRules, "0s"))
	for n := range 100 {
		a.request(t, "alice", fmt.Sprintf(`{"gate":"all","tool":"refund","args":{"order":"%d"}}`, n))
	}
	if code, answer := a.call(t, "alice", refundCall); code != "RATE_LIMITED" || a.ran.Load() != 0 {
		t.Error(code, answer)
	}
	a.request(t, "alice", `{"gate":"all","tool":"refund","args":{"order":"7"}}`) // joins the open request
	a.request(t, "bob", refundCall)
}

// If the client cannot ask its user, or another tool made the call, the approval request goes to
// the operator.
func TestCallsWithoutAUserGoToTheOperator(t *testing.T) {
	config := "approvals: {hold: 0s}\nrules: [{name: refunds, tools: [refund], then: ask}]\ngates: {all: {mode: write, callers: keys}}\n"
	r := newRefunds()
	through := toolyard.Define(toolyard.Spec{Name: "through"}, func(ctx context.Context, c *toolyard.Call, _ struct{}) (*toolyard.Result, error) {
		return c.Toolbox.CallTool(ctx, c, "", "refund", []byte(`{"order":"nested"}`))
	})
	s := newTestAPI(t, config, yard.Options{Tools: []*toolyard.Tool{through, r.tool}})
	a := &approvalTest{s, r}
	a.addKey(t, "alice", "acme", identity.Write)
	a.addKey(t, "ann", "acme", identity.Approver)
	for _, body := range []string{refundCall, `{"gate":"all","tool":"through","interactive":true}`} {
		before := a.ran.Load()
		id := a.request(t, "alice", body)
		a.decide(t, "ann", id, "approve", `{}`)
		if code, answer := a.call(t, "alice", body); code != "OK" || a.ran.Load() != before+1 {
			t.Errorf("%s: %s %v", body, code, answer)
		}
	}
}

// An idempotency key replays the result of the call that used the approval.
func TestARepeatedKeyNeedsNoSecondApproval(t *testing.T) {
	a := newApprovalTest(t, fmt.Sprintf(operatorRules, "0s"))
	keyed := strings.Replace(refundCall, `{"gate"`, `{"idempotencyKey":"k","gate"`, 1)
	a.decide(t, "ann", a.request(t, "alice", keyed), "approve", `{}`)
	for range 3 {
		if code, answer := a.call(t, "alice", keyed); code != "OK" || a.ran.Load() != 1 {
			t.Fatal(code, answer)
		}
	}
	a.request(t, "alice", strings.Replace(keyed, `"k"`, `"other"`, 1))
}

// A remembered approval covers further calls, with the same or any arguments, but never overrides a
// rule that denies.
func TestRememberedApprovals(t *testing.T) {
	other := strings.Replace(refundCall, `"A"`, `"B"`, 1)
	for arguments, want := range map[string]string{"same": "APPROVAL_REQUIRED", "any": "OK"} {
		a := newApprovalTest(t, fmt.Sprintf(operatorRules, "0s"))
		if status := a.decide(t, "ann", a.request(t, "alice", refundCall), "approve", `{"remember":{"minutes":60,"arguments":"`+arguments+`"}}`); status != 200 {
			t.Fatal(status)
		}
		for range 3 {
			if code, answer := a.call(t, "alice", refundCall); code != "OK" {
				t.Errorf("%s: %s %v", arguments, code, answer)
			}
		}
		if code, _ := a.call(t, "alice", other); code != want {
			t.Errorf("%s: %s", arguments, code)
		}
		a.request(t, "bob", refundCall)
		if code, _ := a.call(t, "alice", strings.Replace(refundCall, "50", "5000", 1)); code != "AUTHORIZATION_ERROR" {
			t.Errorf("%s: a grant beats a rule that denies: %s", arguments, code)
		}
		_, page := a.do(t, "operator", "GET", "/api/v1/grants", "")
		list, _ := page["grants"].([]any)
		if len(list) != 1 {
			t.Fatal(page)
		}
		if status, _ := a.do(t, "operator", "DELETE", "/api/v1/grants/"+at(list[0].(map[string]any), "id"), ""); status != 204 {
			t.Error(status)
		}
		a.request(t, "alice", refundCall) // the approval itself has been used
	}
}
