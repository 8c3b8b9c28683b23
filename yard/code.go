package yard

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/script"
)

// codeEngine runs code for the gates that offer it. It is created for the first such gate and
// closed with the yard.
type codeEngine struct {
	opts script.CodeOptions

	mu    sync.Mutex
	code  *script.Code
	tools map[toolyard.Mode]*toolyard.Tool
}

// offersCode reports whether any gate can run code.
func offersCode(list []*gates.Gate) bool {
	return slices.ContainsFunc(list, func(g *gates.Gate) bool { return g.Offer == gates.OfferCode })
}

// addTo adds the tool that runs code to the gates that offer it.
func (e *codeEngine) addTo(list []*gates.Gate) error {
	for _, g := range list {
		if g.Offer != gates.OfferCode {
			continue
		}
		tool, err := e.tool(g.Mode)
		if err != nil {
			return fmt.Errorf("gates.%s.offer: cannot run code: %w", g.Name, err)
		}
		g.Code = tool
	}
	return nil
}

// tool returns the tool for gates in the given mode. All assemblies share it.
func (e *codeEngine) tool(mode toolyard.Mode) (tool *toolyard.Tool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.code == nil {
		if e.code, err = script.NewCode(e.opts); err != nil {
			return nil, err
		}
		e.tools = make(map[toolyard.Mode]*toolyard.Tool)
	}
	if e.tools[mode] == nil {
		if e.tools[mode], err = e.code.Tool(mode); err != nil {
			return nil, err
		}
	}
	return e.tools[mode], nil
}

func (e *codeEngine) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.code != nil {
		e.code.Close()
	}
}

// callFromCode calls a tool at the gate where the code runs. If an agent runs the code, the call
// belongs to the agent's query.
func (b *toolbox) callFromCode(ctx context.Context, run *toolyard.Call, name string, args json.RawMessage, key string) (*toolyard.Call, *toolyard.Result, error) {
	if run.Depth+1 >= maxDepth {
		return nil, nil, tooDeep()
	}
	return agent.CallFromCode(ctx, name, args, func(name string, args json.RawMessage) (*toolyard.Call, *toolyard.Result, error) {
		return b.server.CallFromCode(ctx, &serve.CallRequest{
			Gate: run.Gate, Tool: name, Args: args, IdempotencyKey: key, Caller: run.Caller, Request: toolyard.Request{Trace: run.Trace}, Log: run.Log, Parent: run,
		})
	})
}
