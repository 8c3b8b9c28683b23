package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/yard"
)

// whyCommand explains why a gate offers or hides a tool.
type whyCommand struct{ *app }

func newWhyCommand(a *app) *cobra.Command {
	c := whyCommand{a}
	token := false
	cmd := &cobra.Command{
		Use:   "why [GATE] TOOL",
		Short: "Explain why a gate offers or hides a tool, or refuses an access token",
		Args: func(cmd *cobra.Command, args []string) error {
			if token {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.RangeArgs(1, 2)(cmd, args)
		},
		Example: `  toolyard why chat mcp_github__create_issue
  toolyard why chat github/create_issue
  toolyard why --token --gate chat < token.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if token {
				return c.explainToken(cmd.Context(), cmd.InOrStdin())
			}
			tool := args[len(args)-1]
			if len(args) == 2 {
				a.gate = args[0]
			}
			return a.withYard(cmd.Context(), func(ctx context.Context, y *yard.Yard) error { return c.run(ctx, y, tool) })
		},
	}
	cmd.Flags().BoolVar(&token, "token", false, "explain the access token read from standard input instead")
	return cmd
}

func (c whyCommand) run(ctx context.Context, y *yard.Yard, tool string) error {
	if _, err := c.view(y); err != nil {
		return err
	}
	server, _, qualified := strings.Cut(tool, "/")
	if _, known := y.Servers()[server]; qualified && known {
		c.awaitServers(ctx, y, server)
	} else {
		c.awaitServers(ctx, y)
	}
	steps, err := y.Why(c.gate, tool)
	if err != nil {
		return fail(err)
	}
	return c.printSteps(steps)
}

// printSteps prints one decision per line, up to the one that hides the tool, followed by the
// result.
func (c whyCommand) printSteps(steps []yard.Step) error {
	for _, s := range steps {
		mark := "✓"
		switch {
		case s.Stops:
			mark = "✗"
		case s.Fails:
			mark = "!"
		}
		fmt.Fprintf(c.out, "%s %-11s %s\n", mark, s.Rule, untrusted.Printable(s.Text))
		if s.Fix != "" {
			fmt.Fprintf(c.out, "  %-11s %s\n", "", untrusted.Printable(s.Fix))
		}
		if s.Stops {
			fmt.Fprintln(c.out, "The gate hides it.")
			return exitStatus{exitTool, nil}
		}
	}
	fmt.Fprintln(c.out, "The gate offers it.")
	return nil
}
