package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

func newAccountsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "accounts",
		Short: "Fund and show accounts, and link callers to accounts on other services",
		Args:  cobra.NoArgs,
		RunE:  requireSubcommand,
	}
	cmd.AddCommand(newFundCommand(a), newShowAccountsCommand(a), newLinkCommand(a), newUnlinkCommand(a), newLinksCommand(a), newAuditCommand(a))
	return cmd
}

// fundCommand credits an account.
type fundCommand struct {
	*app
	reference string
}

func newFundCommand(a *app) *cobra.Command {
	c := &fundCommand{app: a}
	cmd := &cobra.Command{
		Use:   "fund ACCOUNT AMOUNT",
		Short: "Add US dollars to an account",
		Long: `Add US dollars to an account. The account is created if it does not exist. To withdraw, pass a
negative amount after --. If you pass a reference, such as an invoice number,
repeating the command has no effect.`,
		Example: `  toolyard accounts fund acme 25 --reference invoice-17
  toolyard accounts fund acme -- -2.50`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			amount, err := toolyard.ParseMoney(args[1])
			if err == nil {
				err = identity.CheckID(args[0])
			}
			if err == nil && amount == 0 {
				err = errors.New("the amount must not be zero")
			}
			if err != nil {
				return usageError(err)
			}
			return c.run(cmd.Context(), args[0], amount)
		},
	}
	cmd.Flags().StringVar(&c.reference, "reference", "", "payment ID; each payment is credited only once")
	return cmd
}

func (c *fundCommand) run(ctx context.Context, account string, amount toolyard.Money) error {
	if c.reference == "" {
		c.reference = rand.Text()
	}
	funded := change{"account.fund", account, map[string]any{"amountUsd": amount.String(), "reference": c.reference}}
	return c.changeStore(ctx, funded, func(s *openStore) error {
		if err := s.Fund(ctx, account, amount, c.reference); err != nil {
			return err
		}
		balance, err := s.Balance(ctx, account)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.out, "Balance of %s: %s USD\n", account, balance.Remaining)
		return nil
	})
}

// showAccountsCommand prints account balances.
type showAccountsCommand struct {
	*app
	asJSON bool
}

func newShowAccountsCommand(a *app) *cobra.Command {
	c := &showAccountsCommand{app: a}
	cmd := &cobra.Command{
		Use:   "show [ACCOUNT]",
		Short: "Show the balance of one account or all accounts",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd.Context(), func(s *openStore) error { return c.run(cmd.Context(), s, args) })
		},
	}
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print JSON")
	return cmd
}

func (c *showAccountsCommand) run(ctx context.Context, s *openStore, names []string) error {
	balances, err := findBalances(ctx, s, names)
	if err != nil {
		return err
	}
	if c.asJSON {
		return writeJSON(c.out, balances)
	}
	return c.printTable(balances)
}

// findBalances returns the named account's balance, or all balances.
func findBalances(ctx context.Context, s *openStore, names []string) ([]*ledger.Balance, error) {
	all, err := s.Accounts(ctx)
	if err != nil || len(names) == 0 {
		return append([]*ledger.Balance{}, all...), err // JSON needs [], not null
	}
	var ids []string
	for _, balance := range all {
		if balance.ID == names[0] {
			return []*ledger.Balance{balance}, nil
		}
		ids = append(ids, balance.ID)
	}
	return nil, fmt.Errorf("unknown account %s%s; \"toolyard accounts fund\" creates accounts", names[0], spelling.DidYouMean(names[0], ids))
}

func (c *showAccountsCommand) printTable(balances []*ledger.Balance) error {
	if len(balances) == 0 {
		fmt.Fprintln(c.out, "No accounts.")
		return nil
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ACCOUNT\tREMAINING\tHELD\tSPENT")
	for _, b := range balances {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", untrusted.Printable(b.ID), b.Remaining, b.Held, b.Spent)
	}
	return w.Flush()
}

func newAuditCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "audit",
		Short: "Verify that the ledger is consistent",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), func(s *openStore) error {
				if err := s.Audit(cmd.Context()); err != nil {
					return err
				}
				fmt.Fprintln(a.out, "The ledger is consistent.")
				return nil
			})
		},
	}
}
