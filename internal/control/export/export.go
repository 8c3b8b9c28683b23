// Package export converts tools to the function definitions of model APIs, for programs that
// call a model themselves. Names and schemas are those of a gate: injected arguments are left out.
//
// None of the definitions is strict. OpenAI's strict mode requires every property to be required
// and no others to be allowed, which most schemas do not satisfy; the gate validates the arguments
// of every call anyway.
//
// A model API rejects a whole request because of one unsupported schema. At the root of a schema,
// OpenAI rejects oneOf, anyOf, allOf, enum, const and not, and Anthropic the first three; nested
// they are allowed. Such a schema is flattened, see [Functions]. OpenAI also requires properties,
// even if empty. Gemini reads parametersJsonSchema as JSON Schema, unlike its older parameters, so
// schemas stay unchanged; its names must start with a letter or an underscore.
//
// The AI SDK has no definitions in JSON: its tools contain functions. A few lines convert the
// format AISDK, where call is your function that sends a call to the gate:
//
//	import { dynamicTool, jsonSchema } from "ai";
//
//	const tools = Object.fromEntries(Object.entries(exported).map(([name, t]) => [name, dynamicTool({
//	  description: t.description,
//	  inputSchema: jsonSchema(t.inputSchema.jsonSchema),
//	  execute: (input) => call(name, input),
//	})]));
//
// The AI SDK works with any provider, so its schemas follow the strictest rules.
//
// The deferred formats are for APIs that search tools themselves: the model reads a definition only
// after it found the tool. They include the search tool of the API.
package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

// Format is a format of function definitions.
type Format string

// The formats.
const (
	OpenAI    Format = "openai"    // tools of Chat Completions
	Anthropic Format = "anthropic" // tools of Messages
	Gemini    Format = "gemini"    // one tool of generateContent
	AISDK     Format = "ai-sdk"    // tools of the AI SDK, by name

	OpenAIDeferred    Format = "openai-deferred"    // tools of Responses, in namespaces, which the API searches
	AnthropicDeferred Format = "anthropic-deferred" // tools of Messages, which the API searches
)

// Formats lists all formats.
var Formats = []Format{OpenAI, Anthropic, Gemini, AISDK, OpenAIDeferred, AnthropicDeferred}

// rules are the requirements of a format on the root of a schema.
type rules struct {
	refused    []string // keywords that are not allowed
	properties bool     // properties is required, even if empty
}

var (
	openAIRules    = rules{[]string{"oneOf", "anyOf", "allOf", "enum", "const", "not"}, true}
	anthropicRules = rules{[]string{"oneOf", "anyOf", "allOf"}, false}

	rulesOf = map[Format]rules{OpenAI: openAIRules, Anthropic: anthropicRules, AISDK: openAIRules, OpenAIDeferred: openAIRules, AnthropicDeferred: anthropicRules}
)

var geminiName = regexp.MustCompile(`^[A-Za-z_]`)

// Functions converts tools, in order. Keywords that a format rejects at the root of a schema are
// removed. The properties of their branches become properties of the root, unless it forbids
// additional ones; a property is required if every branch requires it, and may match the schema of
// any branch. The combinations that the branches allow are lost, but the gate still validates them,
// and its error informs the model.
func Functions(f Format, tools []gates.NamedTool) (json.RawMessage, error) {
	if !slices.Contains(Formats, f) {
		return nil, toolyard.Errorf(toolyard.Invalid, "Unknown format %q: use %s.", f, list(Formats))
	}
	definitions := make([]definition, 0, len(tools))
	seen := make(map[string]bool, len(tools))
	for _, t := range tools {
		if seen[t.Name] {
			return nil, toolyard.Errorf(toolyard.Invalid, "Two tools are named %s: export from a gate, where names are unique.", t.Name)
		}
		seen[t.Name] = true
		if f == Gemini && !geminiName.MatchString(t.Name) {
			return nil, toolyard.Errorf(toolyard.Invalid,
				"Gemini requires names that start with a letter or an underscore, but %s does not: rename the tool, or export from a gate with naming: %s.", t.Name, gates.NamingClient)
		}
		schema, err := flatten(t.CallerInput(), rulesOf[f])
		if err != nil {
			return nil, fmt.Errorf("tool %s: input schema: %w", t.Name, err)
		}
		definitions = append(definitions, definition{t.Name, describe(t), schema, group(t)})
	}
	return write(f, definitions)
}

func list(formats []Format) string {
	words := make([]string, len(formats))
	for i, f := range formats {
		words[i] = string(f)
	}
	return strings.Join(words, ", ")
}

// describe returns the description of a tool as in MCP.
func describe(t gates.NamedTool) string { return cmp.Or(t.Description, t.Summary) + t.Note }

// definition is a function independent of the format.
type definition struct {
	name, description string
	schema            json.RawMessage
	group             string // the server, or the category of a local tool
}

func group(t gates.NamedTool) string { return cmp.Or(t.Server, t.Category, "local") }

// The definition of a function in each format.
type (
	openAITool struct {
		Type     string         `json:"type"`
		Function openAIFunction `json:"function"`
	}
	openAIFunction struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	anthropicTool struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"input_schema"`
		Deferred    bool            `json:"defer_loading,omitempty"`
	}
	geminiTool struct {
		FunctionDeclarations []geminiFunction `json:"functionDeclarations"`
	}
	geminiFunction struct {
		Name                 string          `json:"name"`
		Description          string          `json:"description,omitempty"`
		ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema"`
	}
	aiSDKTool struct {
		Description string      `json:"description,omitempty"`
		InputSchema aiSDKSchema `json:"inputSchema"`
	}
	aiSDKSchema struct {
		JSONSchema json.RawMessage `json:"jsonSchema"`
	}
)

func write(f Format, definitions []definition) (json.RawMessage, error) {
	switch f {
	case OpenAI:
		return encode(each(definitions, func(d definition) openAITool {
			return openAITool{"function", openAIFunction{d.name, d.description, d.schema}}
		}))
	case Anthropic:
		return encode(each(definitions, func(d definition) anthropicTool {
			return anthropicTool{d.name, d.description, d.schema, false}
		}))
	case Gemini:
		return encode(geminiTool{each(definitions, func(d definition) geminiFunction {
			return geminiFunction{d.name, d.description, d.schema}
		})})
	case OpenAIDeferred:
		return encode(openAINamespaces(definitions))
	case AnthropicDeferred:
		return encode(anthropicDeferred(definitions))
	default:
		return encodeByName(definitions)
	}
}

func each[T any](definitions []definition, form func(definition) T) []T {
	out := make([]T, 0, len(definitions))
	for _, d := range definitions {
		out = append(out, form(d))
	}
	return out
}

// encodeByName encodes an object with its members in the order of the definitions.
func encodeByName(definitions []definition) (json.RawMessage, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, d := range definitions {
		name, err := encode(d.name)
		if err != nil {
			return nil, err
		}
		tool, err := encode(aiSDKTool{d.description, aiSDKSchema{d.schema}})
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(tool)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// encode encodes compact JSON without HTML escaping.
func encode(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
