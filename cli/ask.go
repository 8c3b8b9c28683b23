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
	"github.com/toolyard/toolyard/yard"
)

// asker puts the questions of a tool to the person at the terminal.
type asker struct {
	tool  string
	in    *bufio.Reader
	out   io.Writer
	tries int // how often a field is asked for before the form is canceled
}

func newAsker(tool string, in io.Reader, out io.Writer) *asker {
	return &asker{tool: tool, in: bufio.NewReader(io.LimitReader(in, maxTyped)), out: out, tries: 5}
}

// The actions of an answer, as MCP has them.
const (
	accept  = "accept"
	decline = "decline"
	cancel  = "cancel"
)

// answer is the answer to one question.
type answer struct {
	Action  string                     `json:"action"`
	Content map[string]json.RawMessage `json:"content,omitempty"`
}

// ask implements yard.Ask.
func (a *asker) ask(ctx context.Context, questions []yard.Question) (json.RawMessage, error) {
	answers := make(map[string]answer)
	for _, q := range questions {
		got, err := a.put(ctx, q)
		if err != nil {
			return nil, err
		}
		answers[q.Key] = got
	}
	return json.Marshal(answers)
}

// put asks one question. The end of the input cancels it.
func (a *asker) put(ctx context.Context, q yard.Question) (answer, error) {
	fmt.Fprintf(a.out, "\n%s asks:\n", untrusted.Printable(a.tool))
	for _, line := range printableLines(q.Message) {
		fmt.Fprintf(a.out, "  %s\n", line)
	}
	got, err := a.fill(ctx, q)
	if errors.Is(err, io.EOF) {
		fmt.Fprintln(a.out, "\ncanceled")
		return answer{Action: cancel}, nil
	}
	return got, err
}

func (a *asker) fill(ctx context.Context, q yard.Question) (answer, error) {
	if q.URL != "" {
		fmt.Fprintf(a.out, "\n  Open %s\n\n", untrusted.Printable(q.URL))
		action, err := a.decide(ctx, "Done there? [Y/n] (Ctrl-D cancels) ")
		return answer{Action: action}, err
	}
	content := make(map[string]json.RawMessage)
	var required []string
	_ = json.Unmarshal(strictjson.Member(q.Schema, "required"), &required) // it was checked
	for name, schema := range strictjson.Members(strictjson.Member(q.Schema, "properties")) {
		value, err := a.field(ctx, newField(name, schema, slices.Contains(required, name)))
		if err != nil {
			return answer{}, err
		}
		if value != nil {
			content[name] = value
		}
	}
	action, err := a.decide(ctx, "Send this answer? [Y/n] (Ctrl-D cancels) ")
	if action != accept {
		content = nil
	}
	return answer{action, content}, err
}

// decide asks whether to accept.
func (a *asker) decide(ctx context.Context, prompt string) (string, error) {
	for {
		fmt.Fprint(a.out, prompt)
		line, err := a.line(ctx)
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

// field asks for one field until its value fits.
func (a *asker) field(ctx context.Context, f *field) (json.RawMessage, error) {
	for range a.tries {
		fmt.Fprintf(a.out, "  %s: ", f.prompt())
		line, err := a.line(ctx)
		if err != nil {
			return nil, err
		}
		value, problem := f.parse(line)
		if problem == "" {
			return value, nil
		}
		fmt.Fprintf(a.out, "    %s\n", untrusted.Printable(problem))
	}
	return nil, io.EOF
}

// field is one property of a form.
type field struct {
	name, title, about string
	kind               string // string, number, integer, boolean or array
	required           bool
	initial            json.RawMessage // nil for none
	choices            []choice        // nil for any value
	schema             json.RawMessage
}

// choice is a value of an enumeration and what people call it.
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

// choicesOf are the values of an enum, or the constants of oneOf or anyOf.
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

// prompt says what is asked for: "amount (number, optional) [10]".
func (f *field) prompt() string {
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

// choiceText lists what can be chosen.
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
		return "some of " + strings.Join(texts, ", ") + "; with commas between them"
	}
	return "one of " + strings.Join(texts, ", ")
}

// parse reads a line as the value of the field, or says what is wrong with it. An empty line is
// the default; without one it leaves an optional field out.
func (f *field) parse(line string) (value json.RawMessage, problem string) {
	switch {
	case line == "" && f.initial != nil:
		return f.initial, ""
	case line == "" && !f.required:
		return nil, ""
	case line == "" && f.kind != "string":
		return nil, "a value is required"
	}
	value, problem = f.read(line)
	if problem != "" {
		return nil, problem
	}
	schema, err := toolyard.NewSchema(f.schema)
	if err != nil {
		return value, "" // the server checks it, too
	}
	if issues, _ := schema.Check(context.Background(), value); len(issues) > 0 {
		return nil, issues[0].Message
	}
	return value, ""
}

func (f *field) read(line string) (value json.RawMessage, problem string) {
	switch f.kind {
	case "boolean":
		switch strings.ToLower(line) {
		case "y", "yes", "true":
			return json.RawMessage("true"), ""
		case "n", "no", "false":
			return json.RawMessage("false"), ""
		}
		return nil, "write yes or no"
	case "number", "integer":
		if strictjson.Check([]byte(line)) != nil || !strings.ContainsAny(line[:1], "-0123456789") {
			return nil, "write a number"
		}
		return json.RawMessage(line), ""
	case "array":
		return f.readList(line), ""
	}
	value, _ = json.Marshal(f.chosen(line)) // a string
	return value, ""
}

func (f *field) readList(line string) json.RawMessage {
	items := []string{}
	for item := range strings.SplitSeq(line, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, f.chosen(item))
		}
	}
	value, _ := json.Marshal(items) // strings
	return value
}

// chosen is the value of a choice that was typed by its title or in another case.
func (f *field) chosen(text string) string {
	for _, c := range f.choices {
		if strings.EqualFold(text, c.value) || (c.title != "" && strings.EqualFold(text, c.title)) {
			return c.value
		}
	}
	return text
}

// maxTyped is how many bytes a person may type in.
const maxTyped = 1 << 20

// line is the next line that the person types, io.EOF at the end of the input.
func (a *asker) line(ctx context.Context) (string, error) {
	type read struct {
		line string
		err  error
	}
	done := make(chan read, 1)
	go func() {
		line, err := a.in.ReadString('\n')
		if line != "" {
			err = nil
		}
		done <- read{strings.TrimSpace(line), err}
	}()
	select {
	case r := <-done:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
