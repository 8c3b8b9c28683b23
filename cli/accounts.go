package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

func (p *program) accountsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "accounts",
		Short: "Fund accounts, and link callers to their accounts elsewhere",
		Args:  cobra.NoArgs,
		RunE:  needsSubcommand,
	}
	c.AddCommand(p.fundCommand(), p.showAccountsCommand(), p.linkCommand(), p.unlinkCommand(), p.linksCommand(), p.auditCommand())
	return c
}

func (p *program) fundCommand() *cobra.Command {
	var reference string
	c := &cobra.Command{
		Use:   "fund ACCOUNT AMOUNT",
		Short: "Put US dollars into an account",
		Long: `Put US dollars into an account, which is made if it is not there. A negative amount is
taken out; write it behind --. With a reference, such as the number of an invoice, funding
twice funds once.`,
		Example: `  toolyard accounts fund acme 25 --reference invoice-17
  toolyard accounts fund acme -- -2.50`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			amount, err := toolyard.ParseMoney(args[1])
			if err == nil {
				err = identity.CheckID(args[0])
			}
			if err == nil && amount == 0 {
				err = errors.New("the amount is nothing")
			}
			if err != nil {
				return exitStatus{exitUsage, err}
			}
			if reference == "" {
				reference = rand.Text()
			}
			return p.fund(c.Context(), args[0], amount, reference)
		},
	}
	c.Flags().StringVar(&reference, "reference", "", "what the payment is known by, so that it counts once")
	return c
}

func (p *program) fund(ctx context.Context, account string, amount toolyard.Money, reference string) error {
	funded := change{"account.fund", account, map[string]any{"amountUsd": amount.String(), "reference": reference}}
	return p.changeStore(ctx, funded, func(s *store.Store) error {
		if err := s.Fund(ctx, account, amount, reference); err != nil {
			return err
		}
		purse, err := s.Balance(ctx, account)
		if err != nil {
			return err
		}
		fmt.Fprintf(p.out, "%s has %s USD.\n", account, purse.Remaining)
		return nil
	})
}

func (p *program) showAccountsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show [ACCOUNT]",
		Short: "Show what an account has, or all of them",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withStore(c.Context(), func(s *store.Store) error {
				purses, err := purses(c.Context(), s, args)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(p.out, purses)
				}
				return p.purseTable(purses)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// purses are the account that is named, or all.
func purses(ctx context.Context, s *store.Store, names []string) ([]*ledger.Balance, error) {
	all, err := s.Accounts(ctx)
	if err != nil || len(names) == 0 {
		return append([]*ledger.Balance{}, all...), err // a list in JSON too if there are none
	}
	var known []string
	for _, purse := range all {
		if purse.ID == names[0] {
			return []*ledger.Balance{purse}, nil
		}
		known = append(known, purse.ID)
	}
	return nil, fmt.Errorf("there is no account %s%s; toolyard accounts fund makes one", names[0], didYouMean(names[0], known))
}

func (p *program) purseTable(purses []*ledger.Balance) error {
	if len(purses) == 0 {
		fmt.Fprintln(p.out, "No accounts.")
		return nil
	}
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ACCOUNT\tREMAINING\tHELD\tSPENT")
	for _, purse := range purses {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", untrusted.Printable(purse.ID), purse.Remaining, purse.Held, purse.Spent)
	}
	return w.Flush()
}

func (p *program) checkLink(caller, kind, address string) error {
	if err := identity.CheckID(caller); err != nil {
		return err
	}
	kinds := p.opts.ProviderKinds
	k, ok := kinds[kind]
	if !ok {
		return fmt.Errorf("there is no kind %s; there are: %s", kind, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	if k.CheckLink == nil {
		return nil
	}
	if err := k.CheckLink(address); err != nil {
		return fmt.Errorf("%s is not the address of a %s: %w", strconv.QuoteToASCII(address), kind, err)
	}
	return nil
}

// linkOwner is the caller of an account whose links a command is about: the account that is
// named, or the one that the caller's keys are for.
func linkOwner(ctx context.Context, s *store.Store, caller, account string) (toolyard.Caller, error) {
	if account != "" {
		return toolyard.Caller{ID: caller, Account: account}, identity.CheckID(account)
	}
	accounts, err := s.AccountsOf(ctx, caller)
	switch {
	case err != nil:
		return toolyard.Caller{}, err
	case len(accounts) > 1:
		return toolyard.Caller{}, toolyard.Errorf(toolyard.Invalid, "%s is a caller of several accounts (%s); name one with --account.", caller, strings.Join(accounts, ", "))
	case len(accounts) == 1:
		return toolyard.Caller{ID: caller, Account: accounts[0]}, nil
	}
	return toolyard.Caller{ID: caller, Account: caller}, nil
}

const accountFlag = "account of the caller (default: the one that the caller's keys are for, or the caller's own)"

func (p *program) linkCommand() *cobra.Command {
	var account string
	c := &cobra.Command{
		Use:     "link CALLER KIND ADDRESS",
		Short:   "Say where a caller has an account, such as a wallet",
		Example: `  toolyard accounts link alice wallet 0x52908400098527886E0F7030069857D2E4169EE7`,
		Args:    cobra.ExactArgs(3),
		RunE: func(c *cobra.Command, args []string) error {
			caller, kind, address := args[0], args[1], args[2]
			if err := p.checkLink(caller, kind, address); err != nil {
				return exitStatus{exitUsage, err}
			}
			linked := change{"link.set", kind, map[string]any{"caller": caller, "account": account, "address": address}}
			return p.changeStore(c.Context(), linked, func(s *store.Store) error {
				owner, err := linkOwner(c.Context(), s, caller, account)
				if err == nil {
					err = s.SetLink(c.Context(), owner, kind, address)
				}
				if err == nil {
					fmt.Fprintf(p.out, "%s has the %s %s.\n", caller, kind, address)
				}
				return err
			})
		},
	}
	c.Flags().StringVar(&account, "account", "", accountFlag)
	return c
}

func (p *program) unlinkCommand() *cobra.Command {
	var account string
	c := &cobra.Command{
		Use:   "unlink CALLER KIND",
		Short: "Forget where a caller has an account",
		Args:  cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			unlinked := change{"link.remove", args[1], map[string]any{"caller": args[0], "account": account}}
			return p.changeStore(c.Context(), unlinked, func(s *store.Store) error {
				return p.unlink(c.Context(), s, args[0], args[1], account)
			})
		},
	}
	c.Flags().StringVar(&account, "account", "", accountFlag)
	return c
}

func (p *program) unlink(ctx context.Context, s *store.Store, caller, kind, account string) error {
	owner, err := linkOwner(ctx, s, caller, account)
	if err != nil {
		return err
	}
	linked, err := s.Linked(ctx, owner, kind)
	if err != nil {
		return err
	}
	if linked == "" {
		return toolyard.Errorf(toolyard.NotFound, "%s has no %s; toolyard accounts links %s shows what there is.", caller, kind, caller)
	}
	if err := s.SetLink(ctx, owner, kind, ""); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "%s has no %s any more.\n", caller, kind)
	return nil
}

func (p *program) linksCommand() *cobra.Command {
	var asJSON bool
	var account string
	c := &cobra.Command{
		Use:   "links CALLER",
		Short: "Show where a caller has accounts",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return p.withStore(c.Context(), func(s *store.Store) error {
				owner, err := linkOwner(c.Context(), s, args[0], account)
				if err != nil {
					return err
				}
				links, err := s.Links(c.Context(), owner)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(p.out, links)
				}
				if len(links) == 0 {
					fmt.Fprintln(p.out, "No links.")
				}
				for _, kind := range slices.Sorted(maps.Keys(links)) {
					fmt.Fprintf(p.out, "%s\t%s\n", untrusted.Printable(kind), untrusted.Printable(links[kind]))
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&account, "account", "", accountFlag)
	return c
}

func (p *program) auditCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "audit",
		Short: "Check that the books add up",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.withStore(c.Context(), func(s *store.Store) error {
				if err := s.Audit(c.Context()); err != nil {
					return err
				}
				fmt.Fprintln(p.out, "The books add up.")
				return nil
			})
		},
	}
}
