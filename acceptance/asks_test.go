package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// person is an HTTP API client that can answer questions.
type person struct {
	t        *testing.T
	url, key string
}

// turn is the response to a call: a result, questions or a problem.
type turn struct {
	status int
	Result *struct {
		Content []struct{ Text string }
		IsError bool
	}
	InputRequired *struct {
		Questions map[string]struct {
			Message, URL string
			Schema       json.RawMessage
		}
		State string
	}
	Error, Message       string
	RequiredCapabilities map[string]json.RawMessage
}

// call makes a call. more contains additional members of the body, each preceded by a comma.
func (p person) call(tool, args, more string) (got turn) {
	p.t.Helper()
	body := fmt.Sprintf(`{"interactive":true,"tool":%q,"args":%s%s}`, tool, args, more)
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url+"/api/v1/calls", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+p.key)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var raw bytes.Buffer
	if _, err := raw.ReadFrom(res.Body); err != nil {
		p.t.Fatal(err)
	}
	if err := json.Unmarshal(raw.Bytes(), &got); err != nil {
		p.t.Fatalf("%s: %v", &raw, err)
	}
	got.status = res.StatusCode
	return got
}

// ask makes a call that returns one question, and returns the question's key and state.
func (p person) ask(tool, args, more, message string) (key, state string) {
	p.t.Helper()
	got := p.call(tool, args, more)
	if got.status != http.StatusOK || got.Result != nil || got.InputRequired == nil || len(got.InputRequired.Questions) != 1 || got.InputRequired.State == "" {
		p.t.Fatalf("%s asked no question: %+v", tool, got)
	}
	for key, q := range got.InputRequired.Questions {
		if q.Message != message || !json.Valid(q.Schema) || q.URL != "" {
			p.t.Errorf("%s asks %+v", tool, q)
		}
		return key, got.InputRequired.State
	}
	return "", ""
}

// ends checks that a call returned the given text.
func (p person) ends(got turn, want string) {
	p.t.Helper()
	if got.status != http.StatusOK || got.InputRequired != nil || got.Result == nil || got.Result.IsError || len(got.Result.Content) != 1 || got.Result.Content[0].Text != want {
		p.t.Errorf("%+v, want %s", got, want)
	}
}

// filled returns the JSON members that accept a question.
func filled(key, state, content string) string {
	return fmt.Sprintf(`,"state":%q,"answers":{%q:{"action":"accept","content":%s}}`, state, key, content)
}

// A tool can ask a caller of the HTTP API as many questions as it needs.
func TestQuestionsOverHTTP(t *testing.T) {
	t.Parallel()
	p := serve(t, "testyard", "", "TESTYARD_KEYS=a=ann b=bob")
	base := "http://" + p.address()
	ann, bob := person{t, base, "a"}, person{t, base, "b"}

	const args, form = `{"message":"Who?"}`, `{"username":"ann","email":"ann@example.com"}`
	key, state := ann.ask("test_elicitation", args, "", "Who?")
	for name, got := range map[string]turn{
		"bob with ann's state":     bob.call("test_elicitation", args, filled(key, state, form)),
		"other arguments":          ann.call("test_elicitation", `{"message":"Why?"}`, filled(key, state, form)),
		"another tool":             ann.call("test_input_required_result_elicitation", `{}`, filled(key, state, form)),
		"a state that was changed": ann.call("test_elicitation", args, filled(key, state+"A", form)),
		"answers without a state":  ann.call("test_elicitation", args, strings.Replace(filled(key, state, form), fmt.Sprintf(`"state":%q,`, state), "", 1)),
	} {
		if got.status != http.StatusBadRequest || got.Error != "VALIDATION_ERROR" || !strings.Contains(got.Message, "state") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	ann.ends(ann.call("test_elicitation", args, filled(key, state, form)), `User response: {"action":"accept","content":`+form+`}`)
	if again := ann.call("test_elicitation", args, filled(key, state, form)); again.status != http.StatusBadRequest {
		t.Errorf("the state was accepted twice: %+v", again)
	}

	const rounds = "test_input_required_result_multi_round"
	key, state = ann.ask(rounds, "{}", "", "Step 1: What is your name?")
	key, state = ann.ask(rounds, "{}", filled(key, state, `{"name":"Ann"}`), "Step 2: What is your favorite color?")
	ann.ends(ann.call(rounds, "{}", filled(key, state, `{"color":"green"}`)), "both answered")

	for tool, need := range map[string]string{"test_input_required_result_sampling": "sampling", "test_input_required_result_list_roots": "roots"} {
		got := ann.call(tool, "{}", "")
		if _, named := got.RequiredCapabilities[need]; got.status != http.StatusBadRequest || got.Error != "MISSING_CAPABILITY" || !named {
			t.Errorf("%s: %+v", tool, got)
		}
	}
}

// MCP servers of both eras can ask questions over the HTTP API.
func TestUpstreamQuestionsOverHTTP(t *testing.T) {
	t.Parallel()
	eachUpstream(t, func(t *testing.T, configured func(...string) string) {
		p := serve(t, "toolyard", servers(configured()))
		ann := person{t: t, url: "http://" + p.address()}
		key, state := ann.ask("mcp_up__ask", "{}", "", "Who are you?")
		ann.ends(ann.call("mcp_up__ask", "{}", filled(key, state, `{"name":"Ann"}`)), "Hello, Ann!")
		key, state = ann.ask("mcp_up__ask", "{}", "", "Who are you?")
		ann.ends(ann.call("mcp_up__ask", "{}", fmt.Sprintf(`,"state":%q,"answers":{%q:{"action":"decline"}}`, state, key)), "decline")
	})
}
