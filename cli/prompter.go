package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// prompter lets the user at the terminal answer a tool's questions (MCP elicitation).
type prompter struct {
	tool string
	in   *bufio.Reader
	out  io.Writer
}

// Limits on input.
const (
	maxAttempts = 5       // number of invalid values for a field before the form is canceled
	maxInput    = 1 << 20 // in bytes
)

func newPrompter(tool string, in io.Reader, out io.Writer) *prompter {
	return &prompter{tool: tool, in: bufio.NewReader(io.LimitReader(in, maxInput)), out: out}
}

// The possible actions of an MCP answer.
const (
	accept  = "accept"
	decline = "decline"
	cancel  = "cancel"
)

// answer is the MCP result for one question.
type answer struct {
	Action  string                     `json:"action"`
	Content map[string]json.RawMessage `json:"content,omitempty"`
}

// answer implements yard.Ask.
func (p *prompter) answer(ctx context.Context, questions []toolyard.Question) (json.RawMessage, error) {
	answers := make(map[string]answer)
	for _, q := range questions {
		got, err := p.prompt(ctx, q)
		if err != nil {
			return nil, err
		}
		answers[q.Key] = got
	}
	return json.Marshal(answers)
}

// prompt reads the answer to one question. End of input cancels the question.
func (p *prompter) prompt(ctx context.Context, q toolyard.Question) (answer, error) {
	fmt.Fprintf(p.out, "\n%s requires your input:\n", untrusted.Printable(p.tool))
	for _, line := range printableLines(q.Message) {
		fmt.Fprintf(p.out, "  %s\n", line)
	}
	got, err := p.readAnswer(ctx, q)
	if errors.Is(err, io.EOF) {
		fmt.Fprintln(p.out, "\ncanceled")
		return answer{Action: cancel}, nil
	}
	return got, err
}

func (p *prompter) readAnswer(ctx context.Context, q toolyard.Question) (answer, error) {
	if q.URL != "" {
		fmt.Fprintf(p.out, "\n  Open %s\n\n", untrusted.Printable(q.URL))
		action, err := p.confirm(ctx, "Have you completed it? [Y/n] (Ctrl-D cancels) ")
		return answer{Action: action}, err
	}
	content := make(map[string]json.RawMessage)
	var required []string
	_ = json.Unmarshal(strictjson.Member(q.Schema, "required"), &required) // cannot fail: the schema was validated before
	for name, schema := range strictjson.Members(strictjson.Member(q.Schema, "properties")) {
		value, err := p.readField(ctx, newField(name, schema, slices.Contains(required, name)))
		if err != nil {
			return answer{}, err
		}
		if value != nil {
			content[name] = value
		}
	}
	action, err := p.confirm(ctx, "Send this answer? [Y/n] (Ctrl-D cancels) ")
	if action != accept {
		content = nil
	}
	return answer{action, content}, err
}

// confirm reads whether the user accepts or declines.
func (p *prompter) confirm(ctx context.Context, prompt string) (string, error) {
	for {
		fmt.Fprint(p.out, prompt)
		line, err := p.readLine(ctx)
		if err != nil {
			return "", err
		}
		switch strings.ToLower(line) {
		case "", "y", "yes":
			return accept, nil
		case "n", "no":
			return decline, nil
		}
	}
}

// readField reads one field until its value is valid.
func (p *prompter) readField(ctx context.Context, f *field) (json.RawMessage, error) {
	for range maxAttempts {
		fmt.Fprintf(p.out, "  %s: ", f.label())
		line, err := p.readLine(ctx)
		if err != nil {
			return nil, err
		}
		value, problem := f.parse(line)
		if problem == "" {
			return value, nil
		}
		fmt.Fprintf(p.out, "    %s\n", untrusted.Printable(problem))
	}
	return nil, io.EOF
}

// field is one property of a form.
type field struct {
	name, title, about string
	kind               string // string, number, integer, boolean or array
	required           bool
	initial            json.RawMessage // may be nil
	choices            []choice        // nil if any value is allowed
	schema             json.RawMessage
}

// choice is a value in an enumeration and its title.
type choice struct{ value, title string }

func newField(name string, schema json.RawMessage, required bool) *field {
	f := &field{name: name, required: required, initial: strictjson.Member(schema, "default"), schema: schema}
	f.title, _ = strictjson.String(strictjson.Member(schema, "title"))
	f.about, _ = strictjson.String(strictjson.Member(schema, "description"))
	f.kind, _ = strictjson.String(strictjson.Member(schema, "type"))
	f.choices = choicesOf(schema)
	if f.kind == "array" {
		f.choices = choicesOf(strictjson.Member(schema, "items"))
	}
	return f
}

// choicesOf returns the values of an enum, or the constants of oneOf or anyOf.
func choicesOf(schema json.RawMessage) (list []choice) {
	var values, titles []string
	_ = json.Unmarshal(strictjson.Member(schema, "enum"), &values)
	_ = json.Unmarshal(strictjson.Member(schema, "enumNames"), &titles)
	for i, value := range values {
		c := choice{value: value}
		if i < len(titles) {
			c.title = titles[i]
		}
		list = append(list, c)
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		var options []json.RawMessage
		_ = json.Unmarshal(strictjson.Member(schema, key), &options)
		for _, o := range options {
			value, _ := strictjson.String(strictjson.Member(o, "const"))
			title, _ := strictjson.String(strictjson.Member(o, "title"))
			list = append(list, choice{value, title})
		}
	}
	return list
}

// label describes the expected value: "amount (number, optional) [10]".
func (f *field) label() string {
	var notes []string
	switch {
	case f.kind == "boolean":
		notes = append(notes, "yes or no")
	case len(f.choices) > 0:
		notes = append(notes, f.choiceText())
	case f.kind != "string":
		notes = append(notes, f.kind)
	}
	if !f.required {
		notes = append(notes, "optional")
	}
	text := f.name
	if f.title != "" && !strings.EqualFold(f.title, f.name) {
		text = f.title
	}
	if f.about != "" {
		text += ", " + f.about
	}
	if len(notes) > 0 {
		text += " (" + strings.Join(notes, "; ") + ")"
	}
	if f.initial != nil {
		text += " [" + string(f.initial) + "]"
	}
	return untrusted.Printable(text)
}

// choiceText lists the choices.
func (f *field) choiceText() string {
	var texts []string
	for _, c := range f.choices {
		text := c.value
		if c.title != "" && c.title != c.value {
			text += " = " + c.title
		}
		texts = append(texts, text)
	}
	if f.kind == "array" {
		return "any of " + strings.Join(texts, ", ") + ", separated by commas"
	}
	return "one of " + strings.Join(texts, ", ")
}

// parse converts a line to the value of the field, or returns a problem. An empty line selects the
// default or, if there is none, omits an optional field.
func (f *field) parse(line string) (value json.RawMessage, problem string) {
	switch {
	case line == "" && f.initial != nil:
		return f.initial, ""
	case line == "" && !f.required:
		return nil, ""
	case line == "" && f.kind != "string":
		return nil, "a value is required"
	}
	value, problem = f.parseValue(line)
	if problem != "" {
		return nil, problem
	}
	var schema toolyard.Schema
	if json.Unmarshal(f.schema, &schema) != nil {
		return value, "" // the server validates the value too
	}
	if issues, _ := schema.Check(context.Background(), value); len(issues) > 0 {
		return nil, issues[0].Message
	}
	return value, ""
}

func (f *field) parseValue(line string) (value json.RawMessage, problem string) {
	switch f.kind {
	case "boolean":
		switch strings.ToLower(line) {
		case "y", "yes", "true":
			return json.RawMessage("true"), ""
		case "n", "no", "false":
			return json.RawMessage("false"), ""
		}
		return nil, "enter yes or no"
	case "number", "integer":
		if strictjson.Check([]byte(line)) != nil || !strings.ContainsAny(line[:1], "-0123456789") {
			return nil, "enter a number"
		}
		return json.RawMessage(line), ""
	case "array":
		return f.parseList(line), ""
	}
	value, _ = json.Marshal(f.choose(line)) // cannot fail for a string
	return value, ""
}

func (f *field) parseList(line string) json.RawMessage {
	items := []string{}
	for item := range strings.SplitSeq(line, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, f.choose(item))
		}
	}
	value, _ := json.Marshal(items) // cannot fail for strings
	return value
}

// choose returns a choice's value. It may be entered by title or in different case.
func (f *field) choose(text string) string {
	for _, c := range f.choices {
		if strings.EqualFold(text, c.value) || (c.title != "" && strings.EqualFold(text, c.title)) {
			return c.value
		}
	}
	return text
}

// readLine returns the next line of input, or io.EOF.
func (p *prompter) readLine(ctx context.Context) (string, error) {
	type result struct {
		line string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		line, err := p.in.ReadString('\n')
		if line != "" {
			err = nil
		}
		done <- result{strings.TrimSpace(line), err}
	}()
	select {
	case r := <-done:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
