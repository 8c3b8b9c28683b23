package main

import (
	"context"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func (f *fake) addResources() {
	read := func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		_, name, _ := strings.Cut(req.Params.URI, "://")
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, MIMEType: "text/plain", Text: "this is " + name}}}, nil
	}
	f.server.AddResource(&mcp.Resource{URI: "resource://data", Name: "data", MIMEType: "text/plain"}, read)
	f.server.AddResource(&mcp.Resource{URI: "resource://secret", Name: "secret", MIMEType: "text/plain"}, read)
	f.server.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "resource://item/{id}", Name: "item", MIMEType: "text/plain"}, read)
}

func (f *fake) addPrompts() {
	f.server.AddPrompt(&mcp.Prompt{Name: "greet", Description: "Greets somebody.", Arguments: []*mcp.PromptArgument{{Name: "name", Required: true}}},
		func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{
				Role: "user", Content: &mcp.TextContent{Text: "Say hello to " + req.Params.Arguments["name"] + "."},
			}}}, nil
		})
}
