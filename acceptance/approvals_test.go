package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/store/pgtest"
)

var approvalUses = flag.Int("approval-uses", 30, "how many approvals are used at two replicas at once while they are killed")

const (
	usesPerKill   = 10 // maximum number of approvals used between two kills
	usesPerCaller = 40 // below the maximum number of a caller's pending requests
	approvalUsers = 4  // approvals used at the same time
)

// approvalFleet has two replicas whose tool note_write needs an operator's approval.
type approvalFleet struct {
	*fleet
	operator string
	callers  []string // API keys
	killed   atomic.Int64
	answered atomic.Int64 // number of calls that returned their result
}

func newApprovalFleet(t *testing.T, uses int) *approvalFleet {
	t.Helper()
	database := pgtest.ForTest(t).Database(t)
	f := &approvalFleet{fleet: newFleet(t, 2, database, fmt.Sprintf(`
store: %q
log: {level: error}
rules: [{name: notes, tools: [note_write], then: ask, by: operator, within: 12h}]
approvals: {hold: 0s}
gates: {all: {mode: write, callers: keys}}
`, database))}
	f.operator = tokenShape.FindString(f.command("keys", "create", "--name", "test", "--caller", "olivia", "--scope", "operator"))
	for i := 0; i < uses; i += usesPerCaller {
		body := fmt.Sprintf(`{"name":"test","caller":"caller-%d","account":"acme","scopes":["write"]}`, i)
		status, answer := f.until(t, f.operator, "/keys", body, http.StatusCreated, http.StatusOK)
		token, _ := answer["token"].(string)
		if token == "" {
			t.Fatal(status, answer)
		}
		f.callers = append(f.callers, token)
	}
	return f
}

// send sends a request to a replica. It returns status zero if the replica was killed before it
// responded.
func (f *approvalFleet) send(ctx context.Context, replica int, token, path, body string) (status int, answer map[string]any) {
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+f.replicas[replica].address+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := shop.Do(r)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil || json.NewDecoder(bytes.NewReader(data)).Decode(&answer) != nil {
		return 0, nil
	}
	return res.StatusCode, answer
}

// until repeats a request on alternating replicas until the response has one of the statuses.
func (f *approvalFleet) until(t *testing.T, token, path, body string, want ...int) (status int, answer map[string]any) {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for replica := range f.replicas {
			status, answer = f.send(t.Context(), replica, token, path, body)
			if slices.Contains(want, status) {
				return status, answer
			}
		}
	}
	t.Errorf("%s: %d %v", path, status, answer)
	return 0, nil
}

// use requests and grants an approval, and repeats the call on both replicas at once until the
// approval is used.
func (f *approvalFleet) use(t *testing.T, n int) {
	token := f.callers[n/usesPerCaller]
	body := fmt.Sprintf(`{"gate":"all","tool":"note_write","args":{"ms":5,"label":"use-%d"}}`, n)
	_, answer := f.until(t, token, "/calls", body, http.StatusForbidden)
	id, _ := answer["approval"].(string)
	if id == "" {
		t.Errorf("no approval was requested: %v", answer)
		return
	}
	f.until(t, f.operator, "/approvals/"+id+"/approve", "{}", http.StatusOK, http.StatusConflict) // a conflict means that a killed replica had already approved it
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		var both sync.WaitGroup
		for replica := range f.replicas {
			both.Go(func() {
				switch status, answer := f.send(t.Context(), replica, token, "/calls", body); status {
				case http.StatusOK:
					f.answered.Add(1)
				case 0, http.StatusForbidden, http.StatusServiceUnavailable:
				default:
					t.Errorf("unexpected answer: %d %v", status, answer)
				}
			})
		}
		both.Wait()
		if _, shown := f.until(t, f.operator, "/approvals/"+id, "", http.StatusOK); shown["state"] != "approved" {
			if shown["state"] != "used" {
				t.Errorf("approval %s: %v", id, shown)
			}
			return
		}
	}
	t.Errorf("approval %s was not used", id)
}

// Approvals are used on two replicas at once while the replicas are killed in turn. No approval
// runs its call twice, and every call that returns its result has run.
func TestApprovalsAreUsedOnceUnderKills(t *testing.T) {
	heavy(t)
	uses := *approvalUses
	f := newApprovalFleet(t, uses)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var killing sync.WaitGroup
	killing.Go(func() {
		for ctx.Err() == nil {
			n, err := f.killer(ctx, 1)
			f.killed.Add(int64(n))
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	start := time.Now()
	next := make(chan int)
	var users sync.WaitGroup
	for range approvalUsers {
		users.Go(func() {
			for n := range next {
				f.use(t, n)
			}
		})
	}
	for n := range uses {
		for end := time.Now().Add(2 * time.Minute); f.killed.Load() < int64(n/usesPerKill) && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		next <- n
	}
	close(next)
	users.Wait()
	stop()
	killing.Wait()
	f.check(t, uses, time.Since(start))
}

// check compares the runs that the tools recorded with the approvals.
func (f *approvalFleet) check(t *testing.T, uses int, took time.Duration) {
	t.Helper()
	runs := make(map[string]int)
	for _, n := range f.readNotes() {
		if n.Event == "began" {
			runs[n.Label]++
		}
	}
	once, twice := 0, 0
	for _, n := range runs {
		if once++; n > 1 {
			twice++
		}
	}
	t.Logf("%d approvals used at two replicas at once under %d kills in %s: %d ran once, %d ran twice, %d did not run because their replica was killed; %d responded",
		uses, f.killed.Load(), took.Round(time.Second), once-twice, twice, uses-once, f.answered.Load())
	if twice > 0 || int(f.answered.Load()) > once {
		t.Errorf("%d approvals were used twice; %d calls responded and %d ran", twice, f.answered.Load(), once)
	}
	if once < uses/2 || int(f.killed.Load()) < (uses-1)/usesPerKill {
		t.Errorf("%d of %d calls ran under %d kills: the test shows too little", once, uses, f.killed.Load())
	}
}

// A replica is killed while it runs a query with an idempotency key. Another replica reports that
// the outcome is unknown; it neither calls the model nor charges anything.
func TestAttack34KilledReplicaLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	model := scriptedModel(t, `conversations: [{match: hang, turns: [{say: x, fault: {hang: true}}]}]`, false)
	database := pgtest.ForTest(t).Database(t)
	f := &approvalFleet{fleet: newFleet(t, 2, database, fmt.Sprintf(`
store: %q
log: {level: error}
models: {main: {api: chat, model: fake, url: %q, private: true}}
agents: {librarian: {model: main, gate: research, instructions: You are a librarian., queryUsd: "0.10", limits: {time: 2s}}}
gates:
  research: {mode: read, surface: answer, callers: keys}
  ask: {mode: read, surface: execute, callers: keys, agents: [librarian]}
`, database, model.BaseURL("chat")))}
	token := f.buyer("alice", "acme", "1").token
	const query = `{"query":"hang","idempotencyKey":"k1"}`
	go f.send(t.Context(), 0, token, "/query", query)
	for end := time.Now().Add(time.Minute); len(model.Requests()) == 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	f.replicas[0].kill()
	var answer map[string]any
	for end := time.Now().Add(2 * time.Minute); answer["error"] != "OUTCOME_UNKNOWN" && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		_, answer = f.send(t.Context(), 1, token, "/query", query)
	}
	if answer["error"] != "OUTCOME_UNKNOWN" {
		t.Errorf("%v", answer)
	}
	if _, account := f.send(t.Context(), 1, token, "/account", ""); account["spentUsd"] != "0" {
		t.Errorf("%v", account)
	}
	if n := len(model.Requests()); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}
