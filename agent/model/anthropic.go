package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

var anthropicWire = wire{
	base:   "https://api.anthropic.com",
	path:   func(string) string { return "/v1/messages" },
	auth:   func(key string) (string, string) { return "X-Api-Key", key },
	fixed:  map[string]string{"Anthropic-Version": "2023-06-01"},
	encode: encodeAnthropic,
	decode: func(b *builder) decoder { return &anthropicDecoder{builder: b, blocks: map[int]*anthropicBlock{}} },
}

// cached marks the end of a prefix that the provider may cache.
var cached = json.RawMessage(`{"type":"ephemeral"}`)

func encodeAnthropic(o *Options, r *Request) []byte {
	w := newWriter(r)
	w.open('{')
	w.member("model", o.Model)
	w.key("max_tokens").int(maxOutput(o, r))
	w.key("stream").bool(true)
	w.temperature(r)
	if r.System != "" {
		w.key("system").open('[')
		w.open('{')
		w.member("type", "text")
		w.member("text", r.System)
		w.key("cache_control").raw(cached)
		w.close("}]")
	}
	if len(r.Tools) > 0 {
		w.key("tools").open('[')
		for i := range r.Tools {
			f := &r.Tools[i]
			w.open('{')
			w.member("name", f.Name)
			w.member("description", f.Description)
			w.key("input_schema").raw(f.schema())
			w.close("}")
		}
		w.close("]")
		w.key("tool_choice").open('{')
		w.member("type", toolChoice(r))
		w.close("}")
	}
	w.key("messages").open('[')
	anthropicMessages(w, r.Messages)
	w.close("]}")
	return w.out
}

// anthropicMessages encodes a conversation. Adjacent user messages are merged into one, so that
// answers precede text.
func anthropicMessages(w *writer, list []Message) {
	user := false // whether a user message is open
	begin := func(role string) {
		w.open('{')
		w.member("role", role)
		w.key("content").open('[')
	}
	flush := func() {
		if user {
			w.close("]}")
		}
		user = false
	}
	for i := range list {
		m, last := &list[i], i == len(list)-1
		if m.Turn != nil {
			if blocks := anthropicBlocks(m.Turn); blocks != nil {
				flush()
				begin("assistant")
				w.raw(blocks)
				w.close("]}")
			}
			continue
		}
		if !user {
			begin("user")
			user = true
		}
		if m.Text != "" {
			anthropicText(w, m.Text, last)
		}
		for k := range m.Answers {
			anthropicAnswer(w, &m.Answers[k], last && k == len(m.Answers)-1)
		}
	}
	flush()
}

// anthropicText encodes a text block. If mark is set, the block ends the prefix that the provider
// may cache.
func anthropicText(w *writer, text string, mark bool) {
	w.open('{')
	w.member("type", "text")
	w.member("text", text)
	anthropicEnd(w, mark)
}

func anthropicAnswer(w *writer, a *Answer, mark bool) {
	w.open('{')
	w.member("type", "tool_result")
	w.member("tool_use_id", a.ID)
	w.key("is_error").bool(a.Failed)
	if a.Text != "" { // the provider refuses empty text
		w.key("content").open('[')
		anthropicText(w, a.Text, false)
		w.close("]")
	}
	anthropicEnd(w, mark)
}

// anthropicEnd ends a block.
func anthropicEnd(w *writer, mark bool) {
	if mark {
		w.key("cache_control").raw(cached)
	}
	w.close("}")
}

// anthropicBlocks returns a turn's blocks with commas between them, or nil if there are none.
func anthropicBlocks(t *Turn) []byte {
	if raw := t.raw(Anthropic); raw != nil {
		return interior(raw)
	}
	w := &writer{}
	if t.Text != "" {
		anthropicText(w, t.Text, false)
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		w.open('{')
		w.member("type", "tool_use")
		w.member("id", c.ID)
		w.member("name", c.Name)
		w.key("input").raw(c.arguments())
		w.close("}")
	}
	return w.out
}

type anthropicDecoder struct {
	*builder
	started bool
	blocks  map[int]*anthropicBlock
	raw     []json.RawMessage // closed blocks
	usage   anthropicUsage
}

// anthropicBlock is a block that is still being received.
type anthropicBlock struct {
	first  json.RawMessage // the block as it was received at its start
	kind   string
	fields map[string]*strings.Builder // values that arrive in parts
	cites  []json.RawMessage
}

type anthropicUsage struct {
	Input      *int64 `json:"input_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	Output     *int64 `json:"output_tokens"`
}

type anthropicEvent struct {
	Type    string `json:"type"`
	Message struct {
		Usage anthropicUsage `json:"usage"`
	} `json:"message"`
	Index        int             `json:"index"`
	ContentBlock json.RawMessage `json:"content_block"`
	Delta        json.RawMessage `json:"delta"`
	Usage        anthropicUsage  `json:"usage"`
}

func (d *anthropicDecoder) event(data []byte) (last bool, err error) {
	var e anthropicEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return false, fmt.Errorf("invalid event: %w", err)
	}
	switch e.Type {
	case "error":
		return false, parseProviderError(data).failure()
	case "message_start":
		if d.started {
			return false, errors.New("message_start received twice")
		}
		d.started = true
		d.countUsage(&e.Message.Usage)
		return false, nil
	case "ping":
		return false, nil
	}
	if !d.started {
		return false, errors.New("the first event is not message_start")
	}
	switch e.Type {
	case "content_block_start":
		return false, d.open(&e)
	case "content_block_delta":
		return false, d.extend(&e)
	case "content_block_stop":
		return false, d.close(&e)
	case "message_delta":
		d.countUsage(&e.Usage)
		return false, d.endWith(e.Delta)
	case "message_stop":
		if len(d.blocks) > 0 {
			return false, errors.New("the message ended in the middle of a block")
		}
		d.turn.Raw = array(d.raw)
		return true, nil
	}
	return false, nil
}

func (d *anthropicDecoder) end() error { return errIncomplete }

func (d *anthropicDecoder) open(e *anthropicEvent) error {
	if err := d.addPart(); err != nil {
		return err
	}
	if d.blocks[e.Index] != nil {
		return fmt.Errorf("block %d started twice", e.Index)
	}
	if !isObject(e.ContentBlock) || strictjson.Check(e.ContentBlock) != nil {
		return fmt.Errorf("block %d is not an object", e.Index)
	}
	var begin struct{ Type, Name, Text string }
	if err := json.Unmarshal(e.ContentBlock, &begin); err != nil {
		return fmt.Errorf("invalid block %d: %w", e.Index, err)
	}
	d.blocks[e.Index] = &anthropicBlock{first: e.ContentBlock, kind: begin.Type, fields: map[string]*strings.Builder{}}
	if begin.Type == "tool_use" {
		d.beginCall(begin.Name)
	}
	if begin.Type == "text" {
		d.addText(begin.Text)
	}
	return nil
}

func (d *anthropicDecoder) extend(e *anthropicEvent) error {
	b := d.blocks[e.Index]
	if b == nil {
		return fmt.Errorf("received a delta for block %d, which is not open", e.Index)
	}
	var delta struct {
		Type, Text, Thinking, Signature string
		PartialJSON                     string          `json:"partial_json"`
		Citation                        json.RawMessage `json:"citation"`
	}
	if err := json.Unmarshal(e.Delta, &delta); err != nil {
		return fmt.Errorf("a delta of invalid block %d: %w", e.Index, err)
	}
	switch delta.Type {
	case "text_delta":
		b.add("text", delta.Text)
		d.addText(delta.Text)
	case "thinking_delta":
		b.add("thinking", delta.Thinking)
	case "signature_delta":
		b.add("signature", delta.Signature)
	case "input_json_delta":
		b.add("input", delta.PartialJSON)
	case "citations_delta":
		if err := d.addPart(); err != nil {
			return err
		}
		b.cites = append(b.cites, delta.Citation)
	}
	return nil
}

// add appends to a field. The result begins with the field's value at the start of the block,
// unless that is a placeholder for the input.
func (b *anthropicBlock) add(field, part string) {
	f := b.fields[field]
	if f == nil {
		f = &strings.Builder{}
		if value, ok := strictjson.String(strictjson.Member(b.first, field)); ok && field != "input" {
			f.WriteString(value)
		}
		b.fields[field] = f
	}
	f.WriteString(part)
}

func (d *anthropicDecoder) close(e *anthropicEvent) error {
	b := d.blocks[e.Index]
	if b == nil {
		return fmt.Errorf("block %d ended but was not open", e.Index)
	}
	delete(d.blocks, e.Index)
	input := string(strictjson.Member(b.first, "input"))
	if f := b.fields["input"]; f != nil && f.Len() > 0 {
		input = f.String()
	}
	if b.kind == "tool_use" {
		id, _ := strictjson.String(strictjson.Member(b.first, "id"))
		name, _ := strictjson.String(strictjson.Member(b.first, "name"))
		if id == "" {
			return errNoID
		}
		if err := d.addCall(id, name, input); err != nil {
			return err
		}
	}
	if raw := b.complete(input); raw != nil {
		d.raw = append(d.raw, raw)
	}
	return nil
}

// complete returns the block as it would appear in a non-streaming response, or nil for empty text,
// which the provider would refuse.
func (b *anthropicBlock) complete(input string) json.RawMessage {
	values := map[string]json.RawMessage{}
	for name, f := range b.fields {
		values[name] = quote(f.String())
	}
	if object, reason := parseArguments(input); reason == "" {
		values["input"] = object
	} else {
		values["input"] = json.RawMessage("{}")
	}
	if b.cites != nil {
		values["citations"] = array(b.cites)
	}
	w := &writer{}
	w.open('{')
	for name, value := range strictjson.Members(b.first) {
		if replaced := values[name]; replaced != nil {
			value = replaced
			delete(values, name)
		}
		w.key(name).raw(value)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if name != "input" {
			w.key(name).raw(values[name])
		}
	}
	w.close("}")
	block := json.RawMessage(w.out)
	if text, ok := strictjson.String(strictjson.Member(block, "text")); ok && b.kind == "text" && text == "" {
		return nil
	}
	return block
}

// countUsage records the token counts in an event. Later counts replace earlier ones.
func (d *anthropicDecoder) countUsage(u *anthropicUsage) {
	for _, f := range []struct{ to, from **int64 }{
		{&d.usage.Input, &u.Input},
		{&d.usage.CacheRead, &u.CacheRead},
		{&d.usage.CacheWrite, &u.CacheWrite},
		{&d.usage.Output, &u.Output},
	} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
	if d.usage.Input == nil || d.usage.Output == nil {
		return
	}
	value := func(p *int64) int64 {
		if p == nil {
			return 0
		}
		return *p
	}
	read, write := value(d.usage.CacheRead), value(d.usage.CacheWrite)
	d.count(Usage{Input: *d.usage.Input + read + write, Cached: read, CacheWrite: write, Output: *d.usage.Output})
}

func (d *anthropicDecoder) endWith(delta json.RawMessage) error {
	var e struct {
		StopReason string `json:"stop_reason"`
	}
	if err := json.Unmarshal(delta, &e); err != nil {
		return fmt.Errorf("invalid end of message: %w", err)
	}
	switch e.StopReason {
	case "":
		return nil
	case "max_tokens":
		d.stop(StopLength)
	case "model_context_window_exceeded":
		d.stop(StopContext)
	case "pause_turn":
		d.stop(StopPause)
	case "refusal":
		return fail(Refused, "the model declined to respond")
	default:
		d.stop(StopEnd)
	}
	return nil
}
