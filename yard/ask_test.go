package yard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/yard"
)

// frontDoor is a lock that opens only after the user confirms.
type frontDoor struct {
	state  atomic.Value // locked or jammed
	opened atomic.Int64
	unlock *toolyard.Tool
}

func newFrontDoor() *frontDoor {
	d := &frontDoor{}
	d.state.Store("locked")
	type args struct {
		Lock string `json:"lock"`
	}
	d.unlock = toolyard.Define(toolyard.Spec{Name: "unlock"}, func(ctx context.Context, c *toolyard.Call, in args) (string, error) {
		state, _ := d.state.Load().(string)
		reply, err := toolyard.Ask[struct{}](ctx, c, toolyard.Question{
			Key: "sure", Message: "Unlock " + in.Lock + ", which is " + state + "?", Bind: state, State: []byte("shown"),
		})
		switch {
		case err != nil:
			return "", err
		case !reply.Accepted():
			return "not unlocked: " + reply.Action, nil
		}
		d.opened.Add(1)
		return "unlocked, " + string(reply.State), nil
	})
	return d
}

// through returns a tool that calls unlock and tries to answer its question.
func (d *frontDoor) through() *toolyard.Tool {
	return toolyard.Define(toolyard.Spec{Name: "through"}, func(ctx context.Context, c *toolyard.Call, _ struct{}) (*toolyard.Result, error) {
		c.InputResponses = json.RawMessage(`{"sure":{"action":"accept"}}`)
		return c.Toolbox.CallTool(ctx, c, "", "unlock", json.RawMessage(`{"lock":"front"}`))
	})
}

const (
	doorConfig = "gates: {all: {mode: write, callers: keys}, other: {mode: write, callers: keys}}\n"
	doorCall   = `{"gate":"all","interactive":true,"tool":"unlock","args":{"lock":"front"}`
	doorYes    = `,"state":%q,"answers":{"sure":{"action":"accept"}}}`
)

func TestTheUserConfirmsACall(t *testing.T) {
	for action, tt := range map[string]struct {
		text   string
		opened int64
	}{"accept": {"unlocked, shown", 1}, "decline": {"not unlocked: decline", 0}, "cancel": {"not unlocked: cancel", 0}} {
		door := newFrontDoor()
		s := newTestAPI(t, doorConfig, yard.Options{Tools: []*toolyard.Tool{door.unlock}})
		_, first := s.do(t, "operator", "POST", "/api/v1/calls", doorCall+"}")
		if at(first, "inputRequired.questions.sure.message") != "Unlock front, which is locked?" {
			t.Fatal(first)
		}
		status, second := s.do(t, "operator", "POST", "/api/v1/calls", doorCall+fmt.Sprintf(strings.Replace(doorYes, "accept", action, 1), at(first, "inputRequired.state")))
		if status != 200 || !strings.Contains(at(second, "result.content"), tt.text) || door.opened.Load() != tt.opened {
			t.Errorf("%s: %d %v, opened %d times", action, status, second, door.opened.Load())
		}
	}
}

// An answer to a different call has no effect.
func TestOnlyTheAnswerToACallCounts(t *testing.T) {
	for name, tt := range map[string]struct {
		role   string
		change func(body, state string) string
		jam    bool
		again  string // message of the repeated question; empty if the call is refused
	}{
		"a changed state":   {change: func(body, state string) string { return strings.Replace(body, state, altered(state), 1) }},
		"another caller":    {role: "local"},
		"changed arguments": {change: func(body, _ string) string { return strings.Replace(body, `"lock":"front"`, `"lock":"back"`, 1) }},
		"another gate":      {change: func(body, _ string) string { return strings.Replace(body, `"gate":"all"`, `"gate":"other"`, 1) }},
		"a forged state": {change: func(body, state string) string {
			return strings.Replace(body, state, `{\"key\":\"sure\",\"open\":{}}`, 1)
		}},
		"a changed lock": {jam: true, again: "Unlock front, which is jammed?"},
		"another key":    {change: func(body, _ string) string { return strings.Replace(body, `"sure"`, `"other"`, 1) }, again: "Unlock front, which is locked?"},
	} {
		t.Run(name, func(t *testing.T) {
			door := newFrontDoor()
			s := newTestAPI(t, doorConfig, yard.Options{Tools: []*toolyard.Tool{door.unlock}})
			_, first := s.do(t, "operator", "POST", "/api/v1/calls", doorCall+"}")
			state := at(first, "inputRequired.state")
			body, role := doorCall+fmt.Sprintf(doorYes, state), "operator"
			if tt.change != nil {
				body = tt.change(body, state)
			}
			if tt.role != "" {
				role = tt.role
			}
			if tt.jam {
				door.state.Store("jammed")
			}
			status, answer := s.do(t, role, "POST", "/api/v1/calls", body)
			if tt.again == "" && (status != 400 || at(answer, "error") != string(toolyard.Invalid)) || at(answer, "inputRequired.questions.sure.message") != tt.again {
				t.Errorf("%d %v", status, answer)
			}
			if door.opened.Load() != 0 {
				t.Error("the door was unlocked")
			}
		})
	}
}

func TestAnAnswerCountsOnce(t *testing.T) {
	door := newFrontDoor()
	s := newTestAPI(t, doorConfig, yard.Options{Tools: []*toolyard.Tool{door.unlock}})
	_, first := s.do(t, "operator", "POST", "/api/v1/calls", doorCall+"}")
	body := doorCall + fmt.Sprintf(doorYes, at(first, "inputRequired.state"))
	for _, want := range []int{200, 400, 400} {
		if status, answer := s.do(t, "operator", "POST", "/api/v1/calls", body); status != want {
			t.Errorf("%d %v", status, answer)
		}
	}
	if door.opened.Load() != 1 {
		t.Errorf("unlocked %d times", door.opened.Load())
	}
}

// A call that has no user to ask has no effect, and a tool cannot answer on the user's behalf.
func TestACallThatCannotBeConfirmedIsRefused(t *testing.T) {
	door := newFrontDoor()
	s := newTestAPI(t, doorConfig, yard.Options{Tools: []*toolyard.Tool{door.unlock, door.through()}})
	for _, body := range []string{
		`{"gate":"all","tool":"unlock","args":{"lock":"front"}}`,
		`{"gate":"all","tool":"through","interactive":true}`,
	} {
		status, answer := s.do(t, "operator", "POST", "/api/v1/calls", body)
		if status != 400 || at(answer, "error") != string(toolyard.MissingCapability) {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
	if door.opened.Load() != 0 {
		t.Error("the door was unlocked")
	}
}

// altered returns a sealed text with one character in the middle changed.
func altered(sealed string) string {
	middle, other := len(sealed)/2, "A"
	if sealed[middle] == 'A' {
		other = "B"
	}
	return sealed[:middle] + other + sealed[middle+1:]
}
