package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/yard"
)

// packCommand runs a pack's actions. Commands that the pack defines are its subcommands.
type packCommand struct {
	*app
	pack   string
	args   string // a JSON object, or - for standard input
	asJSON bool
}

// addPackCommands adds a command for each pack. A pack cannot replace one of Toolyard's own
// commands.
func addPackCommands(a *app, root *cobra.Command) {
	for _, name := range slices.Sorted(maps.Keys(a.opts.Packs)) {
		if !hasCommand(root, name) {
			root.AddCommand(newPackCommand(a, name))
		}
	}
}

func hasCommand(parent *cobra.Command, name string) bool {
	return slices.ContainsFunc(parent.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
}

func newPackCommand(a *app, name string) *cobra.Command {
	c := &packCommand{app: a, pack: name}
	cmd := &cobra.Command{
		Use:   name + " ACTION [KEY=VALUE]...",
		Short: "Run an action or command from pack " + name,
		Long: "Run an action from pack " + name +
			" as an operator. Without an action, list the actions.\nThe action uses this yard's store, so it " +
			"takes effect on all replicas, and it is audited.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	cmd.Flags().StringVar(&c.args, "args", "", "arguments as a JSON object; - reads them from standard input")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print the full result as JSON")
	for i := range a.opts.Packs[name].Commands {
		c.addCommand(cmd, &a.opts.Packs[name].Commands[i])
	}
	return cmd
}

// addCommand adds one of the pack's commands. Its name may have several words.
func (c *packCommand) addCommand(parent *cobra.Command, p *yard.PackCommand) {
	words := strings.Fields(p.Name)
	for len(words) > 1 {
		group := &cobra.Command{Use: words[0], Short: "Commands for " + words[0], Args: cobra.NoArgs, RunE: requireSubcommand}
		if i := slices.IndexFunc(parent.Commands(), func(sub *cobra.Command) bool { return sub.Name() == words[0] }); i >= 0 {
			group = parent.Commands()[i]
		} else {
			parent.AddCommand(group)
		}
		parent, words = group, words[1:]
	}
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	if p.Flags != nil {
		p.Flags(flags)
	}
	cmd := &cobra.Command{Use: strings.TrimSpace(words[0] + " " + p.Args), Short: p.Short, Long: p.Long, Args: cobra.ArbitraryArgs}
	cmd.Flags().AddGoFlagSet(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.withYard(cmd.Context(), func(ctx context.Context, y *yard.Yard) error {
			return fail(p.Run(ctx, yard.PackCommandSetup{
				Args: args, Flags: flags, Source: y.Pack(c.pack), Yard: y, Stdin: c.in, Stdout: c.out, Stderr: c.err,
			}))
		})
	}
	parent.AddCommand(cmd)
}

// run opens the yard but does not run it, and runs an action.
func (c *packCommand) run(ctx context.Context, args []string) (err error) {
	address, err := c.storeAddress()
	if err != nil {
		return fail(err)
	}
	y, err := yard.New(c.opts)
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, fail(y.Close())) }()
	actions, err := y.Actions(c.pack)
	if err != nil {
		return usageError(fmt.Errorf("pack %s is not enabled; add it under packs in the configuration", c.pack))
	}
	if len(args) == 0 {
		return c.list(actions)
	}
	action, err := c.find(actions, args[0])
	if err != nil {
		return usageError(err)
	}
	call := &callCommand{app: c.app, args: c.args, asJSON: c.asJSON}
	input, err := call.parsePairs(action.Input, args[1:])
	if err != nil {
		return usageError(err)
	}
	return c.runAction(ctx, y, address, call, action.Name, input)
}

// errFailed marks an action as failed in the audit log.
var errFailed = toolyard.Errorf(toolyard.Failed, "the action failed")

func (c *packCommand) runAction(ctx context.Context, y *yard.Yard, address string, call *callCommand, action string, input json.RawMessage) error {
	var res *toolyard.Result
	var failed error
	caller := toolyard.Caller{ID: systemUser(), Roles: []string{"operator"}}
	audited := change{"pack.action", c.pack + "/" + action, map[string]any{"args": input}}
	err := withStoreAt(ctx, address, func(s *openStore) error {
		return c.audit(ctx, s, audited, func() error {
			res, failed = y.RunAction(ctx, c.pack, action, caller, input)
			if failed == nil && res.IsError {
				return errFailed
			}
			return failed
		})
	})
	if res == nil && failed == nil { // the action did not run
		return fail(err)
	}
	return call.printResult(res, failed)
}

func (c *packCommand) find(actions []*toolyard.Tool, name string) (*toolyard.Tool, error) {
	var names []string
	for _, t := range actions {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	for _, p := range c.opts.Packs[c.pack].Commands {
		names = append(names, p.Name)
	}
	return nil, fmt.Errorf("pack %[2]s has no action %[1]q%[3]s", name, c.pack, spelling.DidYouMean(name, names))
}

func (c *packCommand) list(actions []*toolyard.Tool) error {
	if len(actions) == 0 {
		c.printf("Pack %s has no actions.", c.pack)
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, t := range actions {
		fmt.Fprintf(w, "%s\t%s\n", t.Name, untrusted.Printable(t.Description))
	}
	return fail(w.Flush())
}
