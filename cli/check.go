package cli

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/sources/lint"
	"github.com/toolyard/toolyard/yard"
)

// checkCommand reports all problems with the configuration, the tools and the servers.
type checkCommand struct {
	*app
	lint bool
}

func newCheckCommand(a *app) *cobra.Command {
	c := &checkCommand{app: a}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration, tools and servers; exit with status 1 if there are problems",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.opts.Command.CheckSecrets = true
			return a.withServers(cmd.Context(), c.run)
		},
	}
	cmd.Flags().BoolVar(&c.lint, "lint", false, "also suggest improvements to the names, descriptions and parameters of your own tools")
	return cmd
}

func (c *checkCommand) run(_ context.Context, y *yard.Yard) error {
	problems := y.Problems()
	if c.lint {
		problems = append(problems, lint.Tools(y.Tools(), func(t *toolyard.Tool) bool { return gates.PackOf(t) == "" })...)
	}
	c.printProblems(problems)
	if slices.ContainsFunc(problems, func(p toolyard.Problem) bool { return !p.Warning }) {
		return exitStatus{exitError, nil}
	}
	c.summarize(y)
	return nil
}

func (c *checkCommand) summarize(y *yard.Yard) {
	file, lock := c.opts.ConfigFile, yard.LockFile(filepath.Base(c.opts.ConfigFile))
	switch {
	case file == "" && c.opts.Store != "":
		file, lock = "configuration in the store", "the store"
	case file == "":
		file = "no configuration file"
	}
	fmt.Fprintf(c.out, "%s: ok\n", file)
	servers := y.Servers()
	for _, id := range slices.Sorted(maps.Keys(servers)) {
		fmt.Fprintf(c.out, "server %s: up, %s, as approved in %s\n", id, plural(len(servers[id].Tools()), "tool"), lock)
	}
	for _, name := range y.Gates() {
		if v, ok := y.View(name); ok {
			fmt.Fprintf(c.out, "gate %s: %s, %s%s\n", name, v.Mode, plural(len(v.Tools), "tool"), describeOffer(v))
			for _, r := range v.Rules {
				fmt.Fprintf(c.out, "  rule %s: %s\n", r.Name, describeRule(r))
			}
		}
	}
}

// Token counts above which check reports the size of a tool list and recommends offer: search.
const (
	largeList = 5_000
	hugeList  = 20_000
)

// describeOffer describes the size of a gate's tool list if the gate offers search or the list is
// large.
func describeOffer(v *yard.View) string {
	tokens := v.ListTokens()
	switch {
	case v.Offer() != "tools":
		return fmt.Sprintf(", found by %s; the tool list uses %d tokens", v.Offer(), tokens)
	case tokens >= hugeList:
		return fmt.Sprintf("; the tool list uses %d tokens in every prompt: consider offer: search", tokens)
	case tokens >= largeList:
		return fmt.Sprintf("; the tool list uses %d tokens in every prompt", tokens)
	}
	return ""
}

// maxRuleTools is the maximum number of tools to list for a rule.
const maxRuleTools = 20

// describeRule describes a rule and the gate's tools that it applies to.
func describeRule(r yard.AppliedRule) string {
	calls := "calls"
	if r.Some {
		calls = "some calls"
	}
	names := r.Tools
	more := ""
	if extra := len(names) - maxRuleTools; extra > 0 {
		names, more = names[:maxRuleTools], fmt.Sprintf(" and %d more", extra)
	}
	action := map[string]string{"deny": "denies " + calls, "ask": "asks the " + r.By + " to approve " + calls, "allow": "exempts " + calls + " from other rules"}[r.Then]
	return action + " of " + strings.Join(names, ", ") + more
}
