package cli

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/trust/identity"
)

func newCallersCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "callers", Short: "Delete callers' data", Args: cobra.NoArgs, RunE: requireSubcommand}
	var account string
	deleting := &cobra.Command{
		Use:   "delete ID",
		Short: "Delete a caller's data, keeping the ledger under a pseudonym",
		Long: `Delete a caller's data: API keys, connections, links, results, agent queries, approvals,
stored responses, the person's record, and the arguments and messages of recorded calls.

Recorded calls and the ledger are kept under a random pseudonym, so that amounts still add up. A
block stays in effect. The audit log and pack journals are not changed.`,
		Example: `  toolyard callers delete corp:9f31c2
  toolyard callers delete ci --account acme`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := args[0]
			if identity.CheckID(id) != nil {
				return usageError(fmt.Errorf("%q is not a valid caller ID", id))
			}
			return a.changeStore(cmd.Context(), change{"caller.delete", id, map[string]any{"account": account}}, func(s *openStore) error {
				d, err := s.DeleteCaller(cmd.Context(), account, id)
				if err != nil {
					return err
				}
				for _, table := range slices.Sorted(maps.Keys(d.Deleted)) {
					a.printf("deleted from %s: %s", table, plural(int(d.Deleted[table]), "row"))
				}
				for _, table := range slices.Sorted(maps.Keys(d.Kept)) {
					a.printf("kept in %s: %s, as %s", table, plural(int(d.Kept[table]), "row"), d.Pseudonym)
				}
				return nil
			})
		},
	}
	deleting.Flags().StringVar(&account, "account", "", "the caller's account, if several accounts have a caller with this ID")
	cmd.AddCommand(deleting)
	return cmd
}
