package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/toolyard/toolyard"
)

// The smallest valid PNG and WAV files.
var (
	pixel = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS\xde\x00\x00\x00\x0cIDATx\x9cc\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xc9\xfe\x92\xef\x00\x00\x00\x00IEND\xaeB`\x82")
	click = []byte("RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data\x00\x00\x00\x00")
)

// plain returns a tool that takes no arguments.
func plain(name, description string, fn func(context.Context, *toolyard.Call) (any, error)) *toolyard.Tool {
	return toolyard.Define(toolyard.Spec{Name: name, Description: description},
		func(ctx context.Context, c *toolyard.Call, _ struct{}) (any, error) { return fn(ctx, c) })
}

// raw returns a tool with the given schema.
func raw(name, description, schema string) *toolyard.Tool {
	t, err := toolyard.NewTool(toolyard.Spec{Name: name, Description: description, Input: json.RawMessage(schema)},
		func(_ context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			return toolyard.ResultOf(string(c.Args))
		})
	if err != nil {
		panic(err)
	}
	return t
}

// conformanceTools returns the tools that the MCP conformance suite requires.
func conformanceTools(extra *changing) []*toolyard.Tool {
	const pause = 50 * time.Millisecond
	return []*toolyard.Tool{
		plain("test_simple_text", "Returns text.", func(context.Context, *toolyard.Call) (any, error) {
			return "This is a simple text response for testing.", nil
		}),
		plain("test_image_content", "Returns an image.", func(context.Context, *toolyard.Call) (any, error) {
			return toolyard.Image{Data: pixel, MIMEType: "image/png"}, nil
		}),
		plain("test_audio_content", "Returns sound.", func(context.Context, *toolyard.Call) (any, error) {
			return toolyard.Audio{Data: click, MIMEType: "audio/wav"}, nil
		}),
		plain("test_embedded_resource", "Returns a resource.", func(context.Context, *toolyard.Call) (any, error) {
			return toolyard.EmbeddedResource{URI: "test://embedded-resource", MIMEType: "text/plain", Text: "This is an embedded resource content."}, nil
		}),
		plain("test_multiple_content_types", "Returns several kinds of content.", func(context.Context, *toolyard.Call) (any, error) {
			return []toolyard.Content{
				toolyard.Text("Multiple content types test:"),
				toolyard.Image{Data: pixel, MIMEType: "image/png"},
				toolyard.EmbeddedResource{URI: "test://mixed-content-resource", MIMEType: "application/json", Text: `{"test":"data","value":123}`},
			}, nil
		}),
		plain("test_tool_with_logging", "Logs while it runs.", func(_ context.Context, c *toolyard.Call) (any, error) {
			for _, line := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
				c.Logger().Info(line) //nolint:sloglint // the suite's words
				time.Sleep(pause)
			}
			return "logged", nil
		}),
		plain("test_logging_tool", "Logs one line.", func(_ context.Context, c *toolyard.Call) (any, error) {
			c.Logger().Info("a line")
			return "logged", nil
		}),
		plain("test_tool_with_progress", "Reports progress.", progress(pause)),
		plain("test_streaming_elicitation", "Reports progress.", progress(pause)),
		plain("test_error_handling", "Fails.", func(context.Context, *toolyard.Call) (any, error) {
			return nil, errors.New("This tool intentionally returns an error for testing") //nolint:staticcheck // the suite's words
		}),
		plain("test_missing_capability", "Needs a client that can sample.", func(_ context.Context, c *toolyard.Call) (any, error) {
			if !c.Supports("sampling") {
				return nil, &toolyard.Error{Code: toolyard.MissingCapability, Message: "The client cannot sample.", Missing: []string{"sampling"}}
			}
			return "the client can sample", nil
		}),
		plain("test_trigger_tool_change", "Changes the list of tools.", func(context.Context, *toolyard.Call) (any, error) {
			extra.flips <- struct{}{}
			return "changed", nil
		}),
		raw("test_x_mcp_header", "Mirrors an argument into a header.", `{"type":"object","properties":{
			"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`),
		raw("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", `{
			"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
			"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
			"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},
				"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
			"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
			"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
			"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`),
	}
}

func progress(pause time.Duration) func(context.Context, *toolyard.Call) (any, error) {
	return func(_ context.Context, c *toolyard.Call) (any, error) {
		for _, done := range []float64{0, 50, 100} {
			c.Progress(done, 100, "")
			time.Sleep(pause)
		}
		return "done", nil
	}
}
