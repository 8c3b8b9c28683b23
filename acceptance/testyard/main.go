// Command testyard is the program that the acceptance tests and the MCP conformance suite run: the
// real command line, with test tools.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/cli"
	"github.com/toolyard/toolyard/packs/homeassistant"
	"github.com/toolyard/toolyard/packs/markets"
	"github.com/toolyard/toolyard/yard"
)

func main() {
	extra := newChanging()
	tools := slices.Concat(conformanceTools(extra), askingTools(), acceptanceTools(extra), contractTools(os.Getenv("TESTYARD_NOTES")))
	sources := map[string]toolyard.Source{"changing": extra, "docs": docs{}, "library": newLibrary()}
	if n, err := strconv.Atoi(os.Getenv("TESTYARD_TOOLS")); err == nil {
		tools = manyTools(n)
		delete(sources, "docs")
		delete(sources, "library")
	}
	if n, err := strconv.Atoi(os.Getenv("TESTYARD_CATALOG")); err == nil {
		tools = append(tools, catalogTools(n)...)
	}
	clients := &toolyard.Clients{}
	toolyard.Lend[broker](clients, theBroker, toolyard.Write)
	cli.Main(yard.Options{
		Tools: tools, Clients: clients, Identify: identify(os.Getenv("TESTYARD_KEYS")), Command: yard.Command{OperatorToken: os.Getenv("TESTYARD_OPERATOR")},
		Sources: sources, ProviderKinds: markets.Kinds(), Packs: map[string]yard.Pack{homeassistant.Name: homeassistant.Pack()},
	})
}

// identify authenticates callers by bearer tokens, given as "token=user token=user". If there are
// no tokens, all callers are accepted.
func identify(keys string) func(*http.Request) (toolyard.Caller, error) {
	if keys == "" {
		return nil
	}
	return func(r *http.Request) (toolyard.Caller, error) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		for pair := range strings.FieldsSeq(keys) {
			if key, user, _ := strings.Cut(pair, "="); key == token {
				return toolyard.Caller{ID: user, Account: "acme", Roles: []string{"user"}}, nil
			}
		}
		return toolyard.Caller{}, toolyard.Errorf(toolyard.Unauthenticated, "Who are you?")
	}
}

// docs is a server with a tool and resources.
type docs struct{}

// Run implements toolyard.Source.
func (docs) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	search := toolyard.Define(toolyard.Spec{Name: "search", Server: "docs", Description: "Searches the documents.", Effects: toolyard.ReadOnly},
		func(_ context.Context, _ *toolyard.Call, in struct {
			Text string `json:"text"`
		},
		) (string, error) {
			return "found " + in.Text, nil
		})
	publish(toolyard.Offer{Tools: []*toolyard.Tool{search}, Resources: docResources()})
	<-ctx.Done()
	return nil
}

func docResources() []*toolyard.Resource {
	reader := toolyard.Define(toolyard.Spec{Name: "resources.read", Server: "docs", Effects: toolyard.ReadOnly},
		func(context.Context, *toolyard.Call, struct {
			URI string `json:"uri"`
		},
		) (*toolyard.Result, error) {
			res := &toolyard.Result{}
			return res, json.Unmarshal([]byte(`{"contents":[{"uri":"resource://readme","mimeType":"text/plain","text":"Read me."}]}`), res)
		})
	return []*toolyard.Resource{{
		Server: "docs", URI: "resource://readme", Reader: reader,
		Definition: json.RawMessage(`{"uri":"resource://readme","name":"readme","mimeType":"text/plain"}`),
	}}
}

// changing is a source whose only tool is replaced at each flip.
type changing struct{ flips chan struct{} }

func newChanging() *changing { return &changing{make(chan struct{})} }

// Run implements toolyard.Source.
func (s *changing) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	for i := 0; ; i++ {
		tool := toolyard.Define(toolyard.Spec{Name: fmt.Sprint("changing_", i), Description: "Is replaced by a flip.", Effects: toolyard.ReadOnly},
			func(context.Context, *toolyard.Call, struct{}) (int, error) { return i, nil })
		publish(toolyard.Offer{Tools: []*toolyard.Tool{tool}})
		select {
		case <-s.flips:
		case <-ctx.Done():
			return nil
		}
	}
}

// manyTools returns n tools of realistic size.
func manyTools(n int) []*toolyard.Tool {
	type args struct {
		Query string   `json:"query" doc:"What to look for, in the words of the user" minLength:"1"`
		Limit int      `json:"limit" doc:"How many results to return at most" minimum:"1" maximum:"100" default:"10"`
		Sort  string   `json:"sort" doc:"How to order the results" enum:"relevance,date,size" default:"relevance"`
		Tags  []string `json:"tags,omitempty" doc:"Only results with all of these tags"`
	}
	tools := make([]*toolyard.Tool, 0, n)
	for i := range n {
		tools = append(tools, toolyard.Define(toolyard.Spec{
			Name:        fmt.Sprintf("search_collection_%05d", i),
			Title:       fmt.Sprintf("Search collection %d", i),
			Description: "Searches one collection of documents and returns the best matches, with a title, a link and a short excerpt of each.",
			Category:    "search", Effects: toolyard.ReadOnly,
		}, func(_ context.Context, _ *toolyard.Call, in args) (string, error) { return in.Query, nil }))
	}
	return tools
}
