package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/toolyard/toolyard"
)

// library is a source with the resources and prompts that the conformance suite requires. At each
// flip, one of the prompts is replaced.
type library struct {
	flips   chan struct{}
	flipped int

	watchers toolyard.ResourceWatchers
	changes  atomic.Int64 // number of changes to the watched resource
}

func newLibrary() *library { return &library{flips: make(chan struct{})} }

// Run implements toolyard.Source.
func (l *library) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	flip := plain("test_trigger_prompt_change", "Changes the list of prompts.", func(context.Context, *toolyard.Call) (any, error) {
		l.flips <- struct{}{}
		return "changed", nil
	})
	change := plain("test_change_resource", "Changes the watched resource.", func(context.Context, *toolyard.Call) (any, error) {
		l.changes.Add(1)
		l.watchers.Changed("test://watched-resource")
		return "changed", nil
	})
	for ; ; l.flipped++ {
		publish(toolyard.Offer{Tools: []*toolyard.Tool{flip, change}, Resources: l.resources(), Prompts: l.prompts()})
		select {
		case <-l.flips:
		case <-ctx.Done():
			return nil
		}
	}
}

// reader returns a tool that returns a document as an embedded resource.
func reader[In any](name string, read func(*toolyard.Call, In) (any, error)) *toolyard.Tool {
	return toolyard.Define(toolyard.Spec{Name: name, Effects: toolyard.ReadOnly},
		func(_ context.Context, c *toolyard.Call, in In) (*toolyard.Result, error) {
			document, err := read(c, in)
			if res, ok := document.(*toolyard.Result); ok || err != nil {
				return res, err
			}
			raw, err := json.Marshal(document)
			if err != nil {
				return nil, err
			}
			res := &toolyard.Result{}
			return res, json.Unmarshal(raw, res)
		})
}

type address struct {
	URI string `json:"uri"`
}

func (l *library) resources() []*toolyard.Resource {
	read := reader("resources.read", l.readResource)
	resource := func(uri, name, mimeType string) *toolyard.Resource {
		definition := fmt.Sprintf(`{"uri":%q,"name":%q,"mimeType":%q}`, uri, name, mimeType)
		return &toolyard.Resource{URI: uri, Definition: json.RawMessage(definition), Reader: read}
	}
	watched := resource("test://watched-resource", "Number of changes", "text/plain")
	watched.Watch = l.watchers.Watch
	return []*toolyard.Resource{
		resource("test://static-text", "Static text", "text/plain"),
		resource("test://static-binary", "Static binary", "image/png"),
		watched,
		{
			URI: "test://template/{id}/data", Template: true, Reader: read,
			Definition: json.RawMessage(`{"uriTemplate":"test://template/{id}/data","name":"Data by id","mimeType":"application/json"}`),
		},
	}
}

func (l *library) readResource(_ *toolyard.Call, in address) (any, error) {
	content := map[string]string{"uri": in.URI}
	switch in.URI {
	case "test://static-text":
		content["mimeType"], content["text"] = "text/plain", "This is the content of the static text resource."
	case "test://watched-resource":
		content["mimeType"], content["text"] = "text/plain", fmt.Sprint(l.changes.Load())
	case "test://static-binary":
		content["mimeType"], content["blob"] = "image/png", base64.StdEncoding.EncodeToString(pixel)
	default:
		id, ok := strings.CutSuffix(strings.TrimPrefix(in.URI, "test://template/"), "/data")
		if !ok {
			return nil, toolyard.Errorf(toolyard.NotFound, "Unknown resource: %s", in.URI)
		}
		content["mimeType"], content["text"] = "application/json", fmt.Sprintf(`{"id":%q,"templateTest":true,"data":"Data for ID: %s"}`, id, id)
	}
	return map[string]any{"contents": []any{content}}, nil
}

// wish contains the parameters of a prompt request.
type wish struct {
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments"`
}

func (l *library) prompts() []*toolyard.Prompt {
	get := reader("prompts.get", getPrompt)
	complete := reader("completion.complete", completePrompt)
	prompt := func(name, arguments string) *toolyard.Prompt {
		definition := fmt.Sprintf(`{"name":%q,"description":"A prompt for tests.","arguments":%s}`, name, arguments)
		return &toolyard.Prompt{Name: name, Definition: json.RawMessage(definition), Getter: get, Completer: complete}
	}
	return []*toolyard.Prompt{
		prompt("test_simple_prompt", `[]`),
		prompt("test_prompt_with_arguments", `[{"name":"arg1","description":"First test argument","required":true},{"name":"arg2","description":"Second test argument","required":true}]`),
		prompt("test_prompt_with_embedded_resource", `[{"name":"resourceUri","description":"URI of the resource to embed","required":true}]`),
		prompt("test_prompt_with_image", `[]`),
		prompt("test_input_required_result_prompt", `[]`),
		prompt(fmt.Sprint("changing_prompt_", l.flipped), `[]`),
	}
}

// says returns a prompt with user messages.
func says(contents ...any) map[string]any {
	var messages []any
	for _, c := range contents {
		messages = append(messages, map[string]any{"role": "user", "content": c})
	}
	return map[string]any{"messages": messages}
}

func text(s string) map[string]any { return map[string]any{"type": "text", "text": s} }

func getPrompt(c *toolyard.Call, in wish) (any, error) {
	switch in.Name {
	case "test_simple_prompt":
		return says(text("This is a simple prompt for testing.")), nil
	case "test_prompt_with_arguments":
		return says(text(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", in.Arguments["arg1"], in.Arguments["arg2"]))), nil
	case "test_prompt_with_embedded_resource":
		resource := map[string]string{"uri": in.Arguments["resourceUri"], "mimeType": "text/plain", "text": "Embedded resource content for testing."}
		return says(map[string]any{"type": "resource", "resource": resource}, text("Please process the embedded resource above.")), nil
	case "test_prompt_with_image":
		image := map[string]any{"type": "image", "data": base64.StdEncoding.EncodeToString(pixel), "mimeType": "image/png"}
		return says(image, text("Please analyze the image above.")), nil
	case "test_input_required_result_prompt":
		questions := map[string]question{"user_context": form("What context should the prompt use?", `{"context":{"type":"string"}}`, "context")}
		if given, ok := answers(c, questions); ok {
			return says(text("The context is " + string(given["user_context"]))), nil
		}
		return ask(questions, "")
	}
	return nil, toolyard.Errorf(toolyard.NotFound, "Unknown prompt: %s", in.Name)
}

// completion is a completion request.
type completion struct {
	Ref      map[string]string `json:"ref"`
	Argument struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"argument"`
	Context map[string]map[string]string `json:"context,omitempty"`
}

func completePrompt(_ *toolyard.Call, in completion) (any, error) {
	values := []string{}
	for _, word := range []string{"paris", "park", "party"} {
		if strings.HasPrefix(word, in.Argument.Value) {
			values = append(values, word)
		}
	}
	return map[string]any{"completion": map[string]any{"values": values, "total": len(values), "hasMore": false}}, nil
}
