package demo

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/agent/model"
)

// allTools returns the tools for all topics.
func allTools() (list []model.Function) {
	for _, t := range topics {
		for _, name := range t.tools {
			list = append(list, model.Function{Name: name})
		}
	}
	return list
}

// converse asks the model, answers its calls from a table, and returns the calls and the answer.
func converse(t *testing.T, r *model.Request, answers map[string][]string) (calls []string, text string) {
	t.Helper()
	for range 10 {
		turn, err := Model{}.Turn(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(turn.Calls) == 0 {
			return calls, turn.Text
		}
		r.Messages = append(r.Messages, model.Message{Turn: turn}, model.Message{})
		last := &r.Messages[len(r.Messages)-1]
		for _, c := range turn.Calls {
			list := answers[c.Name]
			if len(list) == 0 {
				t.Fatalf("unexpected call %s %s", c.Name, c.Arguments)
			}
			calls, answers[c.Name] = append(calls, c.Name), list[1:]
			last.Answers = append(last.Answers, model.Answer{ID: c.ID, Text: fmt.Sprintf(`{"evidence":"e%d",%s}`, len(calls), list[0])})
		}
	}
	t.Fatal("the model does not answer")
	return nil, ""
}

// result encodes the text of a successful call as a member of an answer.
func result(text string) string {
	quoted, _ := json.Marshal(text)
	return `"text":` + string(quoted)
}

func TestModelAnswersFromResults(t *testing.T) {
	const failed = `"error":"TOOL_ERROR","message":"updating","retryable":true`
	ship := func(name string) string {
		return fmt.Sprintf(`{"ship":%q,"cargo":"bulk","from":"DEHAM","eta":"2026-11-17T04:00:00Z"}`, name)
	}
	tests := []struct {
		question string
		answers  map[string][]string
		calls    []string
		want     []string
	}{
		{
			Questions[0].Text,
			map[string][]string{
				"ship_schedule":          {result(ship("Anneke") + "\n" + ship("Polar Tern"))},
				"port_weather":           {result(`{"hours":[{"wind":9,"wavesM":1},{"wind":21.7,"wavesM":0.5}]}`)},
				"fleet__vessel_position": {result(`{"vessel":"Anneke","lat":51.5,"lon":3.25,"speedKnots":11}`)},
			},
			[]string{"ship_schedule", "port_weather", "fleet__vessel_position"},
			[]string{"[e1]", "Anneke with bulk from Hamburg, Tue 17 Nov 04:00 UTC; now at 51.50, 3.25 with 11.0 kn [e3]", "Polar Tern", "wind up to 22 kn, waves up to 1.0 m [e2]"},
		},
		{Questions[0].Text, map[string][]string{"ship_schedule": {`"error":"PERMISSION_DENIED"`}, "port_weather": {`"error":"PERMISSION_DENIED"`}}, []string{"ship_schedule", "port_weather"}, []string{"not available"}},
		{
			Questions[1].Text,
			map[string][]string{
				"customs__classify_goods": {result(`{"suggestions":[{"code":"0901.21","heading":"Coffee, roasted"}]}`)}, "customs__duty_rate": {result(`{"dutyPercent":7.5,"vatPercent":21}`)},
			},
			[]string{"customs__classify_goods", "customs__duty_rate"},
			[]string{"0901.21 (Coffee, roasted) [e1]", "7.5 %", "21 % [e2]"},
		},
		{Questions[2].Text, map[string][]string{"port_distance": {result(`{"nauticalMiles":4894.5,"kilometres":9064.7,"hours":349.6}`)}}, []string{"port_distance"}, []string{"Piraeus to Singapore", "4894.5 nautical miles", "[e1]"}},
		{Questions[3].Text, map[string][]string{"exchange_rate": {failed, result(`{"rate":11.6,"amount":29000}`)}}, []string{"exchange_rate", "exchange_rate"}, []string{"2500 EUR are 29000.00 NOK", "[e2]"}},
		{Questions[3].Text, map[string][]string{"exchange_rate": {failed, failed}}, []string{"exchange_rate", "exchange_rate"}, []string{"not available"}},
		{Questions[4].Text, nil, nil, []string{"follows a script"}},
		{"How far is it?", nil, nil, []string{"two ports"}},
		{"Which ships arrive?", nil, nil, []string{"Name the port"}},
		{"Which duty?", nil, nil, []string{"country of origin"}},
		{"EUR", nil, nil, []string{"two currencies"}},
	}
	for _, tt := range tests {
		calls, text := converse(t, &model.Request{Tools: allTools(), Messages: []model.Message{{Text: tt.question}}}, tt.answers)
		if diff := cmp.Diff(tt.calls, calls); diff != "" {
			t.Errorf("%s: %s", tt.question, diff)
		}
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q lacks %q", tt.question, text, want)
			}
		}
	}
}

func TestModelUsesOnlyOfferedTools(t *testing.T) {
	r := &model.Request{Messages: []model.Message{{Text: Questions[2].Text}}}
	if calls, text := converse(t, r, nil); calls != nil || !strings.Contains(text, "port_distance, which is not available") {
		t.Error(calls, text)
	}
	r.Tools, r.NoTools = allTools(), true
	if calls, text := converse(t, r, nil); calls != nil || text == "" {
		t.Error(calls, text)
	}
}
