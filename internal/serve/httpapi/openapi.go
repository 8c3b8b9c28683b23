package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/control/export"
	"github.com/toolyard/toolyard/internal/store"
)

// object is a JSON object of the document.
type object = map[string]any

// shape is a schema of the document, under its name.
type shape struct {
	name   string
	media  string
	schema func() object
}

// body is the shape of something that is read: it may have no other members.
func body[T any](name string) *shape {
	return &shape{name, "application/json", bodySchema[T]}
}

// answer is the shape of something that is written: members may be added to it.
func answer[T any](name string) *shape {
	return &shape{name, "application/json", answerSchema[T]}
}

// anything is the shape of a JSON value that others define.
func anything(name string) *shape {
	return &shape{name, "application/json", func() object { return object{} }}
}

// Shapes of what holds results, which write themselves.
var (
	executedShape = &shape{"CallResult", "application/json", executedSchema}
	batchedShape  = &shape{"CallBatchResult", "application/json", func() object {
		one := executedSchema()
		one["properties"].(object)["problem"] = problemSchema()
		return object{"type": "object", "required": []string{"results"}, "properties": object{"results": object{"type": "array", "items": one}}}
	}}
	streamShape = &shape{"Events", "text/event-stream", func() object {
		return object{"type": "string", "description": "Server-sent events: begin, call, lost."}
	}}
)

func executedSchema() object {
	schema := answerSchema[executed]()
	schema["properties"].(object)["result"] = object{"type": "object", "description": "The result of the tool, as MCP has it, unless it asks something first."}
	return schema
}

// queryParams are the parameters of query strings.
var queryParams = map[string]object{
	"account":  text("Only of this account; others than the caller's own need the scope viewer."),
	"caller":   text("Only of this caller."),
	"session":  text("Only calls that this session pays."),
	"server":   text("Only calls of tools of this server; - for local ones."),
	"tool":     text("Only calls of this tool."),
	"gate":     text("Only through this gate."),
	"code":     text("Only calls that ended with this code, such as OK or TIMEOUT."),
	"failed":   {"type": "boolean", "description": "Only calls that did not end well."},
	"parent":   text("Only calls that the tool of this call made."),
	"since":    {"type": "string", "format": "date-time", "description": "Only calls that began at this time or later."},
	"until":    {"type": "string", "format": "date-time", "description": "Only calls that began before this time."},
	"before":   text("Where to go on: what next was on the page before."),
	"limit":    {"type": "integer", "minimum": 1, "maximum": store.MaxCalls, "description": "How many a page has, at most; of tools at most 200."},
	"offset":   {"type": "integer", "minimum": 0, "maximum": 100_000, "description": "How many to leave out."},
	"by":       {"type": "string", "default": "tool", "examples": []string{"tool,day"}, "description": "What to group by, separated by commas: account, tool, and one of day, week and month. Weeks begin on Monday; all are in UTC."},
	"top":      {"type": "integer", "minimum": 1, "maximum": store.MaxGroups, "description": "Only so many groups, those with the most; all when it is not said, of which there may be 10,000."},
	"rankBy":   {"type": "string", "enum": []store.Most{store.Spent, store.Called}, "default": store.Spent, "description": "What top ranks groups by."},
	"minutes":  {"type": "integer", "minimum": 1, "maximum": 1440, "default": 60, "description": "How many minutes."},
	"q":        text("Words that the tool has, or begins with."),
	"source":   text("Only of this server; - for local tools."),
	"category": text("Only of this category."),
	"mode":     {"type": "string", "enum": []string{"read", "write"}, "description": "Only tools that only read, or only those that do not."},
	"price":    {"type": "string", "enum": []string{"free", "paid"}, "description": "Only tools that cost nothing, or only those that do."},
	"latency":  text("Only of this latency class: instant, fast, slow, streaming."),
	"problem":  {"type": "boolean", "description": "Only with problems."},
	"action":   text("Only changes of this kind, such as server.approve."),
	"subject":  text("Only changes of this."),
	"state":    {"type": "string", "enum": []string{"open", "closed", "expired"}, "description": "Only sessions in this state."},
	"format":   {"type": "string", "enum": export.Formats, "description": "Whose functions."},
	"version":  {"type": "integer", "minimum": 0, "description": "That of the edits that you have seen."},
}

func text(description string) object {
	return object{"type": "string", "maxLength": maxValue, "description": description}
}

// refusalTexts say what the statuses of refusals mean.
var refusalTexts = map[int]string{
	400: "What was sent cannot be used; the issues say why.",
	401: "It is not known who calls.",
	402: "There is not enough money left, or no call.",
	403: "Who calls may not.",
	404: "There is no such thing, or none for this caller.",
	409: "The idempotency key belongs to another call, or to one that is running, or to one whose outcome nobody knows.",
	413: "The body is too large.",
	429: "A limit is reached; Retry-After says until when.",
	503: "Something that is needed cannot be reached now; Retry-After says when to try again.",
	504: "It took too long.",
}

// document is the document that describes the API, once it was made.
var document struct {
	sync.Once
	json []byte
}

// OpenAPI is the document that describes the API.
func OpenAPI() []byte {
	document.Do(func() { document.json = newDocument() })
	return document.json
}

func newDocument() []byte {
	paths, schemas := make(object), object{"Problem": problemSchema()}
	for _, r := range newV1(Options{}).routes() {
		item, ok := paths[prefix+r.path].(object)
		if !ok {
			item = make(object)
			paths[prefix+r.path] = item
		}
		item[strings.ToLower(r.method)] = r.document()
		for _, s := range []*shape{r.takes, r.gives} {
			if s != nil {
				schemas[s.name] = s.schema()
			}
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(object{ // always has a JSON form
		"openapi": "3.1.0",
		"info": object{
			"title": "Toolyard", "version": "1",
			"description": "The HTTP API beside MCP. Amounts are exact decimals in US dollars, as text. A refusal is a Problem.",
		},
		"paths":    paths,
		"security": []object{{"key": []string{}}, {"cookie": []string{}, "page": []string{}}},
		"components": object{
			"schemas": schemas,
			"securitySchemes": object{
				"key":    object{"type": "http", "scheme": "bearer", "description": "An API key."},
				"cookie": object{"type": "apiKey", "in": "cookie", "name": cookie, "description": "Set by signing in; it counts only together with the page secret."},
				"page":   object{"type": "apiKey", "in": "header", "name": pageHeader, "description": "The page secret that signing in answered."},
			},
		},
	})
	return b.Bytes()
}

func getOpenAPI(*request) (*reply, error) {
	return &reply{body: json.RawMessage(OpenAPI())}, nil
}

// document is the route as the document has it.
func (t *route) document() object {
	doc := object{"operationId": t.id, "summary": t.summary, "responses": t.responses()}
	if params := t.parameters(); len(params) > 0 {
		doc["parameters"] = params
	}
	if t.takes != nil {
		doc["requestBody"] = object{"required": true, "content": t.takes.content()}
	}
	switch t.access {
	case open:
		doc["security"] = []object{}
	case viewer, operator:
		doc["description"] = map[access]string{viewer: "Needs the scope viewer or operator.", operator: "Needs the scope operator."}[t.access]
	case caller, nobody:
	}
	return doc
}

func (t *route) responses() object {
	responses := make(object)
	refusals := t.refusals
	if t.access != open {
		refusals = append([]int{401, 403, 503, 504}, refusals...)
	}
	for _, status := range refusals {
		refusal := object{"description": refusalTexts[status], "content": problemShape.content()}
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			refusal["headers"] = object{"Retry-After": object{"description": "In seconds.", "schema": object{"type": "integer"}}}
		}
		responses[strconv.Itoa(status)] = refusal
	}
	status := cmp.Or(t.status, http.StatusOK)
	answer := object{"description": http.StatusText(status)}
	if t.gives != nil {
		answer["content"] = t.gives.content()
	}
	if t.id == "openSession" {
		answer["headers"] = object{"Location": object{"description": "Where it is.", "schema": object{"type": "string"}}}
	}
	responses[strconv.Itoa(status)] = answer
	return responses
}

// parameters are those of the path, of the query string and of the header.
func (t *route) parameters() (params []object) {
	for part := range strings.SplitSeq(t.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			params = append(params, object{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	for _, name := range t.query {
		schema, ok := t.params[name]
		if !ok {
			schema = maps.Clone(queryParams[name])
		}
		params = append(params, object{"name": name, "in": "query", "required": name == "version", "schema": schema})
	}
	if t.keyed {
		params = append(params, object{"name": "Idempotency-Key", "in": "header", "schema": object{"type": "string", "maxLength": maxKey}})
	}
	return params
}

var problemShape = &shape{"Problem", "application/problem+json", problemSchema}

func (s *shape) content() object {
	return object{s.media: object{"schema": object{"$ref": "#/components/schemas/" + s.name}}}
}

func problemSchema() object {
	codes := slices.Sorted(slices.Values(toolyard.Codes))
	return object{
		"type": "object", "required": []string{"type", "title", "status", "detail", "error", "message", "retryable", "correctable"},
		"properties": object{
			"type":         object{"type": "string"},
			"title":        object{"type": "string"},
			"status":       object{"type": "integer"},
			"detail":       object{"type": "string"},
			"error":        object{"type": "string", "examples": codes},
			"message":      object{"type": "string"},
			"retryable":    object{"type": "boolean", "description": "Whether the same request may succeed later: nothing ran, so it is safe to send it again."},
			"correctable":  object{"type": "boolean", "description": "Whether a changed request can succeed: other arguments, or another name."},
			"retryAfterMs": object{"type": "integer"},
			"issues": object{"type": "array", "items": object{
				"type": "object", "required": []string{"path", "message"},
				"properties": object{"path": object{"type": "string"}, "message": object{"type": "string"}},
			}},
			"requiredCapabilities": object{"type": "object"},
		},
	}
}

// bodySchema is the schema of something that is read: it may have no other members.
func bodySchema[T any]() (schema object) {
	_ = json.Unmarshal(toolyard.SchemaFor[T]().JSON(), &schema) // it is a schema
	return schema
}

// answerSchema is the schema of something that is written: members may be added to it.
func answerSchema[T any]() object {
	schema := bodySchema[T]()
	widen(schema)
	return schema
}

// widen lets a schema, and those inside it, have members that it does not name.
func widen(schema any) {
	switch s := schema.(type) {
	case object:
		if s["additionalProperties"] == false {
			delete(s, "additionalProperties")
		}
		for _, inner := range s {
			widen(inner)
		}
	case []any:
		for _, inner := range s {
			widen(inner)
		}
	}
}
