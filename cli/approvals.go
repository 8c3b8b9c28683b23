package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/control/approvals"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

func newApprovalsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "List, approve and decline calls that require operator approval",
		Args:  cobra.NoArgs,
		RunE:  requireSubcommand,
	}
	list := &approvalsCommand{app: a}
	listing := &cobra.Command{
		Use: "list", Short: "List calls that are waiting for approval", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), func(s *openStore) error { return list.list(cmd.Context(), s) })
		},
	}
	listing.Flags().StringVar(&list.state, "state", "pending", "pending, approved, declined, used, expired or all")
	listing.Flags().BoolVar(&list.asJSON, "json", false, "print JSON")
	show := &cobra.Command{
		Use: "show ID", Short: "Show a call that requires approval, with its arguments", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd.Context(), func(s *openStore) error { return list.show(cmd.Context(), s, args[0]) })
		},
	}
	cmd.AddCommand(listing, show, newDecideCommand(a, "approve"), newDecideCommand(a, "decline"))
	return cmd
}

// approvalsCommand lists and shows approvals.
type approvalsCommand struct {
	*app
	state  string
	asJSON bool
}

func (c *approvalsCommand) list(ctx context.Context, s *openStore) error {
	q := store.ApprovalQuery{State: ledger.ApprovalState(c.state)}
	if c.state == "all" {
		q.State = ""
	}
	rows, err := s.Approvals(ctx, q)
	if err != nil {
		return err
	}
	if c.asJSON {
		return writeJSON(c.out, rows)
	}
	if len(rows) == 0 {
		fmt.Fprintln(c.err, "No matching approvals.")
		return nil
	}
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tCALLER\tTOOL\tRULE\tEXPIRES")
	for _, a := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", a.ID, a.State, untrusted.Printable(a.Subject.Caller), untrusted.Printable(toolOf(a)), a.Rule.Name, a.Expires.Local().Format(time.DateTime))
	}
	return w.Flush()
}

func toolOf(a *store.Approval) string {
	if a.Subject.Server == "" {
		return a.Subject.Tool
	}
	return a.Subject.Server + "/" + a.Subject.Tool
}

func (c *approvalsCommand) show(ctx context.Context, s *openStore, id string) error {
	a, err := s.Approval(ctx, id)
	if err != nil {
		return err
	}
	u := &a.Subject
	fmt.Fprintf(c.out, "%s: %s\n", a.ID, a.State)
	for _, line := range [][2]string{
		{"tool", toolOf(a)},
		{"gate", u.Gate},
		{"caller", u.Caller + " of " + u.Account},
		{"rule", a.Rule.Name},
		{"message", a.Rule.Message},
		{"price", u.Price.String() + " USD"},
		{"expires", a.Expires.Local().Format(time.DateTime)},
		{"decided", a.Decision.By},
		{"reason", a.Decision.Reason},
		{"used by", a.UsedBy},
	} {
		if line[1] != "" {
			fmt.Fprintf(c.out, "  %-8s %s\n", line[0], untrusted.Printable(line[1]))
		}
	}
	var b bytes.Buffer
	if json.Indent(&b, a.Preview, "  ", "  ") == nil {
		fmt.Fprintf(c.out, "  arguments %s\n", b.String())
	}
	if a.Hidden > 0 {
		fmt.Fprintf(c.out, "  %s hidden because they may be secrets\n", plural(a.Hidden, "value"))
	}
	return nil
}

// decideCommand approves or declines a call.
type decideCommand struct {
	*app
	decision httpapi.Decision
}

func newDecideCommand(a *app, verb string) *cobra.Command {
	c := &decideCommand{app: a, decision: httpapi.Decision{Approve: verb == "approve"}}
	cmd := &cobra.Command{
		Use: verb + " ID", Short: map[string]string{"approve": "Approve a call, which can then run once with exactly these arguments", "decline": "Decline a call"}[verb],
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), verb, args[0]) },
	}
	cmd.Flags().StringVar(&c.decision.Reason, "reason", "", "reason to show to the caller and record in the audit log")
	if c.decision.Approve {
		cmd.Flags().DurationVar(&c.decision.Remember, "remember", 0, "also approve the caller's later calls to this tool for this long, such as 1h")
		cmd.Flags().BoolVar(&c.decision.AnyArguments, "any-arguments", false, "with --remember: approve calls with any arguments, not only the same ones")
	}
	return cmd
}

func (c *decideCommand) run(ctx context.Context, verb, id string) error {
	if d := c.decision.Remember; d < 0 || d > 24*time.Hour {
		return usageError(fmt.Errorf("--remember must be at most 24h"))
	}
	changed := change{"approval." + verb, id, map[string]any{"reason": c.decision.Reason, "remember": c.decision.Remember.String(), "anyArguments": c.decision.AnyArguments}}
	return c.changeStore(ctx, changed, func(s *openStore) error {
		service := approvals.New(s, approvals.Options{Log: slog.New(slog.DiscardHandler)})
		a, err := service.Decide(ctx, id, toolyard.Caller{ID: systemUser()}, c.decision)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.out, "%s: %s\n", a.ID, a.State)
		return nil
	})
}
