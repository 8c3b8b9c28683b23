// Package export writes tools as the function definitions that models' APIs take, for those
// who call a model themselves. Names are those of a gate, and so are the schemas: what the
// platform injects is not in them.
//
// None of the definitions is strict. OpenAI's strict mode, for one, wants every property
// required and no others allowed, which the schemas of most tools do not say; the gate checks
// the arguments of every call anyway.
//
// A model's API refuses a request as a whole for one schema that it does not like. OpenAI
// takes neither oneOf, anyOf, allOf, enum, const nor not at the root of a schema, Anthropic
// none of the first three; inside they are fine. Such a schema is written without them, and
// with the properties of their branches: see [Functions]. OpenAI also wants properties named,
// if only none. Gemini reads parametersJsonSchema as JSON Schema, unlike its older parameters,
// and gets every schema as it is; it wants names that begin with a letter or an underscore.
//
// The AI SDK has no definitions in JSON: its tools hold functions. AISDK is an object that
// becomes its tools with a few lines, where call stands for whatever sends a call to the gate:
//
//	import { dynamicTool, jsonSchema } from "ai";
//
//	const tools = Object.fromEntries(Object.entries(exported).map(([name, t]) => [name, dynamicTool({
//	  description: t.description,
//	  inputSchema: jsonSchema(t.inputSchema.jsonSchema),
//	  execute: (input) => call(name, input),
//	})]));
//
// Any provider may be behind the AI SDK, so its schemas are written for the strictest.
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

// Format is whose function definitions to write.
type Format string

// The formats.
const (
	OpenAI    Format = "openai"    // tools of Chat Completions
	Anthropic Format = "anthropic" // tools of Messages
	Gemini    Format = "gemini"    // one tool of generateContent
	AISDK     Format = "ai-sdk"    // tools of the AI SDK, by name
)

// Formats are all formats.
var Formats = []Format{OpenAI, Anthropic, Gemini, AISDK}

// rules are what a format wants of the root of a schema.
type rules struct {
	refused    []string // keywords that it must not have
	properties bool     // it must have some, even if they are none
}

var (
	openAIRules    = rules{[]string{"oneOf", "anyOf", "allOf", "enum", "const", "not"}, true}
	anthropicRules = rules{[]string{"oneOf", "anyOf", "allOf"}, false}

	rulesOf = map[Format]rules{OpenAI: openAIRules, Anthropic: anthropicRules, AISDK: openAIRules}
)

var geminiName = regexp.MustCompile(`^[A-Za-z_]`)

// Functions writes the tools in their order. Where a format refuses keywords at the root of a
// schema, they are left out. The properties of their branches become properties of the root,
// unless it allows no others than its own, and what every branch requires is required; a
// property that branches describe differently may be as either says. What is lost is which of
// them belong together. The gate still checks that, and its answer tells the model.
func Functions(f Format, tools []gates.NamedTool) (json.RawMessage, error) {
	if !slices.Contains(Formats, f) {
		return nil, toolyard.Errorf(toolyard.Invalid, "There is no format %q: use %s.", f, list(Formats))
	}
	definitions := make([]definition, 0, len(tools))
	seen := make(map[string]bool, len(tools))
	for _, t := range tools {
		if seen[t.Name] {
			return nil, toolyard.Errorf(toolyard.Invalid, "Two tools are called %s: export a gate, where names are unique.", t.Name)
		}
		seen[t.Name] = true
		if f == Gemini && !geminiName.MatchString(t.Name) {
			return nil, toolyard.Errorf(toolyard.Invalid,
				"Gemini wants names that begin with a letter or an underscore, and %s does not: rename the tool, or export a gate with the naming %q.", t.Name, gates.NamingClient)
		}
		schema, err := flatten(t.CallerInput(), rulesOf[f])
		if err != nil {
			return nil, fmt.Errorf("tool %s: input schema: %w", t.Name, err)
		}
		definitions = append(definitions, definition{t.Name, describe(t), schema})
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

// describe is what a model is told about the tool, as MCP has it.
func describe(t gates.NamedTool) string { return cmp.Or(t.Description, t.Summary) + t.Note }

// definition is what all formats know of a function.
type definition struct {
	name, description string
	schema            json.RawMessage
}

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
			return anthropicTool{d.name, d.description, d.schema}
		}))
	case Gemini:
		return encode(geminiTool{each(definitions, func(d definition) geminiFunction {
			return geminiFunction{d.name, d.description, d.schema}
		})})
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

// encodeByName writes an object whose members are in the order of the definitions.
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

// encode writes compact JSON with its signs as they are: nobody puts it into HTML.
func encode(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
