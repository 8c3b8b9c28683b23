package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/sources/catalog"
)

// raw returns a tool that accepts any arguments and returns raw bytes.
func raw(spec toolyard.Spec, run func(*toolyard.Call) (string, error)) *toolyard.Tool {
	t, err := toolyard.NewTool(spec, func(_ context.Context, c *toolyard.Call) (*toolyard.Result, error) {
		result, err := run(c)
		if err != nil {
			return nil, err
		}
		res := &toolyard.Result{}
		return res, json.Unmarshal([]byte(result), res)
	})
	if err != nil {
		panic(err)
	}
	return t
}

// unfinished is a result that asks the user for a number.
const unfinished = `{"resultType":"input_required","inputRequests":{"n":{"method":"elicitation/create","params":{"message":"How many?",` +
	`"requestedSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}}}}}},"requestState":"inner"}`

// asker asks once and then returns the answer.
func asker(c *toolyard.Call) (string, error) {
	if c.InputResponses == nil {
		return unfinished, nil
	}
	text, err := json.Marshal(fmt.Sprintf("%s %s", c.RequestState, c.InputResponses))
	return `{"content":[{"type":"text","text":` + string(text) + `}],"contents":[],"messages":[]}`, err
}

// conversationOffer returns the offer used in the conversations.
func conversationOffer() catalog.Offer {
	read := raw(toolyard.Spec{Name: "resources.read", Server: "docs"}, func(c *toolyard.Call) (string, error) {
		switch uri := string(c.Args); {
		case strings.Contains(uri, "broken"):
			return "", toolyard.Errorf(toolyard.Unavailable, "The shelf is out of reach.")
		case strings.Contains(uri, "gone"):
			return "", toolyard.Errorf(toolyard.NotFound, "Nobody has it any more.")
		case strings.Contains(uri, "ask"):
			return asker(c)
		}
		return `{"ttlMs":60000,"cacheScope":"public","contents":[` + string(c.Args) + `,{"big":9007199254740993}],"_meta":{"a":1.10}}`, nil
	})
	complete := raw(toolyard.Spec{Name: "completion.complete", Server: "docs"}, func(c *toolyard.Call) (string, error) {
		args, err := json.Marshal(string(c.Args))
		return `{"completion":{"values":[` + string(args) + `]}}`, err
	})
	get := raw(toolyard.Spec{Name: "prompts.get", Server: "docs"}, func(c *toolyard.Call) (string, error) {
		if strings.Contains(string(c.Args), `"name":"ask"`) {
			return asker(c)
		}
		return `{"description":"<it>","messages":[` + string(c.Args) + `]}`, nil
	})
	resource := func(uri, definition string) *toolyard.Resource {
		return &toolyard.Resource{Server: "docs", URI: uri, Definition: json.RawMessage(definition), Reader: read}
	}
	quiet := resource("docs://quiet", `{}`)
	quiet.Unlisted = true
	template := resource("docs://{book}/page", `{ "uriTemplate" : "docs://{book}/page", "name":"page", "zeta":9007199254740993 }`)
	template.Template, template.Completer = true, complete
	return catalog.Offer{
		Tools: append(conversationTools(),
			raw(toolyard.Spec{Name: "raw", Server: "docs"}, func(*toolyard.Call) (string, error) {
				return `{"structuredContent":[1],"content":[],"resultType":"complete","ttlMs":1,"_meta":{"z":9007199254740993,"io.modelcontextprotocol/serverInfo":{"name":"them"},"dev.toolyard/call":"theirs"}}`, nil
			}),
			raw(toolyard.Spec{Name: "ask", Server: "docs"}, asker)),
		Resources: []*toolyard.Resource{resource("docs://readme", `{"uri":"docs://readme","name":"readme","size":9007199254740993}`), quiet, template},
		Prompts: []*toolyard.Prompt{
			{Server: "docs", Name: "greet", Definition: json.RawMessage(`{"zeta":1,"name":"greet","arguments":[{"name":"who"}]}`), Getter: get, Completer: complete},
			{Server: "docs", Name: "ask", Definition: json.RawMessage(`{"name":"ask"}`), Getter: get},
		},
	}
}
