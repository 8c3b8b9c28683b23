package cli

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

func newPeopleCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "people",
		Short: "List, block and unblock people who sign in through an issuer",
		Args:  cobra.NoArgs,
		RunE:  requireSubcommand,
	}
	list := &peopleListCommand{app: a}
	listing := &cobra.Command{
		Use: "list", Short: "List people, most recently seen first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), func(s *openStore) error { return list.run(cmd.Context(), s) })
		},
	}
	listing.Flags().StringVar(&list.query.Part, "find", "", "only people with this text in their ID, name or email address")
	listing.Flags().StringVar(&list.query.State, "state", "", "active or blocked (default: both)")
	listing.Flags().BoolVar(&list.asJSON, "json", false, "print JSON")
	block := &peopleBlockCommand{app: a}
	blocking := &cobra.Command{
		Use: "block ID", Short: "Block a person; running servers reject tokens and sign-ins within 30 seconds", Args: cobra.ExactArgs(1),
		Example: "  toolyard people block corp:9f31c2 --reason \"left the company\"",
		RunE:    func(cmd *cobra.Command, args []string) error { return block.run(cmd.Context(), args[0]) },
	}
	blocking.Flags().StringVar(&block.reason, "reason", "", "reason to show to other operators")
	unblocking := &cobra.Command{
		Use: "unblock ID", Short: "Unblock a person", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return block.unblock(cmd.Context(), args[0]) },
	}
	cmd.AddCommand(listing, blocking, unblocking)
	return cmd
}

// peopleListCommand lists people.
type peopleListCommand struct {
	*app
	query  store.PersonQuery
	asJSON bool
}

func (c *peopleListCommand) run(ctx context.Context, s *openStore) error {
	if state := c.query.State; state != "" && state != "active" && state != "blocked" {
		return usageError(fmt.Errorf("--state must be active or blocked"))
	}
	people, err := s.People(ctx, c.query)
	if err != nil {
		return err
	}
	if c.asJSON {
		return writeJSON(c.out, people)
	}
	if len(people) == 0 {
		fmt.Fprintln(c.err, "No matching people.")
		return nil
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tEMAIL\tGROUPS\tLAST SEEN\tBLOCKED")
	for _, p := range people {
		blocked := ""
		if !p.Block.At.IsZero() {
			blocked = formatMinute(p.Block.At) + " by " + p.Block.By
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", untrusted.Printable(p.Caller), untrusted.Printable(p.Name), untrusted.Printable(p.Email),
			untrusted.Printable(strings.Join(p.Groups, " ")), formatMinute(p.Seen), untrusted.Printable(blocked))
	}
	return w.Flush()
}

// peopleBlockCommand blocks and unblocks people.
type peopleBlockCommand struct {
	*app
	reason string
}

func (c *peopleBlockCommand) run(ctx context.Context, caller string) error {
	if err := checkPerson(caller); err != nil {
		return usageError(err)
	}
	return c.changeStore(ctx, change{"person.block", caller, map[string]any{"reason": c.reason}}, func(s *openStore) error {
		if _, err := s.BlockPerson(ctx, caller, store.Block{At: c.now(), By: systemUser(), Reason: c.reason}); err != nil {
			return err
		}
		fmt.Fprintf(c.out, "Blocked %s.\n", caller)
		return nil
	})
}

func (c *peopleBlockCommand) unblock(ctx context.Context, caller string) error {
	if err := checkPerson(caller); err != nil {
		return usageError(err)
	}
	return c.changeStore(ctx, change{"person.unblock", caller, nil}, func(s *openStore) error {
		if _, err := s.UnblockPerson(ctx, caller); err != nil {
			return err
		}
		fmt.Fprintf(c.out, "Unblocked %s.\n", caller)
		return nil
	})
}

// checkPerson returns an error if the ID cannot belong to a person from an issuer.
func checkPerson(caller string) error {
	if issuer, subject, ok := strings.Cut(caller, ":"); identity.CheckID(caller) != nil || !ok || issuer == "" || subject == "" {
		return fmt.Errorf("expected a person's ID, such as corp:9f31c2; \"toolyard people list\" shows all")
	}
	return nil
}
