package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/yard"
)

// callCommand calls a tool.
type callCommand struct {
	*app
	args   string // a JSON object, or - for standard input
	asJSON bool
	asOf   string // RFC 3339; empty for the current time
}

func newCallCommand(a *app) *cobra.Command {
	c := &callCommand{app: a}
	cmd := &cobra.Command{
		Use:   "call TOOL [KEY=VALUE]...",
		Short: "Call a tool",
		Args:  cobra.MinimumNArgs(1),
		Example: `  toolyard call hello name=Ann
  toolyard call calculator --args '{"operation":"add","a":2,"b":3}'
  echo '{"name":"Ann"}' | toolyard call hello --args -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withYard(cmd.Context(), func(ctx context.Context, y *yard.Yard) error { return c.run(ctx, y, args[0], args[1:]) })
		},
	}
	cmd.Flags().StringVar(&c.args, "args", "", "arguments as a JSON object; - reads them from standard input")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print the full result as JSON")
	cmd.Flags().StringVar(&c.asOf, "as-of", "", "as-of time of the call, such as 2026-01-31T09:30:00Z; the gate must have clock: caller")
	return cmd
}

func (c *callCommand) run(ctx context.Context, y *yard.Yard, tool string, pairs []string) error {
	v, err := c.viewWith(ctx, y, tool)
	if err != nil {
		return err
	}
	args, err := c.parseArgs(v, tool, pairs)
	if err != nil {
		return usageError(err)
	}
	if _, ok := v.Lookup(tool); !ok && !v.IsMetaTool(tool) {
		return c.unknownTool(y, v, tool)
	}
	res, err := c.call(ctx, y, tool, args)
	return c.printResult(res, err)
}

// viewWith returns the gate's view. If the view lacks the tool, it waits for servers that are still
// starting.
func (c *callCommand) viewWith(ctx context.Context, y *yard.Yard, tool string) (*yard.View, error) {
	v, err := c.view(y)
	if err != nil {
		return nil, err
	}
	if _, ok := v.Lookup(tool); ok {
		return v, nil
	}
	c.awaitServers(ctx, y)
	return c.view(y)
}

// call calls a tool. On a terminal, the user can answer the tool's questions.
func (c *callCommand) call(ctx context.Context, y *yard.Yard, tool string, args json.RawMessage) (*toolyard.Result, error) {
	caller := toolyard.Caller{ID: "local", Account: "local"}
	if c.asOf != "" {
		at, err := time.Parse(time.RFC3339, c.asOf)
		if err != nil {
			return nil, toolyard.Errorf(toolyard.Invalid, "--as-of %q is not a valid time; use a time such as 2026-01-31T09:30:00Z.", c.asOf)
		}
		return y.CallAsOf(ctx, at, c.gate, caller, tool, args)
	}
	if isTerminal(c.in) && isTerminal(c.err) {
		return y.CallAsking(ctx, c.gate, caller, tool, args, newPrompter(tool, c.in, c.err).answer)
	}
	res, err := y.Call(ctx, c.gate, caller, tool, args)
	if requiresElicitation(err) {
		return nil, toolyard.Errorf(toolyard.MissingCapability, "%s requires your input. Run this command in a terminal.", tool)
	}
	return res, err
}

// requiresElicitation reports whether a call failed because its tool needs input from a user.
func requiresElicitation(err error) bool {
	if err == nil {
		return false
	}
	e := toolyard.AsError(err)
	return e.Code == toolyard.MissingCapability && slices.ContainsFunc(e.Missing, func(need string) bool { return strings.HasPrefix(need, "elicitation") })
}

// parseArgs returns the arguments for a tool at a gate.
func (c *callCommand) parseArgs(v *yard.View, tool string, pairs []string) (json.RawMessage, error) {
	var schema json.RawMessage
	if t, ok := v.Lookup(tool); ok {
		schema = t.CallerInput()
	}
	return c.parsePairs(schema, pairs)
}

// parsePairs merges the KEY=VALUE pairs into the JSON object of --args.
func (c *callCommand) parsePairs(schema json.RawMessage, pairs []string) (json.RawMessage, error) {
	raw := c.args
	if raw == "-" {
		data, err := io.ReadAll(c.in)
		if err != nil {
			return nil, err
		}
		raw = string(data)
	}
	args := make(map[string]json.RawMessage)
	if raw != "" {
		if err := strictjson.Check([]byte(raw)); err != nil {
			return nil, fmt.Errorf("--args must be a JSON object: %w", err)
		}
		if err := json.Unmarshal([]byte(raw), &args); err != nil || args == nil {
			return nil, errors.New("--args must be a JSON object")
		}
	}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("argument %q is not KEY=VALUE", pair)
		}
		args[key] = parseValue(schema, key, value)
	}
	return json.Marshal(args)
}

// parseValue converts a command-line value to JSON. The result is a string if the schema requires
// one or if the value is not JSON.
func parseValue(schema json.RawMessage, key, value string) json.RawMessage {
	text, _ := json.Marshal(value)
	var properties struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &properties) == nil && properties.Properties[key].Type == "string" {
		return text
	}
	if strictjson.Check([]byte(value)) == nil {
		return json.RawMessage(value)
	}
	return text
}

func (c *callCommand) printResult(res *toolyard.Result, err error) error {
	if err != nil {
		e := toolyard.AsError(err)
		fmt.Fprintf(c.err, "%s: %s\n", e.Code, untrusted.Printable(e.Message))
		for _, issue := range e.Issues {
			fmt.Fprintf(c.err, "  %s %s\n", untrusted.Printable(issue.Path), untrusted.Printable(issue.Message))
		}
		return exitStatus{exitTool, nil}
	}
	if c.asJSON {
		if err := writeJSON(c.out, res); err != nil {
			return fail(err)
		}
	} else {
		printContent(c.out, res)
	}
	if res.IsError {
		return exitStatus{exitTool, nil}
	}
	return nil
}

// unknownTool explains why a gate does not offer a tool. The operator at the command line may see
// that a hidden tool exists; the gate's callers may not.
func (c *callCommand) unknownTool(y *yard.Yard, v *yard.View, tool string) error {
	steps, err := y.Why(v.Gate, tool)
	if err != nil {
		c.printProblems(y.Problems()) // one of the problems may be the cause
		return usageError(fmt.Errorf("%w; run \"toolyard tools\" to list the tools", err))
	}
	reason := ""
	for _, step := range steps {
		if step.Stops {
			reason = step.Text
			break
		}
	}
	if reason == "" { // the server has connected since the lookup
		return fail(fmt.Errorf("%s was not available yet; run the command again", tool))
	}
	return usageError(fmt.Errorf("%s exists, but gate %s hides it: %s; see \"toolyard why %s %s\"", tool, v.Gate, reason, v.Gate, tool))
}

// printContent prints text unchanged and other content as JSON.
func printContent(out io.Writer, res *toolyard.Result) {
	for _, content := range res.Items() {
		line := string(content.AppendJSON(nil))
		if text, ok := content.(toolyard.Text); ok {
			line = string(text)
		}
		if !isTerminal(out) {
			fmt.Fprintln(out, line)
			continue
		}
		for part := range strings.Lines(line) { // untrusted text must not control the terminal
			fmt.Fprintln(out, untrusted.Printable(strings.TrimRight(part, "\r\n")))
		}
	}
}
