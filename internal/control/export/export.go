// Package export converts tools to the function definitions of model APIs, for programs that call a
// model themselves. Names and schemas are the same as at a gate, so injected arguments are omitted.
//
// None of the definitions is strict. OpenAI's strict mode demands that every property is required
// and that no others are allowed, which most schemas don't satisfy. The gate validates the
// arguments of every call anyway.
//
// A model API rejects a whole request if a single schema is unsupported. At the root of a schema,
// OpenAI rejects oneOf, anyOf, allOf, enum, const and not, and Anthropic rejects the first three;
// both allow them at deeper levels. Such schemas are flattened; see [Functions]. OpenAI also
// requires properties, even if empty. Gemini reads parametersJsonSchema as JSON Schema, unlike its
// older parameters field, so its schemas stay unchanged. Its function names must start with a
// letter or an underscore.
//
// The AI SDK has no JSON format for tools, because they contain functions. A few lines of code
// convert the AISDK format, where call is your function that sends a call to the gate:
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
// The deferred formats are for APIs that search tools themselves: the model sees a definition only
// after it has found the tool. They include the API's search tool.
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
	OpenAI    Format = "openai"    // tools for Chat Completions
	Anthropic Format = "anthropic" // tools for Messages
	Gemini    Format = "gemini"    // a tool for generateContent
	AISDK     Format = "ai-sdk"    // tools for the AI SDK, by name

	OpenAIDeferred    Format = "openai-deferred"    // tools for Responses, in namespaces that the API searches
	AnthropicDeferred Format = "anthropic-deferred" // tools for Messages that the API searches
)

// Formats lists all formats.
var Formats = []Format{OpenAI, Anthropic, Gemini, AISDK, OpenAIDeferred, AnthropicDeferred}

// rules are a format's requirements for the root of a schema.
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

// Functions converts tools, in order. It removes keywords that the format rejects at the root of a
// schema. The properties in their branches are moved to the root, unless the root forbids
// additional properties. Such a property is required if every branch requires it, and may match any
// branch's schema. The information about valid combinations is lost, but the gate still validates
// them, and its error message helps the model.
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

// describe returns a tool's description as in MCP.
func describe(t gates.NamedTool) string { return cmp.Or(t.Description, t.Summary) + t.Note }

// definition is a function definition in no particular format.
type definition struct {
	name, description string
	schema            json.RawMessage
	group             string // the server, or the category of a local tool
}

func group(t gates.NamedTool) string { return cmp.Or(t.Server, t.Category, "local") }

// Function definitions in each format.
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

// encodeByName encodes an object whose members have the order of the definitions.
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
