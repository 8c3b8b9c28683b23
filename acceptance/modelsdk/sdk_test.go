package modelsdk

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
	"google.golang.org/genai"

	"github.com/toolyard/toolyard/acceptance/fakemodel"
	"github.com/toolyard/toolyard/agent/model"
)

// script contains everything that a conversation can contain: thinking with signatures, text
// together with calls, several calls in a turn, and opaque parts in two turns.
const script = `
conversations:
  - turns:
      - expect: {tools: [vat_rate], text: [VAT in France]}
        think: "First <the> rate, then the weather: a/b & c."
        say: Let me look that up.
        call: [{name: vat_rate, arguments: {country: FR}}, {name: vat_rate, arguments: {country: "D/E <b>"}}]
        usage: {input: 900, cached: 400, output: 60, reasoning: 20}
      - expect: {answers: ["rate of FR", "rate of D/E <b>"]}
        think: One more.
        call: [{name: vat_rate, arguments: {country: IT}}]
      - expect: {answers: [rate of IT]}
        think: Done.
        say: "Known: {answer:1}, {answer:3}."
`

const (
	question = "What is the VAT in France?"
	final    = "Known: rate of FR, rate of IT."
)

// conversation is a client for one wire format. It stores the history.
type conversation interface {
	// turn sends the history and adds the model's turn to it.
	turn(ctx context.Context) (text string, calls []call, input, output int64, err error)
	// answer adds the answers to the last calls.
	answer(texts []string)
}

type call struct{ id, name, arguments string }

// start starts the server and a client for each wire format.
func start(t *testing.T, exact bool) (*fakemodel.Server, map[string]conversation) {
	t.Helper()
	parsed, err := fakemodel.Parse([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	server, err := fakemodel.New(fakemodel.Options{Script: parsed, Exact: exact})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	if !exact {
		return server, map[string]conversation{
			"anthropic": newAnthropic(server), "openai": newResponses(server), "chat": newChat(server), "gemini": newGemini(t, server),
		}
	}
	own := map[string]conversation{}
	for _, api := range []model.API{model.Anthropic, model.OpenAI, model.Chat, model.Gemini} {
		own[string(api)] = newDriver(t, server, api)
	}
	return server, own
}

// run runs the script to its end.
func run(t *testing.T, c conversation) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for number, want := range []int{2, 1, 0} {
		text, calls, input, output, err := c.turn(ctx)
		if err != nil {
			t.Fatalf("turn %d: %v", number+1, err)
		}
		if len(calls) != want {
			t.Fatalf("turn %d: %d calls, want %d", number+1, len(calls), want)
		}
		switch {
		case number == 0 && (text != "Let me look that up." || input != 900 || output != 60):
			t.Errorf("turn 1: %q, %d and %d tokens", text, input, output)
		case number == 2 && text != final:
			t.Errorf("turn 3: %q, want %q", text, final)
		}
		var answers []string
		for _, call := range calls {
			var arguments struct{ Country string }
			if err := json.Unmarshal([]byte(call.arguments), &arguments); err != nil || call.name != "vat_rate" {
				t.Errorf("turn %d: call %+v: %v", number+1, call, err)
			}
			answers = append(answers, "rate of "+arguments.Country)
		}
		c.answer(answers)
	}
}

func TestSDKsAndServerUnderstandEachOther(t *testing.T) {
	server, clients := start(t, false)
	for name, c := range clients {
		t.Run(name, func(t *testing.T) { run(t, c) })
	}
	for _, f := range server.Failures() {
		t.Error(f)
	}
}

func TestDriversPassTheSameServer(t *testing.T) {
	server, clients := start(t, true)
	for name, c := range clients {
		t.Run(name, func(t *testing.T) { run(t, c) })
	}
	for _, f := range server.Failures() {
		t.Error(f)
	}
}

// The server refuses whatever a provider would refuse, even from an SDK.
func TestServerRefusesAlteredSignatures(t *testing.T) {
	server, _ := start(t, false)
	client := newAnthropic(server)
	_, calls, _, _, err := client.turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	block := client.params.Messages[1].Content[0].OfThinking
	block.Signature += "x"
	client.answer(make([]string, len(calls)))
	if _, _, _, _, err := client.turn(t.Context()); err == nil || !strings.Contains(err.Error(), "came back changed") {
		t.Errorf("an altered signature: %v", err)
	}
}

var schema = map[string]any{"type": "object", "properties": map[string]any{"country": map[string]any{"type": "string"}}, "required": []string{"country"}}

// anthropicClient uses anthropic-sdk-go.
type anthropicClient struct {
	client anthropic.Client
	params anthropic.MessageNewParams
	last   []call
}

func newAnthropic(s *fakemodel.Server) *anthropicClient {
	return &anthropicClient{
		client: anthropic.NewClient(anthropicoption.WithBaseURL(s.BaseURL("anthropic")), anthropicoption.WithAPIKey(fakemodel.Key), anthropicoption.WithMaxRetries(0)),
		params: anthropic.MessageNewParams{
			Model: "fake", MaxTokens: 1000,
			System:   []anthropic.TextBlockParam{{Text: "Be brief."}},
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(question))},
			Tools: []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
				Name: "vat_rate", Description: anthropic.String("VAT"),
				InputSchema: anthropic.ToolInputSchemaParam{Properties: schema["properties"], Required: []string{"country"}},
			}}},
		},
	}
}

func (c *anthropicClient) turn(ctx context.Context) (text string, calls []call, input, output int64, err error) {
	stream := c.client.Messages.NewStreaming(ctx, c.params)
	defer func() { _ = stream.Close() }()
	var m anthropic.Message
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil {
			return "", nil, 0, 0, err
		}
	}
	if stream.Err() != nil {
		return "", nil, 0, 0, stream.Err()
	}
	thought := false
	for _, block := range m.Content {
		switch b := block.AsAny().(type) {
		case anthropic.ThinkingBlock:
			thought = b.Thinking != "" && b.Signature != ""
		case anthropic.TextBlock:
			text += b.Text
		case anthropic.ToolUseBlock:
			calls = append(calls, call{b.ID, b.Name, string(b.Input)})
		}
	}
	if !thought {
		return "", nil, 0, 0, fmt.Errorf("no signed thinking in %s", m.RawJSON())
	}
	c.params.Messages = append(c.params.Messages, m.ToParam())
	c.last = calls
	return text, calls, m.Usage.InputTokens + m.Usage.CacheReadInputTokens, m.Usage.OutputTokens, nil
}

func (c *anthropicClient) answer(texts []string) {
	var blocks []anthropic.ContentBlockParamUnion
	for i, call := range c.last {
		blocks = append(blocks, anthropic.NewToolResultBlock(call.id, texts[i], false))
	}
	c.params.Messages = append(c.params.Messages, anthropic.NewUserMessage(blocks...))
}

func newOpenAI(s *fakemodel.Server) openai.Client {
	return openai.NewClient(openaioption.WithBaseURL(s.BaseURL("openai")), openaioption.WithAPIKey(fakemodel.Key), openaioption.WithMaxRetries(0))
}

// responsesClient uses openai-go with the Responses API.
type responsesClient struct {
	client openai.Client
	params responses.ResponseNewParams
	input  responses.ResponseInputParam
	last   []call
}

func newResponses(s *fakemodel.Server) *responsesClient {
	return &responsesClient{
		client: newOpenAI(s),
		input:  responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage(question, "user")},
		params: responses.ResponseNewParams{
			Model: "fake", Instructions: openai.String("Be brief."), Store: openai.Bool(false), MaxOutputTokens: openai.Int(1000),
			Include: []responses.ResponseIncludable{"reasoning.encrypted_content"},
			Tools: []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{
				Name: "vat_rate", Parameters: schema, Strict: openai.Bool(false), Description: openai.String("VAT"),
			}}},
		},
	}
}

func (c *responsesClient) turn(ctx context.Context) (text string, calls []call, input, output int64, err error) {
	c.params.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: c.input}
	stream := c.client.Responses.NewStreaming(ctx, c.params)
	defer func() { _ = stream.Close() }()
	var deltas string
	var done *responses.Response
	for stream.Next() {
		switch e := stream.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			deltas += e.Delta
		case responses.ResponseCompletedEvent:
			done = &e.Response
		}
	}
	if stream.Err() != nil || done == nil {
		return "", nil, 0, 0, fmt.Errorf("the stream ended: %w", stream.Err())
	}
	thought := false
	for _, item := range done.Output {
		switch i := item.AsAny().(type) {
		case responses.ResponseReasoningItem:
			thought = i.EncryptedContent != ""
			p := i.ToParam()
			c.input = append(c.input, responses.ResponseInputItemUnionParam{OfReasoning: &p})
		case responses.ResponseOutputMessage:
			p := i.ToParam()
			c.input = append(c.input, responses.ResponseInputItemUnionParam{OfOutputMessage: &p})
		case responses.ResponseFunctionToolCall:
			p := i.ToParam()
			c.input = append(c.input, responses.ResponseInputItemUnionParam{OfFunctionCall: &p})
			calls = append(calls, call{i.CallID, i.Name, i.Arguments})
		}
	}
	if text = done.OutputText(); text != deltas || !thought {
		return "", nil, 0, 0, fmt.Errorf("deltas %q, text %q, reasoning %v", deltas, text, thought)
	}
	c.last = calls
	return text, calls, done.Usage.InputTokens, done.Usage.OutputTokens, nil
}

func (c *responsesClient) answer(texts []string) {
	for i, call := range c.last {
		item := responses.ResponseInputItemParamOfFunctionCallOutput(texts[i])
		item.OfFunctionCallOutput.CallID = openai.String(call.id)
		c.input = append(c.input, item)
	}
}

// chatClient uses openai-go with Chat Completions.
type chatClient struct {
	client openai.Client
	params openai.ChatCompletionNewParams
	last   []call
}

func newChat(s *fakemodel.Server) *chatClient {
	return &chatClient{
		client: newOpenAI(s),
		params: openai.ChatCompletionNewParams{
			Model: "fake", MaxCompletionTokens: openai.Int(1000),
			StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
			Messages:      []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Be brief."), openai.UserMessage(question)},
			Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
				Name: "vat_rate", Parameters: schema, Description: openai.String("VAT"),
			})},
		},
	}
}

func (c *chatClient) turn(ctx context.Context) (text string, calls []call, input, output int64, err error) {
	stream := c.client.Chat.Completions.NewStreaming(ctx, c.params)
	defer func() { _ = stream.Close() }()
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			return "", nil, 0, 0, fmt.Errorf("a chunk does not fit: %s", stream.Current().RawJSON())
		}
	}
	if stream.Err() != nil {
		return "", nil, 0, 0, stream.Err()
	}
	m := acc.Choices[0].Message
	for _, tool := range m.ToolCalls {
		calls = append(calls, call{tool.ID, tool.Function.Name, tool.Function.Arguments})
	}
	c.params.Messages = append(c.params.Messages, m.ToParam())
	c.last = calls
	return m.Content, calls, acc.Usage.PromptTokens, acc.Usage.CompletionTokens, nil
}

func (c *chatClient) answer(texts []string) {
	for i, call := range c.last {
		c.params.Messages = append(c.params.Messages, openai.ToolMessage(texts[i], call.id))
	}
}

// geminiClient uses genai.
type geminiClient struct {
	client   *genai.Client
	contents []*genai.Content
	last     []*genai.FunctionCall
}

func newGemini(t *testing.T, s *fakemodel.Server) *geminiClient {
	t.Helper()
	client, err := genai.NewClient(t.Context(), &genai.ClientConfig{
		APIKey: fakemodel.Key, Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: s.BaseURL("gemini")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &geminiClient{client: client, contents: genai.Text(question)}
}

func (c *geminiClient) turn(ctx context.Context) (text string, calls []call, input, output int64, err error) {
	config := &genai.GenerateContentConfig{
		MaxOutputTokens: 1000, SystemInstruction: genai.NewContentFromText("Be brief.", "user"),
		Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "vat_rate", Description: "VAT", ParametersJsonSchema: schema}}}},
	}
	turn := &genai.Content{Role: "model"}
	c.last = nil
	signed := false
	for chunk, err := range c.client.Models.GenerateContentStream(ctx, "fake", c.contents, config) {
		if err != nil {
			return "", nil, 0, 0, err
		}
		for _, part := range chunk.Candidates[0].Content.Parts {
			turn.Parts = append(turn.Parts, part)
			signed = signed || len(part.ThoughtSignature) > 0
			switch {
			case part.FunctionCall != nil:
				c.last = append(c.last, part.FunctionCall)
				arguments, err := json.Marshal(part.FunctionCall.Args)
				if err != nil {
					return "", nil, 0, 0, err
				}
				calls = append(calls, call{part.FunctionCall.ID, part.FunctionCall.Name, string(arguments)})
			case !part.Thought:
				text += part.Text
			}
		}
		u := chunk.UsageMetadata
		input, output = int64(u.PromptTokenCount), int64(u.CandidatesTokenCount+u.ThoughtsTokenCount)
	}
	if !signed {
		return "", nil, 0, 0, fmt.Errorf("no signature in %d parts", len(turn.Parts))
	}
	c.contents = append(c.contents, turn)
	return text, calls, input, output, nil
}

func (c *geminiClient) answer(texts []string) {
	answers := &genai.Content{Role: "user"}
	for i, call := range c.last {
		answers.Parts = append(answers.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{
			ID: call.ID, Name: call.Name, Response: map[string]any{"output": texts[i]},
		}})
	}
	c.contents = append(c.contents, answers)
}

// driverClient uses one of package model's drivers.
type driverClient struct {
	client   *model.Client
	messages []model.Message
}

func newDriver(t *testing.T, s *fakemodel.Server, api model.API) *driverClient {
	t.Helper()
	client, err := model.New(model.Options{API: api, URL: s.BaseURL(string(api)), Model: "fake", Key: fakemodel.Key, Private: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &driverClient{client: client, messages: []model.Message{{Text: question}}}
}

func (c *driverClient) turn(ctx context.Context) (text string, calls []call, input, output int64, err error) {
	parameters, err := json.Marshal(schema)
	if err != nil {
		return "", nil, 0, 0, err
	}
	turn, err := c.client.Turn(ctx, &model.Request{
		System: "Be brief.", Messages: c.messages,
		Tools: []model.Function{{Name: "vat_rate", Description: "VAT", Parameters: parameters}},
	}, nil)
	if err != nil {
		return "", nil, 0, 0, err
	}
	for _, f := range turn.Calls {
		calls = append(calls, call{f.ID, f.Name, string(f.Arguments)})
	}
	c.messages = append(c.messages, model.Message{Turn: turn})
	return turn.Text, calls, turn.Usage.Input, turn.Usage.Output, nil
}

func (c *driverClient) answer(texts []string) {
	last := c.messages[len(c.messages)-1].Turn
	var answers []model.Answer
	for i, call := range last.Calls {
		answers = append(answers, model.Answer{ID: call.ID, Text: texts[i]})
	}
	c.messages = append(c.messages, model.Message{Answers: answers})
}
