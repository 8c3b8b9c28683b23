package script

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/jsvm"
)

// testHost handles a test's host requests: it performs the steps of a call around a tool's
// function, and lets the test read the folder's files.
type testHost struct {
	folder *Folder
	loads  chan struct{}
}

// testCall is one step of call() in a test.
type testCall struct {
	Tool    definition
	Args    json.RawMessage
	Outcome json.RawMessage
}

func (h *testHost) answer(ctx context.Context, op string, payload json.RawMessage) (any, error) {
	switch op {
	case "validate", "result":
		var c testCall
		if err := json.Unmarshal(payload, &c); err != nil {
			return nil, fmt.Errorf("%s: invalid request: %w", op, err)
		}
		t, err := c.tool()
		if err != nil {
			return nil, err
		}
		if op == "validate" {
			return c.validate(ctx, t)
		}
		return c.result(ctx, t)
	case "read", "stat", "list", "cwd":
		reach := h.folder.reach("", nil)
		reach.granted.Read = append(reach.granted.Read, h.folder.dir)
		files := &hostAPI{reach: reach, loads: h.loads}
		return files.answer(ctx, op, payload)
	case "env":
		return nil, nil
	case "fetch":
		return nil, &jsvm.Refusal{Name: "NotCapable", Code: "EACCES", Message: `tests have no network access: replace fetch with stubGlobal("fetch", async () => new Response("…"))`}
	}
	return nil, &jsvm.Refusal{Name: "NotCapable", Code: "EACCES", Message: op + " is not available in tests"}
}

// tool creates the tool that a test calls. Its handler returns the return value of the function in
// the test.
func (c *testCall) tool() (*toolyard.Tool, error) {
	effects, err := effectsOf(c.Tool.Modes)
	if err != nil {
		return nil, err
	}
	return toolyard.NewTool(toolyard.Spec{
		Name: cmp.Or(c.Tool.Name, "tool"), Description: c.Tool.Description, Effects: effects, Input: c.Tool.Input, Output: c.Tool.Output,
	}, c.run)
}

// validate returns the arguments with defaults, or the result that a caller receives for invalid arguments.
func (c *testCall) validate(ctx context.Context, t *toolyard.Tool) (any, error) {
	args, err := t.Validate(ctx, c.Args)
	if err != nil {
		return map[string]any{"result": toolyard.AsError(err).Result()}, nil
	}
	return map[string]any{"args": args}, nil
}

// result returns the result that a caller receives.
func (c *testCall) result(ctx context.Context, t *toolyard.Tool) (any, error) {
	res, err := t.Run(ctx, &toolyard.Call{Tool: t})
	if err != nil {
		res = toolyard.AsError(err).Result()
	}
	return res, nil
}

// run is the handler. It converts the value that the tool's function returned or threw.
func (c *testCall) run(ctx context.Context, call *toolyard.Call) (*toolyard.Result, error) {
	var outcome struct{ Thrown *jsvm.Exception }
	if err := json.Unmarshal(c.Outcome, &outcome); err != nil {
		return nil, err
	}
	s := &scriptTool{structured: len(c.Tool.Output) > 0}
	if outcome.Thrown != nil {
		return nil, s.failure(ctx, call, outcome.Thrown, false)
	}
	return s.result(call.Tool, c.Outcome)
}
