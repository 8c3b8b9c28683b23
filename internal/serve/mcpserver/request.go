package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/offer"
	"github.com/toolyard/toolyard/internal/trust/seal"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// maxRounds limits how often one call may ask a legacy client for input. Modern clients repeat the
// call themselves.
const maxRounds = 8

// errResourceNotFound is the legacy error code for an unknown resource.
const errResourceNotFound = -32002

// callMethods are the methods that use the call path.
var callMethods = []string{"tools/call", "resources/read", "prompts/get", "completion/complete"}

// request is a request that uses the call path: a tool call, a resource read, a prompt or a
// completion.
type request struct {
	serve.CallRequest
	gate   *gate
	view   *view
	era    era
	method string
	name   string          // name of the tool or prompt, or URI of the resource
	params json.RawMessage // for completions
	nonce  seal.Nonce      // nonce of the state in use; zero if there is none

	meta   string                                          // meta-tool that made the request; may be empty
	answer func(context.Context) (*toolyard.Result, error) // set by resolve for requests that call no tool

	tool *toolyard.Tool                                                             // set by resolve; nil for a completion that has no provider
	ask  func(context.Context, *inputRequired) (answers json.RawMessage, err error) // asks a legacy client
}

// run resolves the request, runs it and encodes the result.
func (r *request) run(ctx context.Context) ([]byte, *jsonrpc.Error) {
	switch err := r.resolve(); {
	case err != nil && r.meta != "":
		return r.encodeMeta(nil, err)
	case err != nil:
		return nil, r.refusal(err)
	case r.answer != nil:
		res, err := r.answer(ctx)
		if r.meta == "" {
			return r.encode(nil, res, err)
		}
		return r.encodeMeta(res, err)
	}
	if r.tool == nil {
		return r.envelope(nil).append(nil, json.RawMessage(`{"completion":{"values":[],"total":0,"hasMore":false}}`)), nil
	}
	fault, err := r.resume(ctx)
	if err != nil {
		return nil, r.refusal(toolyard.AsError(err))
	}
	if fault != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: wireNames[fault.Path] + " " + fault.Message}
	}
	for n := 0; ; n++ {
		round, err := r.runRound(ctx)
		if err == nil && round.input == nil {
			round.result = r.abridge(ctx, round.call, round.result)
		}
		if err != nil || round.input == nil {
			return r.encode(round.call, round.result, err)
		}
		if r.era == modernEra {
			e := r.envelope(round.call)
			e.state = r.sealState(round.input)
			return e.append(nil, round.result.Raw()), nil
		}
		if err := r.askClient(ctx, n, round.input); err != nil {
			return r.encode(round.call, nil, err)
		}
	}
}

// round is one run of the call path. It either ends the request or requires input.
type round struct {
	call   *toolyard.Call
	result *toolyard.Result // nil if the call failed
	input  *inputRequired   // nil if the request has ended
}

// runRound runs the call path once. It fails if the tool requires input that the client cannot
// provide.
func (r *request) runRound(ctx context.Context) (round, error) {
	c, res, err := r.call(ctx)
	if err != nil && !c.Ran() && toolyard.AsError(err).Code != toolyard.PermissionDenied { // a denied call is final
		r.releaseState(ctx)
	}
	if err != nil || !res.InputRequired() {
		return round{call: c, result: res}, err
	}
	input, err := readInputRequired(c, res.Raw())
	if err == nil && r.method == "completion/complete" {
		err = toolyard.Errorf(toolyard.Failed, "A completion request cannot ask for user input.")
	}
	if err != nil {
		return round{call: c}, err
	}
	return round{c, res, input}, nil
}

// _meta members for the session, the idempotency key and the as-of time. They are not passed on.
const (
	metaSession = "dev.toolyard/session"
	metaKey     = "dev.toolyard/idempotencyKey"
	metaAsOf    = "dev.toolyard/asOf"
)

// takeString removes a string from a request's metadata. If there is a current value, the string
// must be equal to it.
func takeString(key, current string, meta map[string]json.RawMessage) (string, map[string]json.RawMessage, error) {
	raw, ok := meta[key]
	if !ok {
		return current, meta, nil
	}
	meta = maps.Clone(meta) // the map is shared
	delete(meta, key)
	text, isText := strictjson.String(raw)
	if !isText || text == "" || (current != "" && current != text) {
		return "", meta, toolyard.Errorf(toolyard.Invalid, "_meta.%s must be a string and have the same value wherever it is set.", key)
	}
	return text, meta, nil
}

// call runs the call path with the resolved tool.
func (r *request) call(ctx context.Context) (*toolyard.Call, *toolyard.Result, error) {
	o, gate := &r.gate.server.opts, r.view.Gate
	now := o.Now()
	c := &toolyard.Call{
		ID: ident.NewCallID(now), Tool: r.tool, Args: r.Args, Caller: r.Caller, Gate: gate.Name, Mode: gate.Mode, Surface: gate.Surface, AsOf: now, Start: now,
		Session: r.Session, IdempotencyKey: r.IdempotencyKey, Request: r.Request,
		Environment: toolyard.Environment{Generation: r.view.Generation, Clients: o.Clients, Toolbox: o.Toolbox, Log: cmp.Or(r.Log, o.Log)},
	}
	var badSession, badKey, badAsOf error
	c.Session, c.Meta, badSession = takeString(metaSession, c.Session, c.Meta)
	c.IdempotencyKey, c.Meta, badKey = takeString(metaKey, c.IdempotencyKey, c.Meta)
	c.AsOf, c.Meta, badAsOf = r.asOf(now, c.Meta)
	if err := cmp.Or(badSession, badKey, badAsOf); err != nil {
		return c, nil, err
	}
	c.AsOfSet = !c.AsOf.Equal(now)
	if p := r.Parent; p != nil {
		c.AsOf, c.AsOfSet, c.Depth, c.Parent, c.Session = p.AsOf, p.AsOfSet, p.Depth+1, p.ID, p.Session
	}
	if gate.Lender != nil {
		clients, release, err := gate.Lender.Lend()
		if err != nil {
			return c, nil, err
		}
		defer release()
		c.Clients = clients
	}
	res, err := o.Call(ctx, c)
	return c, res, err
}

// asOf removes the as-of time from the metadata and returns it if the gate allows callers to set
// it. The default is now.
func (r *request) asOf(now time.Time, meta map[string]json.RawMessage) (time.Time, map[string]json.RawMessage, error) {
	text, meta, err := takeString(metaAsOf, r.AsOf, meta)
	if err != nil || text == "" {
		return now, meta, err
	}
	if !r.view.Gate.CallerClock {
		return now, meta, toolyard.Errorf(toolyard.Invalid, "Gate %s does not let callers set the as-of time. Omit it, or use a gate with clock: caller.", r.view.Gate.Name)
	}
	at, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return now, meta, toolyard.Errorf(toolyard.Invalid, "The as-of time %.64q is not an RFC 3339 time such as 2026-01-31T09:30:00Z.", text)
	case at.After(now):
		return now, meta, toolyard.Errorf(toolyard.Invalid, "The as-of time %s is in the future.", text)
	}
	return at.UTC(), meta, nil
}

// sealState returns the sealed state of an unfinished result. The client sends it back.
func (r *request) sealState(input *inputRequired) string {
	s := r.gate.server
	return s.states.seal(input.state, binding(r), s.opts.Now())
}

// askClient asks a legacy client for the answers that the next round needs.
func (r *request) askClient(ctx context.Context, round int, input *inputRequired) (err error) {
	if round == maxRounds {
		return toolyard.Errorf(toolyard.Failed, "%s was stopped after requesting input %d times.", r.tool.Name, maxRounds)
	}
	r.RequestState = input.state
	r.InputResponses, err = r.ask(ctx, input)
	return err
}

// resolve looks up the request's target in the view and builds the arguments.
func (r *request) resolve() *toolyard.Error {
	switch r.method {
	case "tools/call":
		return r.resolveTool()
	case "resources/read":
		if r.view.Gate.Show > 0 && offer.IsResultURI(r.name) {
			return r.resolveResult()
		}
		resource, ok := r.view.ReadResource(r.name)
		if !ok {
			return toolyard.Errorf(toolyard.NotFound, "Unknown resource %.256q.", r.name)
		}
		r.tool, r.Args = resource.Reader, readArgs(r.name)
	case "prompts/get":
		return r.resolvePrompt()
	case "completion/complete":
		return r.resolveCompletion()
	}
	return nil
}

func (r *request) unknownTool() *toolyard.Error {
	names := make([]string, 0, len(r.view.Tools))
	for _, t := range r.view.Tools {
		names = append(names, t.Name)
	}
	return toolyard.Errorf(toolyard.UnknownTool, "Unknown tool %.128q%s.", r.name, spelling.DidYouMean(r.name, names))
}

func readArgs(uri string) json.RawMessage {
	return append(jsonobject.AppendString([]byte(`{"uri":`), uri), '}')
}

func (r *request) resolvePrompt() *toolyard.Error {
	prompt, ok := r.view.GetPrompt(r.name)
	if !ok {
		return toolyard.Errorf(toolyard.NotFound, "Unknown prompt %.128q.", r.name)
	}
	given := r.Args
	if len(given) == 0 || string(given) == "null" {
		given = json.RawMessage("{}")
	}
	if given[0] != '{' {
		return toolyard.Errorf(toolyard.Invalid, "The arguments for prompt %s must be an object.", r.name)
	}
	for key, value := range strictjson.Members(given) {
		if value[0] != '"' {
			return toolyard.Errorf(toolyard.Invalid, "Argument %s for prompt %s must be a string.", key, r.name)
		}
	}
	r.tool = prompt.Getter
	r.Args = jsonobject.AppendString([]byte(`{"name":`), prompt.Name)
	r.Args = append(append(append(r.Args, `,"arguments":`...), given...), '}')
	return nil
}

// resolveCompletion looks up the completer for an argument of a prompt or resource template. If
// there is none, the result is empty.
func (r *request) resolveCompletion() *toolyard.Error {
	ref := strictjson.Member(r.params, "ref")
	name, _ := strictjson.String(strictjson.Member(ref, "name"))
	uri, _ := strictjson.String(strictjson.Member(ref, "uri"))
	r.Args = withoutMeta(r.params)
	switch kind, _ := strictjson.String(strictjson.Member(ref, "type")); kind {
	case "ref/prompt":
		prompt, ok := r.view.GetPrompt(name)
		if !ok {
			return toolyard.Errorf(toolyard.NotFound, "Unknown prompt %.128q.", name)
		}
		r.tool = prompt.Completer
		shown := strictjson.Member(strictjson.Member(r.Args, "ref"), "name")
		r.Args = apply(r.Args, []edit{replacement(r.Args, shown, string(jsonobject.AppendString(nil, prompt.Name)))})
	case "ref/resource":
		i := slices.IndexFunc(r.view.Resources, func(r *toolyard.Resource) bool { return r.URI == uri })
		if i < 0 {
			return toolyard.Errorf(toolyard.NotFound, "Unknown resource %.256q.", uri)
		}
		r.tool = r.view.Resources[i].Completer
	default:
		return toolyard.Errorf(toolyard.Invalid, "A completion request must refer to a prompt or a resource (ref).")
	}
	return nil
}

// withoutMeta removes _meta from an object, because it is only meant for this server.
func withoutMeta(params json.RawMessage) json.RawMessage {
	b := []byte{'{'}
	for key, value := range strictjson.Members(params) {
		if key != "_meta" {
			b = append(append(append(jsonobject.AppendString(b, key), ':'), value...), ',')
		}
	}
	return append(bytes.TrimSuffix(b, []byte(",")), '}')
}

// wireNames are the MCP names of the members that continue a call.
var wireNames = map[string]string{"answers": "inputResponses", "state": "requestState"}

// resume checks the answers and decrypts the state of a continued call. It returns an issue if they
// are invalid. Answers that come with no state are passed on like arguments.
func (r *request) resume(ctx context.Context) (*toolyard.Issue, error) {
	if r.era == legacyEra {
		r.InputResponses, r.RequestState = nil, ""
		return nil, nil
	}
	if r.InputResponses != nil && (r.InputResponses[0] != '{' || len(r.InputResponses) > maxAnswers) {
		return &toolyard.Issue{Path: "answers", Message: fmt.Sprintf("must be an object of at most %d KiB", maxAnswers>>10)}, nil
	}
	if r.RequestState == "" {
		return nil, nil
	}
	key, _, _ := takeString(metaKey, r.IdempotencyKey, r.Meta) // errors are reported by call
	var ok bool
	var err error
	if r.RequestState, r.nonce, ok = r.gate.server.states.open(r.RequestState, binding(r), key, r.gate.server.opts.Now()); ok {
		ok, err = r.consumeState(ctx, key)
	}
	if !ok && err == nil {
		return &toolyard.Issue{Path: "state", Message: "is not valid for this call, has expired or has already been used: repeat the call without it"}, nil
	}
	return nil, err
}

// encode encodes the outcome. Only tool calls report failures as results.
func (r *request) encode(c *toolyard.Call, res *toolyard.Result, err error) ([]byte, *jsonrpc.Error) {
	if r.method == "tools/call" {
		return r.encodeCall(c, res, err)
	}
	var document json.RawMessage
	if err == nil {
		document, err = r.document(res)
	}
	if err != nil {
		return nil, r.refusal(toolyard.AsError(err))
	}
	return r.envelope(c).append(nil, document), nil
}

func (r *request) encodeCall(c *toolyard.Call, res *toolyard.Result, err error) ([]byte, *jsonrpc.Error) {
	if err != nil {
		te := toolyard.AsError(err)
		if r.view.Gate.Errors == gates.ErrorsAsProtocol || te.Code == toolyard.UnknownTool || te.Code == toolyard.MissingCapability {
			rpcErr := r.refusal(te)
			rpcErr.Message += r.signature(te)
			return nil, rpcErr
		}
		res = te.Result()
		if s := r.signature(te); s != "" {
			res.Content[0] = res.Content[0].(toolyard.Text) + toolyard.Text(s)
		}
	}
	if raw := res.Raw(); raw != nil {
		return r.envelope(c).append(nil, raw), nil
	}
	return r.gate.appendResult(nil, r.era, c, res), nil
}

// document returns the result of a read, a prompt or a completion.
func (r *request) document(res *toolyard.Result) (json.RawMessage, error) {
	raw := res.Raw()
	if raw == nil && res.IsError {
		return nil, toolyard.Errorf(toolyard.Failed, "%s", textOf(res.Content))
	}
	if raw == nil {
		raw = res.Structured
	}
	want := map[string]string{"resources/read": "contents", "prompts/get": "messages", "completion/complete": "completion"}[r.method]
	if strictjson.Member(raw, want) == nil {
		return nil, toolyard.Errorf(toolyard.InvalidOutput, "The result of %s has no %s member.", r.tool.Name, want)
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

// refusal converts an error to a JSON-RPC error. MCP specifies the codes for unknown resources and
// prompts and for invalid arguments, regardless of the gate's error style.
func (r *request) refusal(e *toolyard.Error) *jsonrpc.Error {
	if r.method == "tools/call" || e.Code != toolyard.NotFound && e.Code != toolyard.Invalid {
		return protocolError(r.view.Gate.Errors, e)
	}
	rpcErr := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: e.Error(), Data: e.Data()}
	if r.method == "resources/read" && e.Code == toolyard.NotFound {
		rpcErr.Data = readArgs(r.name)
		if r.era == legacyEra {
			rpcErr.Code = errResourceNotFound
		}
	}
	return rpcErr
}

// envelope returns the envelope for a result. c is nil if nothing ran.
func (r *request) envelope(c *toolyard.Call) *envelope {
	e := &envelope{era: r.era, server: r.gate.server.serverInfo, cached: r.method == "resources/read"}
	if c != nil {
		e.call, e.receiptOf, e.typed = c.ID, c, len(c.Tool.Output) > 0
	}
	return e
}
