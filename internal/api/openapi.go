package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
)

// object is a JSON object of the document.
type object = map[string]any

// operation describes a route.
type operation struct {
	id, summary string
	body        string   // the schema of the body, empty for none
	answer      string   // the schema of the answer, empty for none
	status      int      // of the answer
	params      []string // of the query string, each of queryParams
	refusals    []int    // statuses beside those that every route has
	open        bool     // for everyone
}

// operations are all routes, by method and path.
var operations = map[string]operation{
	"POST /sessions": {
		id: "openSession", summary: "Open a session: a budget for calls, taken from the caller's account.",
		body: "OpenSession", answer: "Purse", status: http.StatusCreated, refusals: []int{400, 402, 404, 413},
	},
	"GET /sessions/{id}": {
		id: "getSession", summary: "A session of the caller's account as it is now.",
		answer: "Purse", status: http.StatusOK, refusals: []int{404},
	},
	"POST /sessions/{id}/close": {
		id: "closeSession", summary: "Close a session; what is left goes back to the account.",
		answer: "Purse", status: http.StatusOK, refusals: []int{404},
	},
	"POST /tools/execute": {
		id: "executeTool", summary: "Call a tool. A tool that failed is an answer too: its result says isError, and nothing is charged.",
		body: "Execute", answer: "Executed", status: http.StatusOK, refusals: []int{400, 402, 404, 409, 413, 429},
	},
	"GET /account": {
		id: "getAccount", summary: "The caller's account as it is now.", answer: "Purse", status: http.StatusOK, refusals: []int{404},
	},
	"GET /calls": {
		id: "listCalls", summary: "Calls on the record, the newest first: those of the caller's account; of any account with the role admin.",
		params: []string{"account", "caller", "session", "server", "tool", "gate", "code", "since", "until", "before", "limit"},
		answer: "Calls", status: http.StatusOK, refusals: []int{400, 404},
	},
	"GET /costs": {
		id: "listCosts", summary: "What calls have cost, of the last 30 days if it is not said since when.",
		params: []string{"account", "by", "since", "until"}, answer: "Costs", status: http.StatusOK, refusals: []int{400, 404},
	},
	"GET /latencies": {
		id: "listLatencies", summary: "How long calls took, of the last day if it is not said since when.",
		params: []string{"account", "server", "tool", "since", "until"}, answer: "Latencies", status: http.StatusOK, refusals: []int{400, 404},
	},
	"GET /links": {
		id: "listLinks", summary: "What the caller has linked, for tools that ask for it.", answer: "Links", status: http.StatusOK, refusals: []int{404},
	},
	"GET /links/{kind}": {
		id: "getLink", summary: "What the caller has linked as one kind.", answer: "Link", status: http.StatusOK, refusals: []int{404},
	},
	"PUT /links/{kind}": {
		id: "setLink", summary: "Link an account elsewhere.", body: "SetLink", answer: "Link", status: http.StatusOK, refusals: []int{400, 404, 413},
	},
	"DELETE /links/{kind}": {
		id: "removeLink", summary: "Remove a link; it need not be there.", status: http.StatusNoContent, refusals: []int{404},
	},
	"GET /openapi.json": {
		id: "getDocument", summary: "This document.", answer: "Document", status: http.StatusOK, open: true,
	},
}

// queryParams are the parameters of query strings.
var queryParams = map[string]object{
	"account": text("Only calls of this account; others than the caller's own need the role admin."),
	"caller":  text("Only calls of this caller."),
	"session": text("Only calls that this session pays."),
	"server":  text("Only calls of tools of this server."),
	"tool":    text("Only calls of this tool."),
	"gate":    text("Only calls through this gate."),
	"code":    text("Only calls that ended with this code, such as OK or TIMEOUT."),
	"since":   {"type": "string", "format": "date-time", "description": "Only calls that began at this time or later."},
	"until":   {"type": "string", "format": "date-time", "description": "Only calls that began before this time."},
	"before":  text("Where to go on: what next was on the page before."),
	"limit":   {"type": "integer", "minimum": 1, "maximum": store.MaxCalls, "default": defaultLimit, "description": "How many calls a page has."},
	"by":      {"type": "string", "default": "tool", "examples": []string{"tool,day"}, "description": "What to group by: account, tool, day, with commas between them."},
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

// OpenAPI is the document that describes the API.
var OpenAPI = sync.OnceValue(func() []byte {
	paths := make(object)
	for key, op := range operations {
		method, path, _ := strings.Cut(key, " ")
		item, ok := paths[prefix+path].(object)
		if !ok {
			item = make(object)
			paths[prefix+path] = item
		}
		item[strings.ToLower(method)] = op.document(path)
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
		"security": []object{{"key": []string{}}},
		"components": object{
			"schemas":         schemas(),
			"securitySchemes": object{"key": object{"type": "http", "scheme": "bearer", "description": "An API key."}},
		},
	})
	return b.Bytes()
})

func getOpenAPI(http.ResponseWriter, *http.Request, toolyard.Caller) (*reply, error) {
	return &reply{body: json.RawMessage(OpenAPI())}, nil
}

// document is the operation as the document has it.
func (op operation) document(path string) object {
	doc := object{"operationId": op.id, "summary": op.summary, "responses": op.responses()}
	if params := op.parameters(path); len(params) > 0 {
		doc["parameters"] = params
	}
	if op.body != "" {
		doc["requestBody"] = object{"required": true, "content": content(op.body)}
	}
	if op.open {
		doc["security"] = []object{}
	}
	return doc
}

func (op operation) responses() object {
	responses := make(object)
	refusals := op.refusals
	if !op.open {
		refusals = append([]int{401, 403, 503, 504}, refusals...)
	}
	for _, status := range refusals {
		refusal := object{"description": refusalTexts[status], "content": content("Problem")}
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			refusal["headers"] = object{"Retry-After": object{"description": "In seconds.", "schema": object{"type": "integer"}}}
		}
		responses[strconv.Itoa(status)] = refusal
	}
	answer := object{"description": http.StatusText(op.status)}
	if op.answer != "" {
		answer["content"] = content(op.answer)
	}
	if op.status == http.StatusCreated {
		answer["headers"] = object{"Location": object{"description": "Where it is.", "schema": object{"type": "string"}}}
	}
	responses[strconv.Itoa(op.status)] = answer
	return responses
}

// parameters are those of the path, of the query string and of the header.
func (op operation) parameters(path string) (params []object) {
	for part := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			params = append(params, object{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	for _, name := range op.params {
		params = append(params, object{"name": name, "in": "query", "schema": queryParams[name]})
	}
	if op.body == "Execute" || op.body == "OpenSession" {
		params = append(params, object{"name": "Idempotency-Key", "in": "header", "schema": object{"type": "string", "maxLength": maxKey}})
	}
	return params
}

func content(schema string) object {
	return object{"application/json": object{"schema": object{"$ref": "#/components/schemas/" + schema}}}
}

// schemas are derived from the types that are read and written, but for results and
// problems, which write themselves.
func schemas() object {
	executedSchema := answerSchema[executed]()
	executedSchema["properties"].(object)["result"] = object{"type": "object", "description": "The result of the tool, as MCP has it."}
	executedSchema["required"] = []string{"result"}
	return object{
		"OpenSession": bodySchema[sessionBody](),
		"Execute":     bodySchema[executeBody](),
		"SetLink":     bodySchema[linkBody](),
		"Purse":       answerSchema[toolyard.Purse](),
		"Executed":    executedSchema,
		"Calls":       answerSchema[callsPage](),
		"Costs":       answerSchema[costsPage](),
		"Latencies":   answerSchema[latenciesPage](),
		"Links":       answerSchema[linksPage](),
		"Link":        answerSchema[link](),
		"Document":    object{"type": "object"},
		"Problem":     problemSchema(),
	}
}

func problemSchema() object {
	codes := slices.Sorted(slices.Values(toolyard.Codes))
	return object{
		"type": "object", "required": []string{"error", "message", "retryable"},
		"properties": object{
			"error":        object{"type": "string", "examples": codes},
			"message":      object{"type": "string"},
			"retryable":    object{"type": "boolean", "description": "Whether the caller can mend it and try again."},
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
	open(schema)
	return schema
}

// open lets a schema, and those inside it, have members that it does not name.
func open(schema any) {
	switch s := schema.(type) {
	case object:
		if s["additionalProperties"] == false {
			delete(s, "additionalProperties")
		}
		for _, inner := range s {
			open(inner)
		}
	case []any:
		for _, inner := range s {
			open(inner)
		}
	}
}
