package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/upstream"
	"github.com/toolyard/toolyard/yard"
)

func (p *program) approveCommand() *cobra.Command {
	var yes, list bool
	c := &cobra.Command{
		Use:   "approve [SERVER [TOOL]...]",
		Short: "Review and approve new and changed tools of MCP servers",
		Long: `Show the tools of MCP servers that are new or have changed since they were approved, and
ask whether to approve them. Approvals are kept in toolyard.lock next to the configuration,
or in the store if that is PostgreSQL; running replicas pick them up at once.`,
		RunE: func(c *cobra.Command, args []string) error {
			p.opts.AskFirst = true // what a server offers first is shown like all else
			return p.with(c.Context(), func(ctx context.Context, y *yard.Yard) error {
				p.settle(ctx, y, args[:min(1, len(args))]...)
				return p.approve(y, args, yes, list)
			})
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "approve without asking")
	c.Flags().BoolVar(&list, "list", false, "only show what waits for approval, and exit with 1 if anything does")
	return c
}

// withServers runs fn on a yard whose servers were all tried.
func (p *program) withServers(ctx context.Context, fn func(context.Context, *yard.Yard) error) error {
	return p.with(ctx, func(ctx context.Context, y *yard.Yard) error {
		p.settle(ctx, y)
		return fn(ctx, y)
	})
}

// settle waits until the named servers, or all, were tried, and what they offer is shown.
func (p *program) settle(ctx context.Context, y *yard.Yard, ids ...string) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	slow := time.AfterFunc(2*time.Second, func() { fmt.Fprintf(p.err, "waiting for servers to start, %v at most …\n", serverTimeout) })
	defer slow.Stop()
	y.Settle(ctx, ids...)
}

// approve goes through the servers that were named, or all.
func (p *program) approve(y *yard.Yard, args []string, yes, list bool) error {
	servers := y.Servers()
	ids := slices.Sorted(maps.Keys(servers))
	var only []string
	if len(args) > 0 {
		if servers[args[0]] == nil {
			return exitStatus{exitUsage, fmt.Errorf("unknown server %s%s", args[0], didYouMean(args[0], ids))}
		}
		ids, only = args[:1], args[1:]
	}
	left, in := 0, bufio.NewReader(p.in)
	waited := false
	for _, id := range ids {
		a := approval{id: id, server: servers[id], only: only, list: list, agreed: func() bool { return !list && (yes || p.confirm(in, id)) }}
		err := p.approveServer(&a)
		if err != nil {
			p.complain(err) // the others are looked at all the same
			a.left = 1
		}
		left += a.left
		waited = waited || a.waited
	}
	if left > 0 {
		return exitStatus{exitError, nil}
	}
	if !waited {
		fmt.Fprintln(p.out, "Nothing waits for approval.")
	}
	return nil
}

// approval is the review of one server.
type approval struct {
	id     string
	server *upstream.Server
	only   []string    // the tools to review; all when empty
	list   bool        // only show them
	agreed func() bool // whether what was shown is approved

	left   int  // how many of the reviewed definitions still wait
	waited bool // some did before
}

// approveServer shows what is pending at one server and approves it if that is agreed to.
func (p *program) approveServer(a *approval) error {
	all, err := a.server.Pending()
	if err != nil {
		return err
	}
	pending, err := pick(all, a.only)
	if err != nil {
		return fmt.Errorf("server %s: %w", a.id, err)
	}
	if len(pending) == 0 {
		return nil
	}
	a.waited, a.left = true, len(pending)
	p.showPending(a.id, pending)
	good := slices.DeleteFunc(slices.Clone(pending), func(t upstream.Pending) bool { return t.Refused != "" })
	if a.list {
		return nil
	}
	if len(good) == 0 || !a.agreed() {
		good = nil
	} else if err := p.auditApproval(a.id, good, func() error { return a.server.Approve(good) }); err != nil {
		return err
	}
	a.left -= len(good)
	p.showApproved(a.id, good, all)
	return nil
}

// showApproved says how many definitions of a server were approved, and which ones still wait.
func (p *program) showApproved(id string, approved, all []upstream.Pending) {
	var waiting []string
	for _, t := range all {
		was := slices.ContainsFunc(approved, func(a upstream.Pending) bool { return a.Tool == t.Tool })
		if !was && !t.Rejected {
			waiting = append(waiting, t.Tool)
		}
	}
	count := fmt.Sprint(len(approved))
	if len(approved) == 0 {
		count = "nothing"
	}
	switch len(waiting) {
	case 0:
		p.say("Approved %s of %s; nothing else waits.", count, id)
	case 1:
		p.say("Approved %s; 1 of %s still waits: %s", count, id, waiting[0])
	default:
		p.say("Approved %s; %d of %s still wait: %s", count, len(waiting), id, strings.Join(waiting[:min(len(waiting), maxNamed)], ", ")+more(len(waiting)-maxNamed))
	}
}

// maxNamed is how many tools a line names.
const maxNamed = 10

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// pick takes the pending tools that were named, or all that nobody has rejected.
func pick(pending []upstream.Pending, names []string) (list []upstream.Pending, err error) {
	for _, name := range names {
		i := slices.IndexFunc(pending, func(p upstream.Pending) bool { return p.Tool == name })
		if i < 0 {
			return nil, fmt.Errorf("%s does not wait for approval%s", name, didYouMean(name, namesOf(pending)))
		}
		list = append(list, pending[i])
	}
	if len(names) == 0 { // what somebody does not want is approved by its name only
		return slices.DeleteFunc(pending, func(p upstream.Pending) bool { return p.Rejected }), nil
	}
	return list, nil
}

func namesOf(pending []upstream.Pending) (names []string) {
	for _, p := range pending {
		names = append(names, p.Tool)
	}
	return names
}

// showPending shows what is new, changed or gone. Nothing that a server wrote reaches the
// terminal unescaped.
func (p *program) showPending(id string, pending []upstream.Pending) {
	fmt.Fprintf(p.out, "%s: %d waiting for approval\n", id, len(pending))
	for _, t := range pending {
		switch {
		case t.Refused != "":
			fmt.Fprintf(p.out, "\n  %s (refused: %s)\n", untrusted.Printable(t.Tool), untrusted.Printable(t.Refused))
		case t.Approved == nil:
			fmt.Fprintf(p.out, "\n  %s (new)\n", untrusted.Printable(t.Tool))
			p.showNew(t.Offered)
		case t.Offered == nil:
			fmt.Fprintf(p.out, "\n  %s (gone)\n", untrusted.Printable(t.Tool))
		default:
			fmt.Fprintf(p.out, "\n  %s (changed)\n", untrusted.Printable(t.Tool))
			for _, c := range t.Changes() {
				old, now := differing(string(c.Old), string(c.New))
				p.showSide("-", c.Path, old)
				p.showSide("+", c.Path, now)
			}
		}
	}
	fmt.Fprintf(p.out, "\nTo approve only some: toolyard approve %s TOOL...\n\n", id)
}

// showNew shows a whole definition.
func (p *program) showNew(definition json.RawMessage) {
	var b bytes.Buffer
	_ = json.Indent(&b, definition, "", "  ") // it was read as JSON
	for line := range strings.Lines(b.String()) {
		fmt.Fprintf(p.out, "    + %s\n", untrusted.Printable(strings.TrimRight(line, "\n")))
	}
}

func (p *program) showSide(mark, path, value string) {
	if value != "" {
		fmt.Fprintf(p.out, "    %s %s: %s\n", mark, untrusted.Printable(path), untrusted.Printable(value))
	}
}

// nearby is how much of a long text is shown around what differs.
const nearby = 60

// differing are the parts of two texts that differ, with some of what is around them.
func differing(old, now string) (string, string) {
	if len(old)+len(now) < 400 || old == "" || now == "" {
		return old, now
	}
	a, b := []rune(old), []rune(now)
	same := 0
	for same < len(a) && same < len(b) && a[same] == b[same] {
		same++
	}
	tail := 0
	for tail < len(a)-same && tail < len(b)-same && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	part := func(r []rune) string {
		from, to := max(0, same-nearby), min(len(r), len(r)-tail+nearby)
		return strings.Repeat("…", min(1, from)) + string(r[from:to]) + strings.Repeat("…", min(1, len(r)-to))
	}
	return part(a), part(b)
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
		Short: "Explain why a gate shows a tool or hides it",
		Args:  cobra.RangeArgs(1, 2),
		Example: `  toolyard why chat mcp_github__create_issue
  toolyard why chat github/create_issue`,
		RunE: func(c *cobra.Command, args []string) error {
			gate, tool := p.gate, args[len(args)-1]
			if len(args) == 2 {
				gate = args[0]
			}
			return p.with(c.Context(), func(ctx context.Context, y *yard.Yard) error {
				p.gate = gate
				if _, err := p.view(y); err != nil {
					return err
				}
				server, _, one := strings.Cut(tool, "/")
				if _, known := y.Servers()[server]; one && known {
					p.settle(ctx, y, server)
				} else {
					p.settle(ctx, y)
				}
				steps, err := y.Why(gate, tool)
				if err != nil {
					return fail(err)
				}
				return p.showSteps(steps)
			})
		},
	}
}

// showSteps prints decisions, one a line, up to the one that stops the tool, and what
// follows from them.
func (p *program) showSteps(steps []toolyard.Step) error {
	for _, s := range steps {
		mark := "✓"
		switch {
		case s.Stops:
			mark = "✗"
		case s.Fails:
			mark = "!"
		}
		fmt.Fprintf(p.out, "%s %-11s %s\n", mark, s.Rule, untrusted.Printable(s.Text))
		if s.Fix != "" {
			fmt.Fprintf(p.out, "  %-11s %s\n", "", untrusted.Printable(s.Fix))
		}
		if s.Stops {
			fmt.Fprintln(p.out, "The gate hides it.")
			return exitStatus{exitTool, nil}
		}
	}
	fmt.Fprintln(p.out, "The gate shows it.")
	return nil
}
