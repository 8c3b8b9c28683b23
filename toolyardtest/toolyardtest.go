// Package toolyardtest provides helpers for tests of tools and sources.
//
//	func TestHello(t *testing.T) {
//		res, err := toolyardtest.Call(t, Hello, `{"name":"Ann"}`, nil)
//		if err != nil || toolyardtest.Text(res) != "Hello, Ann!" {
//			t.Error(res, err)
//		}
//	}
package toolyardtest

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
)

// Options describe a test call. A nil *Options selects the defaults.
type Options struct {
	Caller             toolyard.Caller   // defaults to {ID: "test", Account: "test"}
	Mode               toolyard.Mode     // defaults to Write
	AsOf               time.Time         // defaults to AsOf, 2026-01-02 03:04:05 UTC
	Clients            *toolyard.Clients // clients lent to the tool
	ClientCapabilities json.RawMessage   // capabilities that the MCP client declares
	OnProgress         func(done, total float64, message string)

	// Answer answers the tool's questions with an MCP elicitation result, such as
	// {"action":"accept","content":{"name":"Ann"}}. If it is nil, the client cannot ask its user.
	Answer func(toolyard.Question) string
}

// AsOf is the default as-of time of test calls.
var AsOf = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Call calls a tool as the platform does: it sets defaults, validates the arguments, recovers from
// panics and checks the output. The arguments are JSON. The tool's log goes to the test's log. An
// error is always a *toolyard.Error.
func Call(t testing.TB, tool *toolyard.Tool, args string, opts *Options) (*toolyard.Result, error) {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	c := &toolyard.Call{
		ID: "test", Tool: tool, Args: json.RawMessage(args), Gate: "test",
		Caller: opts.Caller, Mode: cmp.Or(opts.Mode, toolyard.Write), AsOf: opts.AsOf,
		Request:     toolyard.Request{ClientCapabilities: opts.ClientCapabilities, OnProgress: opts.OnProgress},
		Environment: toolyard.Environment{Clients: opts.Clients, Log: slog.New(slog.NewTextHandler(t.Output(), nil))},
	}
	if c.Caller.ID == "" {
		c.Caller.ID, c.Caller.Account = "test", "test"
	}
	if c.AsOf.IsZero() {
		c.AsOf = AsOf
	}
	if opts.Answer != nil && c.ClientCapabilities == nil {
		c.ClientCapabilities = json.RawMessage(`{"elicitation":{"form":{},"url":{}}}`)
	}
	if !tool.AllowedIn(c.Mode) {
		return nil, toolyard.Errorf(toolyard.UnknownTool, "Tool %s not allowed in mode %s", tool.Name, c.Mode)
	}
	path := callpath.Chain(callpath.Run, callpath.Record(time.Now), callpath.Recover(), callpath.Validate(30*time.Second), callpath.Deadline(30*time.Second))
	for range maxRounds {
		res, err := path(t.Context(), c)
		if err != nil || !res.InputRequired() || opts.Answer == nil {
			return res, err
		}
		answer(t, c, res, opts.Answer)
	}
	return nil, toolyard.Errorf(toolyard.Failed, "%s was stopped after requesting input %d times.", tool.Name, maxRounds)
}

// maxRounds limits how many times one call may ask questions.
const maxRounds = 8

// answer answers the questions in an unfinished result and adds the answers to the call, so that it
// can continue.
func answer(t testing.TB, c *toolyard.Call, res *toolyard.Result, of func(toolyard.Question) string) {
	t.Helper()
	var input struct {
		InputRequests map[string]struct {
			Params struct {
				Message         string
				RequestedSchema json.RawMessage
				URL             string
			}
		}
		RequestState string
	}
	if err := json.Unmarshal(res.Raw(), &input); err != nil {
		t.Fatal(err)
	}
	answers := make(map[string]json.RawMessage)
	for key, r := range input.InputRequests {
		answers[key] = json.RawMessage(of(toolyard.Question{Key: key, Message: r.Params.Message, Schema: r.Params.RequestedSchema, URL: r.Params.URL}))
	}
	raw, err := json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	c.InputResponses, c.RequestState = raw, input.RequestState
}

// Text returns the text of a result, one line per item.
func Text(res *toolyard.Result) string {
	if res == nil {
		return ""
	}
	var texts []string
	for _, c := range res.Content {
		if text, ok := c.(toolyard.Text); ok {
			texts = append(texts, string(text))
		}
	}
	return strings.Join(texts, "\n")
}

// TestSource checks an implementation of toolyard.Source: it publishes tools with unique names,
// returns soon after its context ends, publishes nothing after that, and can run again.
// newSource returns a source that is ready to run.
func TestSource(t *testing.T, newSource func(t *testing.T) toolyard.Source) {
	const soon = 30 * time.Second // generous enough for a busy machine
	source := newSource(t)
	for _, run := range []string{"first run", "second run"} {
		t.Run(run, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			published, ended := make(chan []*toolyard.Tool, 100), make(chan error, 1)
			go func() {
				ended <- source.Run(ctx, func(offer toolyard.Offer) { published <- offer.Tools })
			}()
			select {
			case tools := <-published:
				checkNames(t, tools)
			case err := <-ended:
				ended <- err
				select {
				case tools := <-published:
					checkNames(t, tools)
				default:
					t.Fatalf("returned before it published: %v", err)
				}
			case <-time.After(soon):
				t.Fatalf("published nothing within %v", soon)
			}
			cancel()
			select {
			case <-ended:
			case <-time.After(soon):
				t.Fatalf("did not return within %v after its context ended", soon)
			}
			before := len(published)
			time.Sleep(20 * time.Millisecond)
			if after := len(published); after > before {
				t.Errorf("published %d times after it returned", after-before)
			}
		})
	}
}

func checkNames(t *testing.T, tools []*toolyard.Tool) {
	seen := make(map[[2]string]bool)
	for _, tool := range tools {
		id := [2]string{tool.Server, tool.Name}
		if seen[id] {
			t.Errorf("duplicate tool %v", id)
		}
		seen[id] = true
	}
}
