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

// object is a JSON object in the document.
type object = map[string]any

// shape is a named schema in the document.
type shape struct {
	name   string
	media  string
	schema func() object
}

// body is the shape of a request body, which allows no unknown members.
func body[T any](name string) *shape {
	return &shape{name, "application/json", bodySchema[T]}
}

// answer is the shape of a response body. Later versions may add members.
func answer[T any](name string) *shape {
	return &shape{name, "application/json", answerSchema[T]}
}

// anything is the shape of a JSON value whose schema is defined elsewhere.
func anything(name string) *shape {
	return &shape{name, "application/json", func() object { return object{} }}
}

// Shapes that contain tool results, which encode themselves.
var (
	callResultShape  = &shape{"CallResult", "application/json", callResultSchema}
	batchResultShape = &shape{"CallBatchResult", "application/json", func() object {
		one := callResultSchema()
		one["properties"].(object)["problem"] = problemSchema()
		return object{"type": "object", "required": []string{"results"}, "properties": object{"results": object{"type": "array", "items": one}}}
	}}
	packResultShape = &shape{"PackActionResult", "application/json", func() object {
		return object{"type": "object", "required": []string{"result"}, "properties": object{
			"result": object{"type": "object", "description": "MCP result of the action."},
		}}
	}}
	streamShape = &shape{"Events", "text/event-stream", func() object {
		return object{"type": "string", "description": "Server-sent events: begin, call, lost."}
	}}
)

func callResultSchema() object {
	schema := answerSchema[callResult]()
	schema["properties"].(object)["result"] = object{"type": "object", "description": "MCP result of the tool. Absent if it requires input."}
	return schema
}

// queryParams are the parameters of query strings.
var queryParams = map[string]object{
	"account":  text("Account. Access to other accounts requires the viewer scope."),
	"caller":   text("Caller."),
	"session":  text("Session that is charged."),
	"server":   text("Server of the tool; - for local tools."),
	"tool":     text("Tool."),
	"gate":     text("Gate."),
	"code":     text("Outcome code, such as OK or TIMEOUT."),
	"failed":   {"type": "boolean", "description": "Only failed calls."},
	"parent":   text("Only calls nested in this call."),
	"since":    {"type": "string", "format": "date-time", "description": "Only calls that started at or after this time."},
	"until":    {"type": "string", "format": "date-time", "description": "Only calls that started before this time."},
	"before":   text("Cursor: the value of next on the previous page."),
	"limit":    {"type": "integer", "minimum": 1, "maximum": store.MaxCalls, "description": "Maximum number of items; at most 200 for tools."},
	"offset":   {"type": "integer", "minimum": 0, "maximum": 100_000, "description": "Number of items to skip."},
	"by":       {"type": "string", "default": "tool", "examples": []string{"tool,day"}, "description": "Comma-separated list of groupings: account, tool, and one of day, week and month. Weeks begin on Monday; times are in UTC."},
	"top":      {"type": "integer", "minimum": 1, "maximum": store.MaxGroups, "description": "Number of top groups to return. Default: all, at most 10,000."},
	"rankBy":   {"type": "string", "enum": []store.Most{store.Spent, store.Called}, "default": store.Spent, "description": "How groups are ranked for top."},
	"minutes":  {"type": "integer", "minimum": 1, "maximum": 1440, "default": 60, "description": "Number of minutes."},
	"q":        text("Search words or word prefixes. If no tool matches all of them, the best matches are returned."),
	"source":   text("Server; - for local tools."),
	"category": text("Category."),
	"mode":     {"type": "string", "enum": []string{"read", "write"}, "description": "Only read-only tools, or only tools that can write."},
	"price":    {"type": "string", "enum": []string{"free", "paid"}, "description": "Only free tools, or only paid ones."},
	"latency":  text("Latency class: instant, fast, slow or streaming."),
	"problem":  {"type": "boolean", "description": "Only tools with problems."},
	"action":   text("Action, such as server.approve."),
	"subject":  text("Subject of the change."),
	"state":    {"type": "string", "enum": []string{"open", "closed", "expired"}, "description": "State of the session."},
	"format":   {"type": "string", "enum": export.Formats, "description": "Format of the functions."},
	"version":  {"type": "integer", "minimum": 0, "description": "Version of the edits that the change is based on."},
}

func text(description string) object {
	return object{"type": "string", "maxLength": maxValue, "description": description}
}

// refusalTexts describe the error statuses.
var refusalTexts = map[int]string{
	400: "Invalid request; see issues.",
	401: "Authentication required.",
	402: "The budget or call limit is exhausted.",
	403: "The caller lacks a required scope.",
	404: "Not found, or not visible to the caller.",
	409: "The version is outdated, or the idempotency key belongs to another call, a call in progress, or a call with an unknown outcome.",
	413: "The body is too large.",
	429: "A limit has been reached. Try again after the time given in Retry-After.",
	503: "Temporarily unavailable. Try again after the time given in Retry-After.",
	504: "The request timed out.",
}

// document is the OpenAPI document. It is generated on first use.
var document struct {
	sync.Once
	json []byte
}

// OpenAPI returns the API's OpenAPI document.
func OpenAPI() []byte {
	document.Do(func() { document.json = newDocument() })
	return document.json
}

func newDocument() []byte {
	paths, schemas := make(object), object{"Problem": problemSchema()}
	_, routes := newServer(Options{})
	for _, r := range routes {
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
	_ = enc.Encode(object{ // cannot fail
		"openapi": "3.1.0",
		"info": object{
			"title": "Toolyard", "version": "1",
			"description": "The Toolyard HTTP API. Amounts are exact decimals in US dollars, as strings. Errors are Problem documents.",
		},
		"paths":    paths,
		"security": []object{{"key": []string{}}, {"cookie": []string{}, "page": []string{}}},
		"components": object{
			"schemas": schemas,
			"securitySchemes": object{
				"key":    object{"type": "http", "scheme": "bearer", "description": "An API key."},
				"cookie": object{"type": "apiKey", "in": "cookie", "name": cookie, "description": "Set by signing in. Valid only together with the page secret."},
				"page":   object{"type": "apiKey", "in": "header", "name": pageHeader, "description": "Page secret from the response to the sign-in."},
			},
		},
	})
	return b.Bytes()
}

// documentRoutes returns the route that serves the document itself.
func documentRoutes() []route {
	return []route{{
		method: "GET", path: "/openapi.json", id: "getOpenAPI", summary: "Get this document.",
		access: open, gives: anything("Document"), serve: getOpenAPI,
	}}
}

func getOpenAPI(*request) (*reply, error) {
	return &reply{body: json.RawMessage(OpenAPI())}, nil
}

// document describes the route.
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
		doc["description"] = map[access]string{viewer: "Requires the viewer or operator scope.", operator: "Requires the operator scope."}[t.access]
	case caller, denied:
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
		answer["headers"] = object{"Location": object{"description": "Path of the session.", "schema": object{"type": "string"}}}
	}
	responses[strconv.Itoa(status)] = answer
	return responses
}

// parameters describes the parameters in the path, query string and header.
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
	codes := slices.Sorted(slices.Values(slices.AppendSeq(slices.Clone(toolFailures), maps.Keys(statuses))))
	return object{
		"type": "object", "required": []string{"type", "title", "status", "detail", "error", "message", "retryable", "correctable"},
		"properties": object{
			"type":         object{"type": "string"},
			"title":        object{"type": "string"},
			"status":       object{"type": "integer"},
			"detail":       object{"type": "string"},
			"error":        object{"type": "string", "examples": codes},
			"message":      object{"type": "string"},
			"retryable":    object{"type": "boolean", "description": "Whether the same request may succeed later. Nothing ran, so it is safe to retry."},
			"correctable":  object{"type": "boolean", "description": "Whether a corrected request, with different arguments or a different name, can succeed."},
			"retryAfterMs": object{"type": "integer"},
			"issues": object{"type": "array", "items": object{
				"type": "object", "required": []string{"path", "message"},
				"properties": object{"path": object{"type": "string"}, "message": object{"type": "string"}},
			}},
			"requiredCapabilities": object{"type": "object"},
			"requiredScopes":       object{"type": "array", "items": object{"type": "string"}},
		},
	}
}

// bodySchema returns the schema of a request body.
func bodySchema[T any]() (schema object) {
	_ = json.Unmarshal(toolyard.SchemaFor[T]().JSON(), &schema) // cannot fail: it is a schema
	return schema
}

// answerSchema returns the schema of a response body, which allows unknown members.
func answerSchema[T any]() object {
	schema := bodySchema[T]()
	widen(schema)
	return schema
}

// widen makes a schema and its subschemas allow unknown members.
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
