package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/upstream"
	"github.com/toolyard/toolyard/yard"
)

func (p *program) approveCommand() *cobra.Command {
	var yes, list bool
	c := &cobra.Command{
		Use:   "approve [SERVER [TOOL]...]",
		Short: "Show what servers have changed since it was approved, and approve it",
		Long: `Show the tools of MCP servers that are new or not as they were approved, and ask
whether they are good. What is approved is kept in toolyard.lock beside the configuration;
a server that runs takes it over at once.`,
		RunE: func(c *cobra.Command, args []string) error {
			return p.withServers(c.Context(), func(_ context.Context, y *yard.Yard) error {
				return p.approve(y, args, yes, list)
			})
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&list, "list", false, "only show what is pending, and fail if anything is")
	return c
}

// withServers runs fn on a yard whose servers were all tried.
func (p *program) withServers(ctx context.Context, fn func(context.Context, *yard.Yard) error) error {
	return p.with(ctx, func(ctx context.Context, y *yard.Yard) error {
		p.settle(ctx, y)
		return fn(ctx, y)
	})
}

// settle waits until all servers were tried, and what they offer is shown.
func (p *program) settle(ctx context.Context, y *yard.Yard) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	slow := time.AfterFunc(2*time.Second, func() { fmt.Fprintf(p.err, "waiting for servers to start, %v at most …\n", serverTimeout) })
	defer slow.Stop()
	y.Settle(ctx)
}

// approve goes through the servers that were named, or all.
func (p *program) approve(y *yard.Yard, args []string, yes, list bool) error {
	servers := y.Servers()
	ids := slices.Sorted(maps.Keys(servers))
	var only []string
	if len(args) > 0 {
		if servers[args[0]] == nil {
			return exitStatus{exitUsage, fmt.Errorf("there is no server %s%s", args[0], didYouMean(args[0], ids))}
		}
		ids, only = args[:1], args[1:]
	}
	found, in := 0, bufio.NewReader(p.in)
	for _, id := range ids {
		pending, err := servers[id].Pending()
		if err != nil {
			return fail(err)
		}
		if pending, err = pick(pending, only); err != nil {
			return exitStatus{exitUsage, err}
		}
		if len(pending) == 0 {
			continue
		}
		found += len(pending)
		p.showPending(id, pending)
		if list || (!yes && !p.confirm(in, id)) {
			continue
		}
		if err := servers[id].Approve(pending); err != nil {
			return fail(err)
		}
		fmt.Fprintf(p.out, "approved %d of %s\n", len(pending), id)
	}
	switch {
	case found == 0:
		fmt.Fprintln(p.out, "Everything is as it was approved.")
	case list:
		return exitStatus{exitError, nil}
	}
	return nil
}

// pick takes the pending tools that were named, or all.
func pick(pending []upstream.Pending, names []string) (list []upstream.Pending, err error) {
	for _, name := range names {
		i := slices.IndexFunc(pending, func(p upstream.Pending) bool { return p.Tool == name })
		if i < 0 {
			return nil, fmt.Errorf("%s is not pending", name)
		}
		list = append(list, pending[i])
	}
	if len(names) == 0 {
		return pending, nil
	}
	return list, nil
}

// showPending shows what is new, changed or gone. Nothing that a server wrote reaches the
// terminal unescaped.
func (p *program) showPending(id string, pending []upstream.Pending) {
	fmt.Fprintf(p.out, "%s: %d not as approved\n", id, len(pending))
	for _, t := range pending {
		kind := "changed"
		switch {
		case t.Approved == nil:
			kind = "new"
		case t.Offered == nil:
			kind = "gone"
		}
		fmt.Fprintf(p.out, "\n  %s (%s)\n", printable(t.Tool), kind)
		if kind == "gone" {
			continue
		}
		for _, c := range t.Changes() {
			p.showSide("-", c.Path, c.Old)
			p.showSide("+", c.Path, c.New)
		}
	}
	fmt.Fprintln(p.out)
}

func (p *program) showSide(mark, path string, value json.RawMessage) {
	if value == nil {
		return
	}
	if path != "" {
		path = printable(path) + ": "
	}
	fmt.Fprintf(p.out, "    %s %s%s\n", mark, path, printable(string(value)))
}

// printable shows a text with everything replaced that a terminal would not show as it is.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) || r == '\n' || r == '\t' {
			return r
		}
		return '\ufffd'
	}, s)
}

// confirm asks whether what was shown is good.
func (p *program) confirm(in *bufio.Reader, id string) bool {
	fmt.Fprintf(p.err, "Approve these of %s? [y/N] ", id)
	answer, _ := in.ReadString('\n')
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
}

func didYouMean(name string, names []string) string {
	if near := toolyard.Nearest(name, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

func (p *program) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why [GATE] TOOL",
		Short: "Tell why a gate shows a tool, or does not",
		Args:  cobra.RangeArgs(1, 2),
		Example: `  toolyard why chat mcp_github__create_issue
  toolyard why chat github/create_issue`,
		RunE: func(c *cobra.Command, args []string) error {
			gate, tool := p.gate, args[len(args)-1]
			if len(args) == 2 {
				gate = args[0]
			}
			return p.withServers(c.Context(), func(_ context.Context, y *yard.Yard) error {
				steps, err := y.Why(gate, tool)
				if err != nil {
					return fail(err)
				}
				p.showSteps(steps)
				return nil
			})
		},
	}
}

// showSteps prints decisions, one a line, and what follows from them.
func (p *program) showSteps(steps []toolyard.Step) {
	verdict := "It is shown."
	for _, s := range steps {
		mark := "✓"
		if s.Stops {
			mark, verdict = "✗", "It is not shown."
		}
		fmt.Fprintf(p.out, "%s %-11s %s\n", mark, s.Rule, printable(s.Text))
	}
	fmt.Fprintln(p.out, verdict)
}
