package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/acceptance/fakemodel"
	"github.com/toolyard/toolyard/agent/model"
)

// withFault returns a script whose first turn has a fault.
func withFault(fault string) string {
	return "conversations: [{turns: [{say: A longer text that needs several events., fault: {" + fault + "}}]}]"
}

var hello = &model.Request{Messages: []model.Message{{Text: "hello"}}}

// kindOf returns the kind of a failed turn's error.
func kindOf(err error) model.Kind {
	if failed, ok := errors.AsType[*model.Error](err); ok {
		return failed.Kind
	}
	return ""
}

func TestAttackFaultyResponses(t *testing.T) {
	const quick = `headers: {retry-after-ms: "1"}`
	for name, c := range map[string]struct {
		fault    string
		kind     model.Kind // empty if the turn succeeds
		text     string     // expected text in the error
		requests int        // zero if the number depends on the machine's speed
	}{
		"overloaded twice, then good":     {"status: 529, code: overloaded_error, message: busy, times: 2, " + quick, "", "", 3},
		"overloaded":                      {"status: 529, code: overloaded_error, message: busy, " + quick, model.Unavailable, "busy", 3},
		"rate limit":                      {"status: 429, code: rate_limit_error, times: 1, " + quick, "", "", 2},
		"retry-after beyond the deadline": {`status: 429, message: later, headers: {retry-after: "3600"}`, model.Unavailable, "later", 1},
		"retry-after date":                {`status: 503, message: later, headers: {retry-after: "Fri, 31 Dec 2100 23:59:59 GMT"}`, model.Unavailable, "later", 1},
		"out of quota":                    {"status: 429, code: insufficient_quota, message: no money, " + quick, model.Rejected, "no money", 1},
		"bad request":                     {"status: 400, code: invalid_request_error, message: bad, " + quick, model.Rejected, "bad", 1},
		"unknown model":                   {"status: 404, message: no such model", model.Rejected, "no such model", 1},
		"should not retry":                {`status: 500, message: final, headers: {x-should-retry: "false"}`, model.Unavailable, "final", 1},
		"should retry":                    {`status: 400, times: 1, headers: {x-should-retry: "true", retry-after-ms: "1"}`, "", "", 2},
		"error as the first event":        {"stream: true, code: overloaded_error, message: busy, times: 1", "", "", 2},
		"error within the stream":         {"stream: true, after: 3, code: overloaded_error, message: busy", model.Unavailable, "busy", 1},
		"final error within the stream":   {"stream: true, after: 0, code: invalid_request_error, message: wrong", model.Rejected, "wrong", 1},
		"cut after three events":          {"cut: true, after: 3", model.Unavailable, "interrupted", 1},
		"HTML":                            {"body: <html>Log in</html>, headers: {content-type: text/html}", model.Invalid, "text/html instead of an event stream", 1},
		"JSON error with status 200":      {`body: '{"error":{"message":"wrong","code":400}}', headers: {content-type: application/json}`, model.Rejected, "wrong", 1},
		"redirect to another host":        {"status: 307, headers: {location: 'https://example.com/'}", model.Unavailable, "not the same server", 3},
		"redirect that drops the body":    {"status: 302, headers: {location: /other}", model.Unavailable, "redirects", 3},
		"compressed":                      {"body: x, headers: {content-encoding: gzip}", model.Unavailable, "compressed", 3},
		"hung body":                       {"hang: true, after: 2", model.Unavailable, "", 0},
	} {
		for _, api := range apis {
			t.Run(name+"/"+string(api), func(t *testing.T) {
				t.Parallel()
				server := start(t, withFault(c.fault))
				client := connect(t, server, api, func(o *model.Options) {
					if strings.HasPrefix(name, "hung") {
						o.Idle = 200 * time.Millisecond
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				turn, err := client.Turn(ctx, hello, nil)
				if kindOf(err) != c.kind || (err == nil) != (c.kind == "") || err != nil && !strings.Contains(err.Error(), c.text) {
					t.Errorf("%+v, %v", turn, err)
				}
				if n := len(server.Requests()); n != c.requests && c.requests > 0 {
					t.Errorf("%d requests, want %d", n, c.requests)
				}
			})
		}
	}
}

func TestRetryAfterIsReported(t *testing.T) {
	server := start(t, withFault(`status: 429, headers: {retry-after: "90"}`))
	_, err := connect(t, server, model.OpenAI).Turn(t.Context(), hello, nil)
	if failed, ok := errors.AsType[*model.Error](err); !ok || failed.RetryAfter != 90*time.Second || failed.Status != 429 {
		t.Errorf("%+v", err)
	}
}

// A server that never begins its response counts as unavailable.
func TestAttackHungBeforeTheResponse(t *testing.T) {
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server detects a disconnect only after reading the body
		<-r.Context().Done()
	}))
	defer hung.Close()
	client, err := model.New(model.Options{API: model.Chat, URL: hung.URL, Model: "m", Private: true, Idle: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Turn(t.Context(), hello, nil); kindOf(err) != model.Unavailable || !strings.Contains(err.Error(), "did not respond in time") {
		t.Error(err)
	}
}

func TestCanceledTurnClosesTheConnection(t *testing.T) {
	begun, left := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
		close(left)
	}))
	defer server.Close()
	client, err := model.New(model.Options{API: model.Chat, URL: server.URL, Model: "m", Private: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	gone := errors.New("the caller left")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-begun
		cancel(gone)
	}()
	if _, err := client.Turn(ctx, hello, nil); !errors.Is(err, gone) {
		t.Error(err)
	}
	select {
	case <-left:
	case <-time.After(30 * time.Second):
		t.Error("the connection stayed open")
	}
}

func TestAttackKeyIsNeverShown(t *testing.T) {
	const key = "secret-key-0123456789"
	for _, api := range apis {
		server := start(t, withFault("cut: true")) // the server's message about a wrong key repeats the key
		client := connect(t, server, api, func(o *model.Options) { o.Key = key })
		_, err := client.Turn(t.Context(), hello, nil)
		if kindOf(err) != model.Rejected || !strings.Contains(err.Error(), "[key]") {
			t.Errorf("%s: %v", api, err)
		}
		options := model.Options{API: api, Key: key, Model: "m"}
		encoded, jsonErr := json.Marshal(options)
		for _, shown := range []string{
			fmt.Sprintf("%v %+v %#v", err, err, err), fmt.Sprintf("%v %+v %#v %s", client, client, client, client),
			fmt.Sprintf("%v %+v %#v", options, options, options), string(encoded),
		} {
			if strings.Contains(shown, key) || jsonErr != nil {
				t.Errorf("%s: the key is in %s (%v)", api, shown, jsonErr)
			}
		}
	}
	if _, err := model.New(model.Options{API: model.OpenAI, Key: "bad\nkey", Model: "m"}); err == nil || strings.Contains(err.Error(), "bad") {
		t.Error(err)
	}
}

func TestAttackPrivateAddressNeedsAnOption(t *testing.T) {
	for _, address := range []string{
		"http://api.example.com/v1", "https://localhost/v1", "https://127.0.0.1/v1", "https://10.0.0.1/v1", "https://[::1]/v1",
		"https://8.8.8.8/v1", "https://2130706433/v1", "https://0x7f.1/v1", "ftp://api.example.com", "https://user:secret@api.example.com/v1", "https://",
	} {
		if _, err := model.New(model.Options{API: model.Chat, URL: address, Model: "m"}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"http://169.254.169.254/v1", "http://100.100.100.200/v1", "http://[fd00:ec2::254]/v1", "http://0.0.0.0/v1"} {
		if _, err := model.New(model.Options{API: model.Chat, URL: address, Model: "m", Private: true}); err == nil {
			t.Errorf("%s is accepted", address)
		}
	}
	for _, address := range []string{"http://localhost:11434/v1", "http://192.168.1.5:8000/v1", "https://models.lan/v1"} {
		if _, err := model.New(model.Options{API: model.Chat, URL: address, Model: "m", Private: true}); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	// A name's address is checked when the name is used. This name is local on every machine.
	client, err := model.New(model.Options{API: model.Chat, URL: "https://ip6-localhost.localhost/v1", Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // some resolvers do not answer
	defer cancel()
	if _, err := client.Turn(ctx, hello, nil); err == nil {
		t.Error("a name of this machine is accepted")
	}
}

func TestNewRefuses(t *testing.T) {
	for name, o := range map[string]model.Options{
		"unknown API":       {API: "cohere", Model: "m"},
		"no model":          {API: model.OpenAI, Key: "k"},
		"no key":            {API: model.OpenAI, Model: "m"},
		"no URL":            {API: model.Chat, Model: "m", Key: "k"},
		"field of chat":     {API: model.Gemini, Model: "m", Key: "k", MaxTokensField: "max_tokens"},
		"key with a header": {API: model.Gemini, Model: "m", Key: "k\r\nX: y"},
	} {
		if _, err := model.New(o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestTurnRefusesInconsistentRequests(t *testing.T) {
	server := start(t, withFault("cut: true"))
	turn := &model.Turn{Calls: []model.FunctionCall{{ID: "a", Name: "f"}, {ID: "b", Name: "f"}}}
	user := model.Message{Text: "hello"}
	for name, r := range map[string]*model.Request{
		"empty":              {},
		"no answers":         {Messages: []model.Message{user, {Turn: turn}}},
		"text first":         {Messages: []model.Message{user, {Turn: turn}, user}},
		"one answer":         {Messages: []model.Message{user, {Turn: turn}, {Answers: []model.Answer{{ID: "a"}}}}},
		"wrong order":        {Messages: []model.Message{user, {Turn: turn}, {Answers: []model.Answer{{ID: "b"}, {ID: "a"}}}}},
		"answers alone":      {Messages: []model.Message{user, {Answers: []model.Answer{{ID: "a"}}}}},
		"empty message":      {Messages: []model.Message{user, {}}},
		"two functions":      {Messages: []model.Message{user}, Tools: []model.Function{{Name: "f"}, {Name: "f"}}},
		"function name":      {Messages: []model.Message{user}, Tools: []model.Function{{Name: "a b"}}},
		"schema is not JSON": {Messages: []model.Message{user}, Tools: []model.Function{{Name: "f", Parameters: json.RawMessage("{")}}},
		"schema is an array": {Messages: []model.Message{user}, Tools: []model.Function{{Name: "f", Parameters: json.RawMessage("[]")}}},
	} {
		for _, api := range apis {
			if _, err := connect(t, server, api).Turn(t.Context(), r, nil); kindOf(err) != model.Invalid {
				t.Errorf("%s, %s: %v", api, name, err)
			}
		}
	}
	if n := len(server.Requests()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// A turn from another API, or one written by a program, is rebuilt from its text and calls.
func TestTurnsAreRebuiltForAnotherAPI(t *testing.T) {
	const script = `conversations: [{turns: [{say: Wait., call: [{name: now, arguments: {zone: UTC}}]}, {expect: {answers: [noon]}, say: Noon.}]}]`
	for api, id := range map[model.API]string{model.Anthropic: "toolu_1_1", model.OpenAI: "call_1_1", model.Chat: "call_1_1", model.Gemini: "f1_1"} {
		for _, from := range []model.API{"", model.Anthropic, model.OpenAI} {
			if from == api {
				continue
			}
			parsed, err := fakemodel.Parse([]byte(script))
			if err != nil {
				t.Fatal(err)
			}
			server, err := fakemodel.New(fakemodel.Options{Script: parsed})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			turn := &model.Turn{
				Text: "Wait.", API: from, Raw: json.RawMessage(`[{"type":"foreign"}]`),
				Calls: []model.FunctionCall{{ID: id, Name: "now", Arguments: json.RawMessage(`{"zone":"UTC"}`)}},
			}
			last, err := connect(t, server, api).Turn(t.Context(), &model.Request{
				Tools:    []model.Function{{Name: "now"}},
				Messages: []model.Message{{Text: "hello"}, {Turn: turn}, {Answers: []model.Answer{{ID: id, Text: "noon"}}}},
			}, nil)
			if err != nil || last.Text != "Noon." {
				t.Errorf("%s from %q: %+v, %v", api, from, last, err)
			}
		}
	}
}

// The server detects every changed byte in an opaque part, so the other tests' conversations prove
// that the drivers do not change any.
func TestServerDetectsChangedParts(t *testing.T) {
	const script = `conversations: [{turns: [{think: "a/b <c>", call: [{name: now}]}, {say: Noon.}]}]`
	for _, api := range apis {
		if api == model.Chat {
			continue // this format has no opaque parts
		}
		server := start(t, script)
		client := connect(t, server, api)
		turn, err := client.Turn(t.Context(), &model.Request{Messages: []model.Message{{Text: "hello"}}, Tools: functions}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var compact strings.Builder
		enc := json.NewEncoder(&compact)
		var decoded any
		if err := errors.Join(json.Unmarshal(turn.Raw, &decoded), enc.Encode(decoded)); err != nil {
			t.Fatal(err)
		}
		turn.Raw = json.RawMessage(compact.String())
		_, err = client.Turn(t.Context(), &model.Request{
			Tools:    functions,
			Messages: []model.Message{{Text: "hello"}, {Turn: turn}, {Answers: []model.Answer{{ID: turn.Calls[0].ID, Text: "noon"}}}},
		}, nil)
		if kindOf(err) != model.Rejected || !strings.Contains(err.Error(), "came back changed") {
			t.Errorf("%s: %v", api, err)
		}
	}
}

func TestCompatibleServers(t *testing.T) {
	for _, quirks := range []string{
		"whole: true", "whole: true, noId: true", "whole: true, noId: true, noIndex: true", "whole: true, zeroIndex: true", "zeroIndex: true",
		"whole: true, noId: true, zeroIndex: true", "noIndex: true", "noId: true", "stop: true", "noUsage: true", "object: true",
		"object: true, noId: true, zeroIndex: true", "reasoning: true", "signature: true", "whole: true, signature: true", "repeatName: true",
		"whole: true, emptyArgs: true", "emptyArgs: true",
	} {
		t.Run(quirks, func(t *testing.T) {
			t.Parallel()
			arguments := "{country: FR}"
			if strings.Contains(quirks, "emptyArgs") {
				arguments = "{}"
			}
			server := start(t, `
conversations:
  - turns:
      - {think: hm, quirks: {`+quirks+`}, call: [{name: vat_rate, arguments: `+arguments+`}, {name: vat_rate, arguments: {country: DE}}, {name: now}]}
      - {expect: {answers: ["", "19", noon]}, say: Done.}
`)
			turns := converse(t, connect(t, server, model.Chat), "hello")
			if len(turns) != 2 || len(turns[0].Calls) != 3 || turns[0].Text != "" || turns[1].Text != "Done." {
				t.Errorf("%+v", turns)
			}
			if estimated := turns[0].Usage.Estimated; estimated != (quirks == "noUsage: true") || turns[0].Usage.Output == 0 {
				t.Errorf("%+v", turns[0].Usage)
			}
		})
	}
}

func TestRequestOptions(t *testing.T) {
	const script = `conversations: [{turns: [{say: ok}]}]`
	for api, want := range map[model.API]string{
		model.Anthropic: `"max_tokens":100`, model.OpenAI: `"max_output_tokens":100`, model.Chat: `"max_tokens":100`, model.Gemini: `"maxOutputTokens":100`,
	} {
		server := start(t, script)
		client := connect(t, server, api, func(o *model.Options) {
			if api == model.Chat {
				o.MaxTokensField = "max_tokens"
			}
		})
		temperature := 0.5
		if _, err := client.Turn(t.Context(), &model.Request{Messages: hello.Messages, MaxOutput: 100, Temperature: &temperature}, nil); err != nil {
			t.Fatal(err)
		}
		if body := string(server.Requests()[0].Body); !strings.Contains(body, want) || !strings.Contains(body, `"temperature":0.5`) {
			t.Errorf("%s: %s", api, body)
		}
	}
}
