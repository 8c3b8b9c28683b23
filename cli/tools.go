package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/yard"
)

// startTimeout is how long a command waits for sources before it uses what is there.
const startTimeout = 10 * time.Second

// serverTimeout is how long a command that is about servers waits for them.
const serverTimeout = 20 * time.Second

// with runs fn on a yard whose sources have spoken.
func (p *program) with(ctx context.Context, fn func(context.Context, *yard.Yard) error) error {
	y, err := yard.New(p.opts)
	if err != nil {
		return fail(err)
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.Run(running)
	}()
	select {
	case <-y.Ready():
	case <-time.After(startTimeout):
	case <-ctx.Done():
	}
	if err = fail(y.Check()); err == nil {
		err = fn(ctx, y)
	}
	stop()
	<-done
	return err
}

func (p *program) view(y *yard.Yard) (*toolyard.View, error) {
	v, ok := y.View(p.gate)
	switch {
	case ok:
		return v, nil
	case p.gate != "":
		return nil, exitStatus{exitUsage, fmt.Errorf("unknown gate %s; the gates are: %s", p.gate, strings.Join(y.Gates(), ", "))}
	}
	return nil, exitStatus{exitUsage, fmt.Errorf("choose a gate with --gate: %s", strings.Join(y.Gates(), ", "))}
}

// viewWith is the view when it has a tool, or when it will not get it any more: a server
// may yet be starting.
func (p *program) viewWith(ctx context.Context, y *yard.Yard, tool string) (*toolyard.View, error) {
	v, err := p.view(y)
	if err != nil {
		return nil, err
	}
	if _, ok := v.Lookup(tool); ok {
		return v, nil
	}
	p.settle(ctx, y)
	return p.view(y)
}

func (p *program) toolsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "tools",
		Short: "List the tools of a gate",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.withServers(c.Context(), func(_ context.Context, y *yard.Yard) error {
				v, err := p.view(y)
				if err != nil {
					return err
				}
				if asJSON {
					return fail(listJSON(p.out, v))
				}
				defer p.hint(y, v)
				return fail(listTable(p.out, v))
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// hint says why a list may be shorter than expected.
func (p *program) hint(y *yard.Yard, v *toolyard.View) {
	if down := y.Down(); len(down) > 0 {
		fmt.Fprintf(p.err, "Servers down: %s. Run toolyard check to see why.\n", strings.Join(down, ", "))
	}
	writes := 0
	for _, t := range y.Tools() {
		if !t.AllowedIn(v.Gate.Mode) {
			writes++
		}
	}
	if writes > 0 {
		fmt.Fprintf(p.err, "%s; this gate is read-only. Mark readers of a server with effects: {TOOL: read}; see toolyard why %s TOOL.\n", writeTools(writes), v.Gate.Name)
	}
	if n := len(y.Problems()); n > 0 {
		fmt.Fprintf(p.err, "%s. Run toolyard check to see them.\n", plural(n, "problem"))
	}
}

func writeTools(n int) string {
	if n == 1 {
		return "1 tool is a write"
	}
	return fmt.Sprintf("%d tools are writes", n)
}

func listTable(out io.Writer, v *toolyard.View) error {
	if len(v.Tools) == 0 {
		fmt.Fprintln(out, "No tools.")
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tMODE\tCATEGORY\tDESCRIPTION")
	for _, t := range v.Tools {
		mode := toolyard.Write
		if t.IsReadOnly() {
			mode = toolyard.Read
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.Name, mode, untrusted.Printable(t.Category), strings.ReplaceAll(untrusted.Printable(shorten(t.Description, 70)), "\t", " "))
	}
	return w.Flush()
}

// shorten is the first line of a text, cut where it gets long.
func shorten(s string, n int) string {
	s, _, _ = strings.Cut(s, "\n")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func listJSON(out io.Writer, v *toolyard.View) error {
	type entry struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Category    string          `json:"category,omitempty"`
		ReadOnly    bool            `json:"readOnly"`
		Input       json.RawMessage `json:"inputSchema"`
		Output      json.RawMessage `json:"outputSchema,omitempty"`
	}
	list := make([]entry, 0, len(v.Tools))
	for _, t := range v.Tools {
		list = append(list, entry{t.Name, t.Description, t.Category, t.IsReadOnly(), t.CallerInput(), t.Output})
	}
	return writeJSON(out, list)
}

// writeJSON writes a value as JSON. On a terminal everything that could control it is escaped,
// which leaves the value the same.
func writeJSON(out io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	text := b.String()
	if isTerminal(out) {
		text = escapeJSON(text)
	}
	_, err := io.WriteString(out, text)
	return err
}

// escapeJSON writes all that cannot be seen in the strings of a JSON text as \u escapes.
func escapeJSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsPrint(r) || r == '\n':
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func (p *program) callCommand() *cobra.Command {
	var rawArgs string
	var asJSON bool
	c := &cobra.Command{
		Use:   "call TOOL [KEY=VALUE]...",
		Short: "Call a tool",
		Args:  cobra.MinimumNArgs(1),
		Example: `  toolyard call hello name=Ann
  toolyard call calculator --args '{"operation":"add","a":2,"b":3}'
  echo '{"name":"Ann"}' | toolyard call hello --args -`,
		RunE: func(c *cobra.Command, args []string) error {
			return p.with(c.Context(), func(ctx context.Context, y *yard.Yard) error {
				v, err := p.viewWith(ctx, y, args[0])
				if err != nil {
					return err
				}
				callArgs, err := p.callArgs(v, args[0], rawArgs, args[1:])
				if err != nil {
					return exitStatus{exitUsage, err}
				}
				if _, ok := v.Lookup(args[0]); !ok {
					return p.unknownTool(y, v, args[0])
				}
				res, err := p.callTool(ctx, y, args[0], callArgs)
				return p.show(res, err, asJSON)
			})
		},
	}
	c.Flags().StringVar(&rawArgs, "args", "", "arguments as a JSON object; - reads them from standard input")
	c.Flags().BoolVar(&asJSON, "json", false, "print the whole result as JSON")
	return c
}

// callTool calls a tool. What it asks is asked on the terminal, if there is one.
func (p *program) callTool(ctx context.Context, y *yard.Yard, tool string, args json.RawMessage) (*toolyard.Result, error) {
	who := toolyard.Caller{ID: "local", Account: "local"}
	if isTerminal(p.in) && isTerminal(p.err) {
		return y.CallAsking(ctx, p.gate, who, tool, args, newAsker(tool, p.in, p.err).ask)
	}
	res, err := y.Call(ctx, p.gate, who, tool, args)
	if asksPerson(err) {
		return nil, toolyard.Errorf(toolyard.MissingCapability, "%s asks a question before it goes on. Run this command in a terminal to answer it.", tool)
	}
	return res, err
}

// asksPerson reports whether a call failed because its tool wants to ask a person something.
func asksPerson(err error) bool {
	if err == nil {
		return false
	}
	e := toolyard.AsError(err)
	return e.Code == toolyard.MissingCapability && slices.ContainsFunc(e.Missing, func(need string) bool { return strings.HasPrefix(need, "elicitation") })
}

// callArgs makes the arguments of a call: the JSON object, and the pairs on top of it.
func (p *program) callArgs(v *toolyard.View, tool, raw string, pairs []string) (json.RawMessage, error) {
	if raw == "-" {
		data, err := io.ReadAll(p.in)
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
			return nil, fmt.Errorf("%q is not KEY=VALUE", pair)
		}
		args[key] = argument(v, tool, key, value)
	}
	return json.Marshal(args)
}

// argument is a word of the command line as JSON: text where the schema says so or the
// word is no JSON.
func argument(v *toolyard.View, tool, key, word string) json.RawMessage {
	text, _ := json.Marshal(word)
	if t, ok := v.Lookup(tool); ok {
		var schema struct {
			Properties map[string]struct {
				Type any `json:"type"`
			} `json:"properties"`
		}
		if json.Unmarshal(t.CallerInput(), &schema) == nil && schema.Properties[key].Type == "string" {
			return text
		}
	}
	if strictjson.Check([]byte(word)) == nil {
		return json.RawMessage(word)
	}
	return text
}

// show prints how a call ended.
func (p *program) show(res *toolyard.Result, err error, asJSON bool) error {
	if err != nil {
		e := toolyard.AsError(err)
		fmt.Fprintf(p.err, "%s: %s\n", e.Code, untrusted.Printable(e.Message))
		for _, issue := range e.Issues {
			fmt.Fprintf(p.err, "  %s %s\n", untrusted.Printable(issue.Path), untrusted.Printable(issue.Message))
		}
		return exitStatus{exitTool, nil}
	}
	if asJSON {
		if err := writeJSON(p.out, res); err != nil {
			return fail(err)
		}
	} else {
		printContent(p.out, res)
	}
	if res.IsError {
		return exitStatus{exitTool, nil}
	}
	return nil
}

// unknownTool says why a gate does not show a tool. Whoever has the configuration may know that
// it exists; callers of the gate are not told.
func (p *program) unknownTool(y *yard.Yard, v *toolyard.View, tool string) error {
	steps, err := y.Why(v.Gate.Name, tool)
	if err != nil {
		p.complainOf(y.Problems()) // one of them may be why
		return exitStatus{exitUsage, fmt.Errorf("%w; run toolyard tools to list the tools", err)}
	}
	why := ""
	for _, step := range steps {
		if step.Stops {
			why = step.Text
			break
		}
	}
	return exitStatus{exitUsage, fmt.Errorf("%s exists, but gate %s hides it: %s; see toolyard why %s %s", tool, v.Gate.Name, why, v.Gate.Name, tool)}
}

// printContent prints the text of a result, and says of the rest what it is.
func printContent(out io.Writer, res *toolyard.Result) {
	for _, c := range res.Items() {
		line := string(c.AppendJSON(nil))
		if text, ok := c.(toolyard.Text); ok {
			line = string(text)
		}
		if !isTerminal(out) {
			fmt.Fprintln(out, line)
			continue
		}
		for part := range strings.Lines(line) { // a stranger's text must not control the terminal
			fmt.Fprintln(out, untrusted.Printable(strings.TrimRight(part, "\r\n")))
		}
	}
}

func (p *program) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check the configuration, the tools and the servers; exit with 1 if there is a problem",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.withServers(c.Context(), func(_ context.Context, y *yard.Yard) error {
				problems := y.Problems()
				p.complainOf(problems)
				if slices.ContainsFunc(problems, func(p toolyard.Problem) bool { return !p.Warning }) {
					return exitStatus{exitError, nil}
				}
				p.summarise(y)
				return nil
			})
		},
	}
}

func (p *program) summarise(y *yard.Yard) {
	file, lock := p.opts.ConfigFile, yard.LockFile(filepath.Base(p.opts.ConfigFile))
	switch {
	case file == "" && p.opts.Store != "":
		file, lock = "the configuration in the store", "the store"
	case file == "":
		file = "no configuration file"
	}
	fmt.Fprintf(p.out, "%s: ok\n", file)
	servers := y.Servers()
	for _, id := range slices.Sorted(maps.Keys(servers)) {
		fmt.Fprintf(p.out, "server %s: up, %d tools, as approved in %s\n", id, len(servers[id].Tools()), lock)
	}
	for _, name := range y.Gates() {
		if v, ok := y.View(name); ok {
			fmt.Fprintf(p.out, "gate %s: %s, %d tools\n", name, v.Gate.Mode, len(v.Tools))
		}
	}
}
