package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/trust/seal"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// maxRounds is how often one call may ask a client of the legacy era. One of the modern
// era asks itself how often it goes on.
const maxRounds = 8

// errResourceNotFound is the number of the legacy era for an address that nobody reads.
const errResourceNotFound = -32002

// job is a request for what runs on the call path: a call of a tool, the reading of a
// resource, a prompt, a completion.
type job struct {
	serve.CallRequest
	gate   *gate
	view   *view
	era    era
	method string
	name   string          // of the tool or the prompt, or the address of the resource
	params json.RawMessage // of a completion
	opened seal.Nonce      // of the state that came back; zero for none

	tool *toolyard.Tool                                                       // what runs; nil before resolve, and for a completion that nobody offers
	ask  func(context.Context, *inquiry) (answers json.RawMessage, err error) // of the legacy era
}

// runs reports whether a method is one for a job.
func runs(method string) bool {
	return slices.Contains([]string{"tools/call", "resources/read", "prompts/get", "completion/complete"}, method)
}

// run does the job, and encodes how it ended.
func (j *job) run(ctx context.Context) ([]byte, *jsonrpc.Error) {
	if err := j.resolve(); err != nil {
		return nil, j.refusal(err)
	}
	if j.tool == nil {
		return j.hop(nil).append(nil, json.RawMessage(`{"completion":{"values":[],"total":0,"hasMore":false}}`)), nil
	}
	fault, err := j.resume(ctx)
	if err != nil {
		return nil, j.refusal(toolyard.AsError(err))
	}
	if fault != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: wireNames[fault.Path] + " " + fault.Message}
	}
	for round := 0; ; round++ {
		at, err := j.step(ctx)
		if err != nil || at.asked == nil {
			return j.answer(at.call, at.res, err)
		}
		if j.era == modernEra {
			h := j.hop(at.call)
			h.state = j.seal(at.asked)
			return h.append(nil, at.res.Raw()), nil
		}
		if err := j.askClient(ctx, round, at.asked); err != nil {
			return j.answer(at.call, nil, err)
		}
	}
}

// stage is how far a job has come: to its end, or to what it asks before it goes on.
type stage struct {
	call  *toolyard.Call
	res   *toolyard.Result // nil for a job that failed
	asked *inquiry         // nil for a job that has ended
}

// step runs the job until it ends or asks something that whoever wants it done can answer.
func (j *job) step(ctx context.Context) (stage, error) {
	c, res, err := j.gate.run(ctx, j.view, j.tool, &j.CallRequest)
	if err != nil && !c.Ran() {
		j.release(ctx)
	}
	if err != nil || !res.InputRequired() {
		return stage{call: c, res: res}, err
	}
	asked, err := inquire(c, res.Raw())
	if err == nil && j.method == "completion/complete" {
		err = toolyard.Errorf(toolyard.Failed, "A completion cannot ask for input.")
	}
	if err != nil {
		return stage{call: c}, err
	}
	return stage{c, res, asked}, nil
}

// seal is the state of what a job asks, as whoever answers keeps it.
func (j *job) seal(asked *inquiry) string {
	s := j.gate.server
	return s.sealer().seal(asked.state, binding(j), s.opts.Now())
}

// askClient asks a client of the legacy era, whose answers are for the next step.
func (j *job) askClient(ctx context.Context, round int, asked *inquiry) (err error) {
	if round == maxRounds {
		return toolyard.Errorf(toolyard.Failed, "%s asked %d times for input and was stopped.", j.tool.Name, maxRounds)
	}
	j.State = asked.state
	j.Answers, err = j.ask(ctx, asked)
	return err
}

// resolve finds what the request names on the view, and makes the arguments for it.
func (j *job) resolve() *toolyard.Error {
	switch j.method {
	case "tools/call":
		tool, ok := j.view.Lookup(j.name)
		if !ok {
			return toolyard.Errorf(toolyard.UnknownTool, "Unknown tool: %s", j.name)
		}
		j.tool = tool
	case "resources/read":
		resource, ok := j.view.ReadResource(j.name)
		if !ok {
			return toolyard.Errorf(toolyard.NotFound, "Unknown resource: %s", j.name)
		}
		j.tool, j.Args = resource.Reader, readArgs(j.name)
	case "prompts/get":
		return j.resolvePrompt()
	case "completion/complete":
		return j.resolveCompletion()
	}
	return nil
}

func readArgs(uri string) json.RawMessage {
	return append(jsonobject.AppendString([]byte(`{"uri":`), uri), '}')
}

func (j *job) resolvePrompt() *toolyard.Error {
	prompt, ok := j.view.GetPrompt(j.name)
	if !ok {
		return toolyard.Errorf(toolyard.NotFound, "Unknown prompt: %s", j.name)
	}
	given := j.Args
	if len(given) == 0 || string(given) == "null" {
		given = json.RawMessage("{}")
	}
	if given[0] != '{' {
		return toolyard.Errorf(toolyard.Invalid, "The arguments of the prompt %s are not an object.", j.name)
	}
	for key, value := range strictjson.Members(given) {
		if value[0] != '"' {
			return toolyard.Errorf(toolyard.Invalid, "The argument %s of the prompt %s is not a string.", key, j.name)
		}
	}
	j.tool = prompt.Getter
	j.Args = jsonobject.AppendString([]byte(`{"name":`), prompt.Name)
	j.Args = append(append(append(j.Args, `,"arguments":`...), given...), '}')
	return nil
}

// resolveCompletion finds who completes an argument of a prompt or of a template. That
// nobody does is no error: there are no proposals then.
func (j *job) resolveCompletion() *toolyard.Error {
	ref := strictjson.Member(j.params, "ref")
	name, _ := strictjson.String(strictjson.Member(ref, "name"))
	uri, _ := strictjson.String(strictjson.Member(ref, "uri"))
	j.Args = withoutMeta(j.params)
	switch kind, _ := strictjson.String(strictjson.Member(ref, "type")); kind {
	case "ref/prompt":
		prompt, ok := j.view.GetPrompt(name)
		if !ok {
			return toolyard.Errorf(toolyard.NotFound, "Unknown prompt: %s", name)
		}
		j.tool = prompt.Completer
		shown := strictjson.Member(strictjson.Member(j.Args, "ref"), "name")
		j.Args = apply(j.Args, []edit{replacement(j.Args, shown, string(jsonobject.AppendString(nil, prompt.Name)))})
	case "ref/resource":
		i := slices.IndexFunc(j.view.Resources, func(r *toolyard.Resource) bool { return r.URI == uri })
		if i < 0 {
			return toolyard.Errorf(toolyard.NotFound, "Unknown resource: %s", uri)
		}
		j.tool = j.view.Resources[i].Completer
	default:
		return toolyard.Errorf(toolyard.Invalid, "A completion has a ref to a prompt or a resource.")
	}
	return nil
}

// withoutMeta is an object without its _meta, which is for this hop only.
func withoutMeta(params json.RawMessage) json.RawMessage {
	b := []byte{'{'}
	for key, value := range strictjson.Members(params) {
		if key != "_meta" {
			b = append(append(append(jsonobject.AppendString(b, key), ':'), value...), ',')
		}
	}
	return append(bytes.TrimSuffix(b, []byte(",")), '}')
}

// wireNames are the names that MCP has for what is brought back of an unfinished result.
var wireNames = map[string]string{"answers": "inputResponses", "state": "requestState"}

// resume opens what is brought back of an unfinished result, and returns what is wrong with
// it. Whatever that is, nothing runs. Answers without a state are the caller's own words, as
// arguments are.
func (j *job) resume(ctx context.Context) (*toolyard.Issue, error) {
	if j.era == legacyEra {
		j.Answers, j.State = nil, ""
		return nil, nil
	}
	if j.Answers != nil && (j.Answers[0] != '{' || len(j.Answers) > maxAnswers) {
		return &toolyard.Issue{Path: "answers", Message: fmt.Sprintf("must be an object of at most %d KiB", maxAnswers>>10)}, nil
	}
	if j.State == "" {
		return nil, nil
	}
	key, _, _ := takeString(metaKey, j.Key, j.Meta) // what is wrong with it is said when it runs
	var ok bool
	var err error
	if j.State, j.opened, ok = j.gate.server.sealer().open(j.State, binding(j), key, j.gate.server.opts.Now()); ok {
		ok, err = j.consume(ctx, key)
	}
	if !ok && err == nil {
		return &toolyard.Issue{Path: "state", Message: "is not for this call, has expired, or was used before: call again without it"}, nil
	}
	return nil, err
}

// answer encodes how the job ended. Only the call of a tool has a result for failures.
func (j *job) answer(c *toolyard.Call, res *toolyard.Result, err error) ([]byte, *jsonrpc.Error) {
	if j.method == "tools/call" {
		return j.answerCall(c, res, err)
	}
	var document json.RawMessage
	if err == nil {
		document, err = j.document(res)
	}
	if err != nil {
		return nil, j.refusal(toolyard.AsError(err))
	}
	return j.hop(c).append(nil, document), nil
}

func (j *job) answerCall(c *toolyard.Call, res *toolyard.Result, err error) ([]byte, *jsonrpc.Error) {
	if err != nil {
		te := toolyard.AsError(err)
		if j.view.Gate.Errors == gates.ErrorsAsProtocol || te.Code == toolyard.UnknownTool || te.Code == toolyard.MissingCapability {
			return nil, j.refusal(te)
		}
		res = te.Result()
	}
	if raw := res.Raw(); raw != nil {
		return j.hop(c).append(nil, raw), nil
	}
	return j.gate.appendResult(nil, j.era, c, res), nil
}

// document is the result object of a read, a prompt or a completion: what its tool handed
// over as it is, or returned as data.
func (j *job) document(res *toolyard.Result) (json.RawMessage, error) {
	raw := res.Raw()
	if raw == nil && res.IsError {
		return nil, toolyard.Errorf(toolyard.Failed, "%s", textOf(res.Content))
	}
	if raw == nil {
		raw = res.Structured
	}
	want := map[string]string{"resources/read": "contents", "prompts/get": "messages", "completion/complete": "completion"}[j.method]
	if strictjson.Member(raw, want) == nil {
		return nil, toolyard.Errorf(toolyard.InvalidOutput, "The result of %s has no %s.", j.tool.Name, want)
	}
	return raw, nil
}

func textOf(content []toolyard.Content) string {
	var texts []string
	for _, c := range content {
		if t, ok := c.(toolyard.Text); ok {
			texts = append(texts, string(t))
		}
	}
	return strings.Join(texts, "\n")
}

// refusal is a failure as a JSON-RPC error. For what is not a tool, MCP has numbers for
// wrong names and wrong arguments, whatever the error style of the gate.
func (j *job) refusal(e *toolyard.Error) *jsonrpc.Error {
	if j.method == "tools/call" || e.Code != toolyard.NotFound && e.Code != toolyard.Invalid {
		return protocolError(j.view.Gate.Errors, e)
	}
	wire := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: e.Error(), Data: e.Data()}
	if j.method == "resources/read" && e.Code == toolyard.NotFound {
		wire.Data = readArgs(j.name)
		if j.era == legacyEra {
			wire.Code = errResourceNotFound
		}
	}
	return wire
}

// hop is what a result of the job says of this hop. There is no call when nothing ran.
func (j *job) hop(c *toolyard.Call) *hop {
	h := &hop{era: j.era, server: j.gate.server.serverInfo, cached: j.method == "resources/read"}
	if c != nil {
		h.call, h.paid, h.typed = c.ID, c, len(c.Tool.Output) > 0
	}
	return h
}
