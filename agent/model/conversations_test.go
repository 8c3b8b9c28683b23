package model_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/acceptance/fakemodel"
	"github.com/toolyard/toolyard/agent/model"
)

var apis = []model.API{model.Anthropic, model.OpenAI, model.Chat, model.Gemini}

// start starts a scripted model.
func start(t testing.TB, script string) *fakemodel.Server {
	t.Helper()
	parsed, err := fakemodel.Parse([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	server, err := fakemodel.New(fakemodel.Options{Script: parsed, Exact: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

func connect(t testing.TB, server *fakemodel.Server, api model.API, change ...func(*model.Options)) *model.Client {
	t.Helper()
	o := model.Options{API: api, URL: server.BaseURL(string(api)), Model: "fake", Key: fakemodel.Key, Private: true}
	for _, c := range change {
		c(&o)
	}
	client, err := model.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

var functions = []model.Function{
	{Name: "vat_rate", Description: "Returns the VAT rate of a country.", Parameters: json.RawMessage(`{"type":"object","properties":{"country":{"type":"string"}},"required":["country"]}`)},
	{Name: "weather", Description: "Forecast.", Parameters: json.RawMessage(`{"properties":{"city":{"type":"string"},"days":{"type":"integer"}}}`)},
	{Name: "now", Description: "The time."},
	{Name: "broken", Description: "Fails.", Parameters: json.RawMessage(`{"type":"object"}`)},
	{Name: "empty", Description: "Returns nothing.", Parameters: json.RawMessage(` { } `)},
}

// answer returns a function's result.
func answer(t testing.TB, c model.FunctionCall) model.Answer {
	t.Helper()
	a := model.Answer{ID: c.ID}
	var args struct{ Country, City string }
	if err := json.Unmarshal(c.Arguments, &args); err != nil {
		t.Fatalf("arguments of %s: %v", c.Name, err)
	}
	switch c.Name {
	case "vat_rate":
		a.Text = map[string]string{"FR": "20", "DE": "19"}[args.Country]
	case "weather":
		a.Text = "sunny in " + args.City
	case "now":
		a.Text = "noon"
	case "broken":
		a.Text, a.Failed = "it failed", true
	case "empty":
	default:
		t.Fatalf("unexpected call of %s", c.Name)
	}
	return a
}

// converse runs a whole conversation and returns its turns.
func converse(t testing.TB, m model.Model, first string) (turns []*model.Turn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := &model.Request{System: "The instructions of the test.", Tools: functions, Messages: []model.Message{{Text: first}}}
	for {
		var streamed strings.Builder
		turn, err := m.Turn(ctx, r, func(e model.Event) { streamed.WriteString(e.Text) })
		if err != nil {
			t.Fatal(err)
		}
		if streamed.String() != turn.Text {
			t.Errorf("streamed %q, returned %q", streamed.String(), turn.Text)
		}
		turns = append(turns, turn)
		if turn.Stop != model.StopCalls {
			return turns
		}
		var answers []model.Answer
		for _, c := range turn.Calls {
			answers = append(answers, answer(t, c))
		}
		r.Messages = append(r.Messages, model.Message{Turn: turn}, model.Message{Answers: answers})
		if strings.Contains(first, "last turn") {
			r.NoTools = true
			r.Messages = append(r.Messages, model.Message{Text: "Now answer from what you have."})
		}
	}
}

func TestConversations(t *testing.T) {
	script, err := os.ReadFile("testdata/conversations.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, api := range apis {
		t.Run(string(api), func(t *testing.T) {
			t.Parallel()
			server := start(t, string(script))
			client := connect(t, server, api)
			for first, want := range map[string]struct {
				text  string
				turns int
				calls int
			}{
				"plain text":          {"Bonjour, <you> & “me”: \u2028 20 % 🇫🇷", 1, 0},
				"one call":            {"VAT in 20 percent.", 2, 1},
				"thinking with calls": {`20, 19 and sunny in Paris "/" <b>.`, 3, 3},
				"no arguments":        {"It is noon.", 2, 1},
				"failed call":         {"Sorry.", 2, 1},
				"empty answer":        {"Nothing found.", 2, 1},
				"last turn":           {"Noon.", 2, 1},
				"several calls":       {"Four calls.", 2, 4},
			} {
				turns := converse(t, client, first)
				last, calls := turns[len(turns)-1], 0
				for _, turn := range turns {
					calls += len(turn.Calls)
				}
				if last.Text != want.text || last.Stop != model.StopEnd || len(turns) != want.turns || calls != want.calls {
					t.Errorf("%s: %d turns, %d calls, %q (%s)", first, len(turns), calls, last.Text, last.Stop)
				}
				if first == "one call" && turns[0].Usage != (model.Usage{Input: 900, Cached: 400, Output: 60}) {
					t.Errorf("usage: %+v", turns[0].Usage)
				}
			}
			for _, f := range server.Failures() {
				t.Error(f)
			}
		})
	}
}
