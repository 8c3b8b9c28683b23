package export

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Tools that search the deferred tools.
type (
	openAISearch struct {
		Type string `json:"type"`
	}
	anthropicSearch struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
)

// openAINamespace is a group of functions. At first, the model sees only its description. It sees
// the functions once it has found them.
type openAINamespace struct {
	Type        string             `json:"type"`
	Name        string             `json:"name"`
	Description string             `json:"description"`
	Tools       []deferredFunction `json:"tools"`
}

type deferredFunction struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
	Deferred    bool            `json:"defer_loading"`
}

// maxNamespace is the maximum size of a namespace. OpenAI recommends fewer than ten functions for
// good search results.
const maxNamespace = 9

// openAINamespaces returns the search tool and the functions, grouped into namespaces by server or
// category. A large group is split into several namespaces.
func openAINamespaces(definitions []definition) []any {
	list := []any{openAISearch{"tool_search"}}
	open := make(map[string]*openAINamespace) // last namespace of each group
	count := make(map[string]int)             // number of namespaces by name
	for _, d := range definitions {
		n := open[d.group]
		if n == nil || len(n.Tools) == maxNamespace {
			n = &openAINamespace{Type: "namespace", Name: namespaceName(d.group, count)}
			open[d.group], list = n, append(list, n)
		}
		n.Tools = append(n.Tools, deferredFunction{"function", d.name, d.description, d.schema, false, true})
		n.Description = describeNamespace(d.group, n.Tools)
	}
	return list
}

var notInNamespace = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// namespaceName returns a unique name for a group's next namespace.
func namespaceName(group string, count map[string]int) string {
	name := strings.Trim(notInNamespace.ReplaceAllString(group, "_"), "_")
	if name = name[:min(len(name), 48)]; name == "" {
		name = "tools"
	}
	if count[name]++; count[name] > 1 {
		return namespaceName(fmt.Sprintf("%s_%d", name, count[name]), count)
	}
	return name
}

func describeNamespace(group string, tools []deferredFunction) string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return "Tools of " + group + ": " + strings.Join(names, ", ")
}

func anthropicDeferred(definitions []definition) []any {
	list := []any{anthropicSearch{"tool_search_tool_bm25_20251119", "tool_search_tool_bm25"}}
	for _, d := range definitions {
		list = append(list, anthropicTool{d.name, d.description, d.schema, true})
	}
	return list
}
