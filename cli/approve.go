package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/upstream"
	"github.com/toolyard/toolyard/yard"
)

// approveCommand reviews MCP servers' definitions that are not approved yet.
type approveCommand struct {
	*app
	yes, list bool
}

func newApproveCommand(a *app) *cobra.Command {
	c := &approveCommand{app: a}
	cmd := &cobra.Command{
		Use:   "approve [SERVER [TOOL]...]",
		Short: "Review and approve new and changed tools from MCP servers",
		Long: `Show MCP server tools that are new or have changed since they were approved, and ask
whether to approve them. Approvals are stored in toolyard.lock next to the configuration,
or in the store if it is PostgreSQL; running replicas apply them immediately.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			a.opts.Command.RequireApproval = true // so that a server's first definitions are reviewed too
			return a.withYard(cmd.Context(), func(ctx context.Context, y *yard.Yard) error {
				a.awaitServers(ctx, y, args[:min(1, len(args))]...)
				return c.run(y, args)
			})
		},
	}
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "approve without confirmation")
	cmd.Flags().BoolVar(&c.list, "list", false, "only show pending definitions; exit with status 1 if there are any")
	return cmd
}

// run reviews the given server, or all servers.
func (c *approveCommand) run(y *yard.Yard, args []string) error {
	servers := y.Servers()
	ids := slices.Sorted(maps.Keys(servers))
	var only []string
	if len(args) > 0 {
		switch {
		case len(ids) == 0:
			return usageError(errors.New("no servers are configured; add them under servers: or with \"toolyard import\""))
		case servers[args[0]] == nil:
			return usageError(fmt.Errorf("unknown server %s%s", args[0], spelling.DidYouMean(args[0], ids)))
		}
		ids, only = args[:1], args[1:]
	}
	remaining, in := 0, bufio.NewReader(c.in)
	anyPending := false
	for _, id := range ids {
		r := review{
			id: id, server: servers[id], only: only,
			confirm: func() bool { return !c.list && (c.yes || c.confirm(in, id)) },
		}
		if err := c.review(&r); err != nil {
			c.printError(err) // continue with the other servers
			r.remaining = 1
		}
		remaining += r.remaining
		anyPending = anyPending || r.anyPending
	}
	if remaining > 0 {
		return exitStatus{exitError, nil}
	}
	if !anyPending {
		fmt.Fprintln(c.out, "No definitions are pending.")
	}
	return nil
}

// review is the review of one server's definitions.
type review struct {
	id      string
	server  *upstream.Server
	only    []string // tools to review; all if empty
	confirm func() bool

	remaining  int  // number of reviewed definitions that are still pending
	anyPending bool // whether any definition was pending before
}

// review shows one server's pending definitions and approves them if the user confirms.
func (c *approveCommand) review(r *review) error {
	all, err := r.server.Pending()
	if err != nil {
		return err
	}
	pending, err := selectPending(all, r.only)
	if err != nil {
		return fmt.Errorf("server %s: %w", r.id, err)
	}
	if len(pending) == 0 {
		return nil
	}
	r.anyPending, r.remaining = true, len(pending)
	c.printPending(r.id, pending)
	valid := slices.DeleteFunc(slices.Clone(pending), func(t upstream.Pending) bool { return t.Refused != "" })
	if c.list {
		return nil
	}
	if len(valid) == 0 || !r.confirm() {
		valid = nil
	} else if err := c.approve(r.id, valid, func() error { return r.server.Approve(valid) }); err != nil {
		return err
	}
	r.remaining -= len(valid)
	c.printApproved(r.id, valid, all)
	return nil
}

// maxAudited is the maximum number of tools that the audit log lists for one approval.
const maxAudited = 200

// approve approves a server's definitions, and records the approval in the audit log if this yard
// has a store.
func (c *approveCommand) approve(server string, tools []upstream.Pending, approve func() error) error {
	source, err := c.loadConfig()
	if err != nil {
		return err
	}
	if !source.NeedsStore() || source.StoreAddress() == "memory" {
		return approve()
	}
	names := pendingNames(tools)
	ctx := context.Background()
	return withStoreAt(ctx, source.StoreAddress(), func(s *openStore) error {
		return c.audit(ctx, s, change{"server.approve", server, map[string]any{"tools": names[:min(len(names), maxAudited)]}}, approve)
	})
}

// printApproved prints how many definitions were approved and which are still pending.
func (c *approveCommand) printApproved(id string, approved, all []upstream.Pending) {
	var pending []string
	for _, t := range all {
		done := slices.ContainsFunc(approved, func(a upstream.Pending) bool { return a.Tool == t.Tool })
		if !done && !t.Rejected {
			pending = append(pending, t.Tool)
		}
	}
	count := fmt.Sprint(len(approved))
	if len(approved) == 0 {
		count = "nothing"
	}
	if len(pending) == 0 {
		c.printf("Approved %s for %s; nothing else is pending.", count, id)
		return
	}
	c.printf("Approved %s; %d still pending for %s: %s", count, len(pending), id, strings.Join(pending[:min(len(pending), maxListed)], ", ")+andMore(len(pending)-maxListed))
}

// maxListed is the maximum number of tools to list in one line.
const maxListed = 10

func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// selectPending returns the named definitions, or all that have not been rejected. A rejected
// definition can be approved only by name.
func selectPending(pending []upstream.Pending, names []string) (list []upstream.Pending, err error) {
	for _, name := range names {
		i := slices.IndexFunc(pending, func(p upstream.Pending) bool { return p.Tool == name })
		if i < 0 {
			return nil, fmt.Errorf("%s is not pending%s", name, spelling.DidYouMean(name, pendingNames(pending)))
		}
		list = append(list, pending[i])
	}
	if len(names) == 0 {
		return slices.DeleteFunc(pending, func(p upstream.Pending) bool { return p.Rejected }), nil
	}
	return list, nil
}

func pendingNames(pending []upstream.Pending) (names []string) {
	for _, p := range pending {
		names = append(names, p.Tool)
	}
	return names
}

// printPending prints new, changed and removed definitions. All text from the server is escaped.
func (c *approveCommand) printPending(id string, pending []upstream.Pending) {
	fmt.Fprintf(c.out, "%s: %d pending\n", id, len(pending))
	for _, t := range pending {
		switch {
		case t.Refused != "":
			fmt.Fprintf(c.out, "\n  %s (invalid: %s)\n", untrusted.Printable(t.Tool), untrusted.Printable(t.Refused))
		case t.Approved == nil:
			fmt.Fprintf(c.out, "\n  %s (new)\n", untrusted.Printable(t.Tool))
			c.printDefinition(t.Offered)
		case t.Offered == nil:
			fmt.Fprintf(c.out, "\n  %s (removed)\n", untrusted.Printable(t.Tool))
		default:
			fmt.Fprintf(c.out, "\n  %s (changed)\n", untrusted.Printable(t.Tool))
			for _, change := range t.Changes() {
				before, after := trimCommon(string(change.Old), string(change.New))
				c.printSide("-", change.Path, before)
				c.printSide("+", change.Path, after)
			}
		}
	}
	fmt.Fprintf(c.out, "\nTo approve only some, run \"toolyard approve %s TOOL...\".\n\n", id)
}

func (c *approveCommand) printDefinition(definition json.RawMessage) {
	var b bytes.Buffer
	_ = json.Indent(&b, definition, "", "  ") // cannot fail: it was parsed before
	for line := range strings.Lines(b.String()) {
		fmt.Fprintf(c.out, "    + %s\n", untrusted.Printable(strings.TrimRight(line, "\n")))
	}
}

func (c *approveCommand) printSide(mark, path, value string) {
	if value != "" {
		fmt.Fprintf(c.out, "    %s %s: %s\n", mark, untrusted.Printable(path), untrusted.Printable(value))
	}
}

// diffContext is the number of characters of a long text to show around a difference.
const diffContext = 60

// trimCommon shortens two long texts to the parts that differ, with some context.
func trimCommon(before, after string) (string, string) {
	if len(before)+len(after) < 400 || before == "" || after == "" {
		return before, after
	}
	a, b := []rune(before), []rune(after)
	prefix := 0
	for prefix < len(a) && prefix < len(b) && a[prefix] == b[prefix] {
		prefix++
	}
	suffix := 0
	for suffix < len(a)-prefix && suffix < len(b)-prefix && a[len(a)-1-suffix] == b[len(b)-1-suffix] {
		suffix++
	}
	part := func(r []rune) string {
		from, to := max(0, prefix-diffContext), min(len(r), len(r)-suffix+diffContext)
		return strings.Repeat("…", min(1, from)) + string(r[from:to]) + strings.Repeat("…", min(1, len(r)-to))
	}
	return part(a), part(b)
}

func (c *approveCommand) confirm(in *bufio.Reader, id string) bool {
	fmt.Fprintf(c.err, "Approve these definitions for %s? [y/N] ", id)
	reply, _ := in.ReadString('\n')
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(reply)))
}
