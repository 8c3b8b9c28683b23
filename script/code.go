package script

import (
	"cmp"
	"context"
	_ "embed" // embeds the module
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/jsvm"
	"github.com/toolyard/toolyard/internal/trust/taint"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// CodeTool is the name of the tool that runs code.
const CodeTool = "run_code"

// Limits for a code run.
const (
	maxCodeCalls  = 100
	maxCodeAtOnce = 16       // concurrent calls; more calls wait
	maxCodeValue  = 24 << 10 // size of the value as JSON, in bytes
	maxCodeLogs   = 8 << 10  // in bytes
	maxCodeError  = 4 << 10  // length of an exception's message, in bytes
	maxCodeTime   = 2 * time.Minute
)

// CodeOptions configure how code runs.
type CodeOptions struct {
	// Call calls a tool by its name at the run's gate, on the call path. Calls that may write use
	// the idempotency key. Call also returns the call, which may be nil.
	Call func(ctx context.Context, run *toolyard.Call, name string, args json.RawMessage, key string) (*toolyard.Call, *toolyard.Result, error)
	// Durable means that results are stored by idempotency key, so that a run can be continued.
	Durable bool

	Memory   int           // memory limit of a run, in bytes; 64 MiB if zero
	CPU      time.Duration // CPU limit of a run; 5 s if zero
	Workers  int           // maximum number of processes; one per processor if zero
	CacheDir string        // cache for the compiled engine; no cache if empty
	Log      *slog.Logger  // may be nil
}

// Code runs code written by models: the body of an async TypeScript function that calls its gate's
// tools. The code has no other access: no network, files, environment or imports. Every tool call
// takes the call path with the run's caller, gate, session and as-of time.
type Code struct {
	opts     CodeOptions
	pool     *jsvm.Pool
	compiler *jsvm.Compiler
	module   *jsvm.Module
}

//go:embed code.js
var codeModule string

// codeHarness passes requests to the module.
const codeHarness = `__runtime.install((m, request, host) => request && m.default(request, host));`

// NewCode returns a Code. It starts processes on demand. It fails if this binary lacks the script
// engine.
func NewCode(opts CodeOptions) (*Code, error) {
	pool, err := jsvm.NewPool(jsvm.Options{
		Harness: codeHarness, Memory: opts.Memory, CPU: opts.CPU, Workers: opts.Workers, CacheDir: opts.CacheDir, Log: opts.Log,
	})
	if err != nil {
		return nil, err
	}
	return &Code{opts: opts, pool: pool, compiler: jsvm.NewCompiler(), module: jsvm.NewModule("code.js", codeModule, nil)}, nil
}

// Close stops the runs in progress and ends the processes.
func (c *Code) Close() {
	c.compiler.Close()
	c.pool.Close()
}

const codeDescription = "Runs the body of an async TypeScript function that can call the gate's tools, and returns the function's value."

const codeInput = `{"type":"object","properties":{` +
	`"code":{"type":"string","description":"The body of the function.","minLength":1,"maxLength":65536},` +
	`"run":{"type":"string","description":"Continues an earlier run with the same code, after its calls were approved. Calls that have already run are not repeated.","maxLength":100}},` +
	`"required":["code"],"additionalProperties":false}`

// Tool returns the tool that runs code at gates in the given mode, which determines its effects.
func (c *Code) Tool(mode toolyard.Mode) (*toolyard.Tool, error) {
	spec := toolyard.Spec{
		Name: CodeTool, Title: "Run code", Description: codeDescription, Origin: "toolyard", Input: json.RawMessage(codeInput),
		Terms: toolyard.Terms{Timeout: maxCodeTime},
	}
	if mode == toolyard.Read {
		spec.Effects = toolyard.ReadOnly
	}
	return toolyard.NewTool(spec, c.run)
}

// codeArgs are the tool's arguments.
type codeArgs struct {
	Code string `json:"code"`
	Run  string `json:"run"`
}

// codeRequest is the module's input for a run.
type codeRequest struct {
	Code     string `json:"code"`
	Ordered  bool   `json:"ordered"` // whether to deliver answers in the order of the requests
	MaxCalls int    `json:"maxCalls"`
}

// inCode marks the context of a run: code cannot start another run, at any depth.
type inCode struct{}

// run is the tool's handler.
func (c *Code) run(ctx context.Context, call *toolyard.Call) (*toolyard.Result, error) {
	var args codeArgs
	if err := json.Unmarshal(call.Args, &args); err != nil {
		return nil, err
	}
	if ctx.Value(inCode{}) != nil {
		return nil, toolyard.Errorf(toolyard.PermissionDenied, "Code cannot run other code. Call the tools directly.")
	}
	id, err := c.identify(call, &args)
	if err != nil {
		return nil, err
	}
	snippet, faults, err := c.compiler.Snippet(ctx, "code", "tools", args.Code)
	if err != nil {
		return nil, &toolyard.Error{Code: toolyard.Unavailable, Message: "The code could not be compiled. Try again.", RetryAfter: time.Second, Err: err}
	}
	if len(faults) > 0 {
		return nil, faultError(faults)
	}
	if taint.From(ctx) == nil {
		ctx = taint.With(ctx, &taint.Tracker{})
	}
	r := newCodeRun(c.opts.Call, call, id)
	writes := !call.Tool.IsReadOnly()
	request, err := json.Marshal(codeRequest{snippet.Code, writes, maxCodeCalls})
	if err != nil {
		return nil, err
	}
	answer, err := c.pool.Run(context.WithValue(ctx, inCode{}, true), &jsvm.Run{
		Module: c.module, Request: request, Now: id.now(call), Seed: id.seed(), Timeout: codeTime(ctx), Nested: call.Depth > 0, Host: r.answer, Log: r.log,
	})
	r.end(ctx)
	if err != nil {
		return r.failure(ctx, snippet, args.Code, err)
	}
	return r.result(answer), nil
}

// codeTime returns how long the code may run. It ends before the call does, so that the result can
// list the calls that were made.
func codeTime(ctx context.Context) time.Duration {
	at, ok := ctx.Deadline()
	if !ok {
		return maxCodeTime
	}
	left := time.Until(at)
	return min(maxCodeTime, max(left-min(left/10, 500*time.Millisecond), time.Millisecond))
}

// faultError reports code that cannot be compiled.
func faultError(faults []jsvm.Fault) error {
	f := faults[0]
	message := "The code has an error: " + f.Message
	if f.Line > 0 {
		message += fmt.Sprintf(" (line %d, column %d)\n%s", f.Line, f.Column, f.Frame())
	}
	if f.Fix != "" {
		message += "\n" + f.Fix
	}
	return toolyard.Errorf(toolyard.Invalid, "%s", untrusted.Truncate(message, maxCodeError))
}

// failure reports an exception or a stopped run, including everything that the model needs to
// correct its code.
func (r *codeRun) failure(ctx context.Context, s *jsvm.Snippet, source string, err error) (*toolyard.Result, error) {
	text := ""
	e, threw := errors.AsType[*jsvm.Exception](err)
	stopped, ended := errors.AsType[*jsvm.Stopped](err)
	switch {
	case threw:
		text = thrownText(e, s, source)
	case ended && stopped.Reason == jsvm.Canceled && ctx.Err() != nil:
		return nil, ctx.Err()
	case ended:
		text = "The code was stopped: " + string(stopped.Reason) + "."
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case r.made() == 0:
		return nil, &toolyard.Error{Code: toolyard.Unavailable, Message: "The code could not be run. Try again.", RetryAfter: time.Second, Err: err}
	default:
		text = "The code was stopped: " + err.Error() + "."
	}
	return r.report(text, true), nil
}

// thrownText describes an exception by its message and its position in the code.
func thrownText(e *jsvm.Exception, s *jsvm.Snippet, source string) string {
	s.Locate(e)
	name := cmp.Or(e.Name, "Error")
	if e.Code != "" {
		name += " " + untrusted.Prefix(e.Code, 100)
	}
	text := untrusted.Truncate(name+": "+e.Message, maxCodeError)
	if e.Line == 0 {
		return text
	}
	place := jsvm.Fault{Line: e.Line, Column: e.Column, Text: textLine(source, e.Line)}
	return fmt.Sprintf("%s\nat line %d, column %d:\n%s", text, e.Line, e.Column, place.Frame())
}
