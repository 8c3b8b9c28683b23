package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard/acceptance/fakemodel"
)

var allAPIs = []API{Anthropic, OpenAI, Chat, Gemini}

// richTurn has everything that a turn can contain.
var richTurn = &fakemodel.Turn{
	Think: "Think <first> a/b.",
	Say:   "Déjà vu 🇫🇷: ",
	Call: []fakemodel.Call{
		{Name: "vat_rate", Arguments: json.RawMessage(`{"country": "FR"}`)},
		{Name: "now"},
	},
	Usage: &fakemodel.Usage{Input: 100, Cached: 10, Output: 20},
}

func streamOf(api API, t *fakemodel.Turn) []byte { return fakemodel.Stream(string(api), t, 1, nil) }

func readAll(api API, r io.Reader) (*Turn, error) {
	turn, failure := read(r, api, wires[api].decode, 0, func(Event) {})
	if failure != nil {
		return nil, failure
	}
	return turn, nil
}

// pieces returns a reader whose reads end at the given positions.
func pieces(data []byte, ends ...int) io.Reader {
	var list []io.Reader
	start := 0
	for _, end := range ends {
		list = append(list, bytes.NewReader(data[start:end]))
		start = end
	}
	return io.MultiReader(append(list, bytes.NewReader(data[start:]))...)
}

// stride is the distance between the positions at which streams are split and truncated: one byte,
// or more in short mode.
func stride() int {
	if testing.Short() {
		return 7
	}
	return 1
}

func TestAnySplitOfAStreamGivesTheSameTurn(t *testing.T) {
	for _, api := range allAPIs {
		t.Run(string(api), func(t *testing.T) {
			t.Parallel()
			data := streamOf(api, richTurn)
			want, err := readAll(api, bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if len(want.Calls) != 2 || want.Text != richTurn.Say || want.Usage.Input != 100 || want.Usage.Output != 20 {
				t.Fatalf("%+v", want)
			}
			check := func(what string, r io.Reader) {
				t.Helper()
				if got, err := readAll(api, r); err != nil || !cmp.Equal(got, want) {
					t.Fatalf("%s: %v %s", what, err, cmp.Diff(want, got))
				}
			}
			check("single bytes", iotest.OneByteReader(bytes.NewReader(data)))
			check("data with EOF", iotest.DataErrReader(bytes.NewReader(data)))
			check("CRLF", bytes.NewReader(bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))))
			for at := 0; at < len(data); at += stride() {
				check("two reads", pieces(data, at))
			}
			rapid.Check(t, func(t *rapid.T) {
				ends := rapid.SliceOfN(rapid.IntRange(0, len(data)), 0, 8).Draw(t, "ends")
				sorted := []int{}
				for _, end := range ends {
					if len(sorted) == 0 || end >= sorted[len(sorted)-1] {
						sorted = append(sorted, end)
					}
				}
				check("reads", pieces(data, sorted...))
			})
		})
	}
}

func TestStreamsCutAtEveryByteAreErrors(t *testing.T) {
	for _, api := range allAPIs {
		t.Run(string(api), func(t *testing.T) {
			t.Parallel()
			data := streamOf(api, richTurn)
			for _, reset := range []bool{false, true} {
				for end := 0; end < len(data)-1; end += stride() { // the last byte ends the last event
					var r io.Reader = bytes.NewReader(data[:end])
					if reset {
						r = io.MultiReader(r, iotest.ErrReader(errors.New("connection reset")))
					}
					turn, err := readAll(api, r)
					if failed, ok := errors.AsType[*Error](err); !ok || failed.Kind != Unavailable {
						t.Fatalf("cut after %d of %d bytes: %+v, %v", end, len(data), turn, err)
					}
				}
			}
		})
	}
}

// Usage that was counted before a failure is reported, because the provider may charge it.
func TestFailureReportsUsage(t *testing.T) {
	data := streamOf(Anthropic, richTurn)
	_, err := readAll(Anthropic, bytes.NewReader(data[:len(data)/2]))
	if failed, ok := errors.AsType[*Error](err); !ok || failed.Usage.Input != 100 {
		t.Errorf("%+v", err)
	}
}

func TestAttackArguments(t *testing.T) {
	for name, c := range map[string]struct {
		arguments string
		want      string // expected arguments
		invalid   string
		failure   string
	}{
		"not JSON":       {arguments: `{"a": `, invalid: "not"},
		"null":           {arguments: `null`, want: "{}"},
		"array":          {arguments: `[1]`, invalid: "not a JSON object"},
		"number":         {arguments: `17`, invalid: "not a JSON object"},
		"duplicate keys": {arguments: `{"a":1,"a":2}`, invalid: "not valid JSON"},
		"deep":           {arguments: `{"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`, invalid: "not valid JSON"},
		"2 MiB":          {arguments: `{"a":"` + strings.Repeat("x", 2<<20) + `"}`, failure: "exceed"},
	} {
		for _, api := range allAPIs {
			quoted, err := json.Marshal(c.arguments)
			if err != nil {
				t.Fatal(err)
			}
			turn, err := readAll(api, bytes.NewReader(streamOf(api, &fakemodel.Turn{Call: []fakemodel.Call{{Name: "f", Arguments: quoted}}})))
			if c.failure != "" {
				if failed, ok := errors.AsType[*Error](err); !ok || failed.Kind != Invalid || !strings.Contains(failed.Message, c.failure) {
					t.Errorf("%s, %s: %v", api, name, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, %s: %v", api, name, err)
				continue
			}
			call := turn.Calls[0]
			if string(call.Arguments) != c.want || (call.Invalid == "") != (c.invalid == "") || !strings.Contains(call.Invalid, c.invalid) {
				t.Errorf("%s, %s: %+v", api, name, call)
			}
			if !json.Valid(turn.Raw) {
				t.Errorf("%s, %s: raw is not JSON: %s", api, name, turn.Raw)
			}
		}
	}
}

func TestAttackTooManyCalls(t *testing.T) {
	for _, api := range allAPIs {
		calls := make([]fakemodel.Call, MaxCalls+1)
		for i := range calls {
			calls[i].Name = "f"
		}
		if turn, err := readAll(api, bytes.NewReader(streamOf(api, &fakemodel.Turn{Call: calls[1:]}))); err != nil || len(turn.Calls) != MaxCalls {
			t.Errorf("%s: %v", api, err)
		}
		_, err := readAll(api, bytes.NewReader(streamOf(api, &fakemodel.Turn{Call: calls})))
		if failed, ok := errors.AsType[*Error](err); !ok || failed.Kind != Invalid || !strings.Contains(failed.Message, "more than 64 calls") {
			t.Errorf("%s: %v", api, err)
		}
	}
}

func TestAttackCallBesideMaximumOutput(t *testing.T) {
	for _, api := range allAPIs {
		turn, err := readAll(api, bytes.NewReader(streamOf(api, &fakemodel.Turn{Stop: "length", Call: richTurn.Call})))
		if err != nil {
			t.Errorf("%s: %v", api, err)
			continue
		}
		if turn.Stop != StopLength || turn.Calls[0].Invalid != "" || turn.Calls[1].Invalid == "" || turn.Calls[1].Arguments != nil {
			t.Errorf("%s: %+v", api, turn)
		}
	}
}

func TestAttackSameIDTwice(t *testing.T) {
	for api, ids := range map[API][2]string{
		Anthropic: {"toolu_1_2", "toolu_1_1"}, OpenAI: {`"call_1_2"`, `"call_1_1"`}, Gemini: {"f1_2", "f1_1"},
	} {
		data := bytes.ReplaceAll(streamOf(api, richTurn), []byte(ids[0]), []byte(ids[1]))
		_, err := readAll(api, bytes.NewReader(data))
		if err == nil || !strings.Contains(err.Error(), "two calls have the same ID") {
			t.Errorf("%s: %v", api, err)
		}
	}
	chat := events(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"a","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"stop"}]}`, "[DONE]")
	if _, err := readAll(Chat, strings.NewReader(chat)); err == nil || !strings.Contains(err.Error(), "two calls have the same ID") {
		t.Error(err)
	}
}

// events encodes events that have no names.
func events(data ...string) string {
	return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n"
}

func TestAttackStreamsOutOfOrder(t *testing.T) {
	const (
		begin = `{"type":"message_start","message":{"usage":{"input_tokens":1,"output_tokens":1}}}`
		block = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
		end   = `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`
		stop  = `{"type":"message_stop"}`
	)
	for name, c := range map[string]struct {
		api    API
		stream string
		want   string
	}{
		"two message_start":          {Anthropic, events(begin, begin, stop), "received twice"},
		"no message_start":           {Anthropic, events(block, stop), "not message_start"},
		"delta for an unknown block": {Anthropic, events(begin, `{"type":"content_block_delta","index":7,"delta":{"type":"text_delta","text":"x"}}`, stop), "block 7, which is not open"},
		"stop of an unknown block":   {Anthropic, events(begin, `{"type":"content_block_stop","index":7}`, stop), "not open"},
		"block twice":                {Anthropic, events(begin, block, block, stop), "started twice"},
		"stop within a block":        {Anthropic, events(begin, block, end, stop), "in the middle of a block"},
		"no stop reason":             {Anthropic, events(begin, stop), "before it was complete"},
		"call without an ID":         {Anthropic, events(begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"f","input":{}}}`, `{"type":"content_block_stop","index":0}`, end, stop), "no ID"},
		"item without an ID":         {OpenAI, events(`{"type":"response.output_item.done","item":{"type":"function_call","name":"f","arguments":"{}"}}`, `{"type":"response.completed","response":{}}`), "no ID"},
		"item that is no object":     {OpenAI, events(`{"type":"response.output_item.done","item":[1]}`, `{"type":"response.completed","response":{}}`), "invalid"},
		"only [DONE]":                {OpenAI, events("[DONE]"), "before it was complete"},
		"delta of an unknown call":   {Chat, events(`{"choices":[{"delta":{"tool_calls":[{"index":3,"function":{"arguments":"{}"}}]}}]}`, "[DONE]"), "before the call started"},
		"no finish reason":           {Chat, events(`{"choices":[{"delta":{"content":"x"}}]}`, "[DONE]"), "before it was complete"},
		"call without a name":        {Gemini, events(`{"candidates":[{"content":{"parts":[{"functionCall":{"args":{}}}]},"finishReason":"STOP"}]}`), "no function name"},
		"part that is no object":     {Gemini, events(`{"candidates":[{"content":{"parts":[null]},"finishReason":"STOP"}]}`), "invalid"},
		"not JSON":                   {Chat, events("<html>"), "invalid"},
		"not UTF-8":                  {Gemini, events("{\"a\":\"\xff\"}"), "not valid UTF-8"},
		"long event":                 {Chat, events(strings.Repeat(" ", MaxEvent+1)), "exceed"},
		"endless empty events":       {Anthropic, events(begin) + strings.Repeat("data:\n\n", 1000), "before it was complete"},
	} {
		_, err := readAll(c.api, strings.NewReader(c.stream))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, api := range allAPIs {
		_, err := readAll(api, bytes.NewReader(streamOf(api, &fakemodel.Turn{Say: "I cannot help.", Stop: "refused", Usage: richTurn.Usage})))
		if failed, ok := errors.AsType[*Error](err); !ok || failed.Kind != Refused || failed.Usage.Output == 0 {
			t.Errorf("%s: %+v", api, err)
		}
	}
	for name, c := range map[string]struct {
		api    API
		stream string
	}{
		"blocked prompt":    {Gemini, events(`{"promptFeedback":{"blockReason":"SAFETY"}}`)},
		"content filter":    {Chat, events(`{"choices":[{"delta":{},"finish_reason":"content_filter"}]}`, "[DONE]")},
		"incomplete filter": {OpenAI, events(`{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}`)},
	} {
		_, err := readAll(c.api, strings.NewReader(c.stream))
		if failed, ok := errors.AsType[*Error](err); !ok || failed.Kind != Refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Drivers skip events, fields and parts that they do not recognize.
func TestUnknownPartsAreSkipped(t *testing.T) {
	for name, c := range map[string]struct {
		api    API
		stream string
	}{
		"block": {Anthropic, events(`{"type":"message_start","message":{},"x":1}`, `{"type":"news"}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"news","a":[1]}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"news_delta"}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"o"}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"k"}}`, `{"type":"content_block_stop","index":1}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`)},
		"item": {OpenAI, events(`{"type":"response.news"}`, `{"news":1}`, `{"type":"response.output_item.done","output_index":1,"item":{"type":"news"}}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"ok"}]}}`, `{"type":"response.completed","response":{}}`, "[DONE]")},
		"output at the end": {OpenAI, events(`{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"ok"}]}]}}`)},
		"choice":            {Chat, events(`{"news":1}`, `{"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":[{"type":"thinking","thinking":[]},{"type":"text","text":"ok"}]},"finish_reason":"stop"}]}`, "[DONE]")},
		"part":              {Gemini, events(`{"candidates":[{"content":{"parts":[{"news":1},{"thought":true,"text":"hm"},{"text":"ok"}]}}]}`, `{"candidates":[{"finishReason":"STOP"}]}`)},
	} {
		turn, err := readAll(c.api, strings.NewReader(c.stream))
		if err != nil || turn.Text != "ok" || turn.Stop != StopEnd || !turn.Usage.Estimated {
			t.Errorf("%s: %+v, %v", name, turn, err)
		}
	}
}

func FuzzAnthropicStream(f *testing.F) { fuzzStream(f, Anthropic) }
func FuzzResponsesStream(f *testing.F) { fuzzStream(f, OpenAI) }
func FuzzChatStream(f *testing.F)      { fuzzStream(f, Chat) }
func FuzzGeminiStream(f *testing.F)    { fuzzStream(f, Gemini) }

// fuzzStream checks that every stream is either an error or a turn that can be sent back.
func fuzzStream(f *testing.F, api API) {
	f.Helper()
	f.Add(streamOf(api, richTurn))
	f.Add(streamOf(api, &fakemodel.Turn{Say: "text", Stop: "length"}))
	f.Add(streamOf(api, &fakemodel.Turn{Call: richTurn.Call, Quirks: fakemodel.Quirks{NoID: true, Whole: true, ZeroIndex: true}}))
	client := &Client{options: Options{API: api, Model: "m", MaxOutput: 1, MaxTokensField: "max_tokens"}, wire: wires[api]}
	f.Fuzz(func(t *testing.T, data []byte) {
		turn, err := readAll(api, bytes.NewReader(data))
		if err != nil {
			return
		}
		answers := make([]Answer, 0, len(turn.Calls))
		for _, c := range turn.Calls {
			if (c.Invalid == "") != isObject(c.Arguments) {
				t.Errorf("%+v", c)
			}
			answers = append(answers, Answer{ID: c.ID, Text: "x"})
		}
		r := &Request{Messages: []Message{{Text: "q"}, {Turn: turn}}}
		if len(answers) > 0 {
			r.Messages = append(r.Messages, Message{Answers: answers})
		}
		if err := client.check(r); err != nil {
			t.Fatal(err)
		}
		if body := client.wire.encode(&client.options, r); !json.Valid(body) {
			t.Errorf("the request is not JSON: %s", body)
		}
	})
}
