package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// linkFlags select the owner of a link.
type linkFlags struct{ account string }

func (f *linkFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.account, "account", "", "the caller's account (default: the account of the caller's keys, or one named after the caller)")
}

// owner returns the caller whose links a command changes.
func (f *linkFlags) owner(ctx context.Context, s *openStore, caller string) (toolyard.Caller, error) {
	if f.account != "" {
		return toolyard.Caller{ID: caller, Account: f.account}, identity.CheckID(f.account)
	}
	accounts, err := s.AccountsOf(ctx, caller)
	switch {
	case err != nil:
		return toolyard.Caller{}, err
	case len(accounts) > 1:
		return toolyard.Caller{}, toolyard.Errorf(toolyard.Invalid, "%s has keys for several accounts (%s); choose one with --account.", caller, strings.Join(accounts, ", "))
	case len(accounts) == 1:
		return toolyard.Caller{ID: caller, Account: accounts[0]}, nil
	}
	return toolyard.Caller{ID: caller, Account: caller}, nil
}

// linkCommand links a caller to an account at another service.
type linkCommand struct {
	*app
	linkFlags
}

func newLinkCommand(a *app) *cobra.Command {
	c := &linkCommand{app: a}
	cmd := &cobra.Command{
		Use:     "link CALLER KIND ADDRESS",
		Short:   "Link a caller to an account on another service, such as a wallet",
		Example: `  toolyard accounts link alice wallet 0x52908400098527886E0F7030069857D2E4169EE7`,
		Args:    cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(args[0], args[1], args[2]); err != nil {
				return usageError(err)
			}
			return c.run(cmd.Context(), args[0], args[1], args[2])
		},
	}
	c.register(cmd)
	return cmd
}

func (c *linkCommand) run(ctx context.Context, caller, kind, address string) error {
	linked := change{"link.set", kind, map[string]any{"caller": caller, "account": c.account, "address": address}}
	return c.changeStore(ctx, linked, func(s *openStore) error {
		owner, err := c.owner(ctx, s, caller)
		if err == nil {
			err = s.SetLink(ctx, owner, kind, address)
		}
		if err == nil {
			fmt.Fprintf(c.out, "Linked %s to the %s account %s.\n", caller, kind, address)
		}
		return err
	})
}

func (c *linkCommand) check(caller, kind, address string) error {
	if err := identity.CheckID(caller); err != nil {
		return err
	}
	kinds := slices.Collect(maps.Keys(c.opts.ProviderKinds))
	if source, err := c.loadConfig(); err == nil { // otherwise, opening the store reports the error
		kinds = append(kinds, source.LinkNames()...)
	}
	slices.Sort(kinds)
	if !slices.Contains(kinds, kind) {
		return fmt.Errorf("unknown kind %s; available kinds: %s", kind, strings.Join(slices.Compact(kinds), ", "))
	}
	if err := c.opts.CheckLink(kind, address); err != nil {
		return fmt.Errorf("%s is not a valid link to %s: %w", strconv.QuoteToASCII(address), kind, err)
	}
	return nil
}

// unlinkCommand removes a link.
type unlinkCommand struct {
	*app
	linkFlags
}

func newUnlinkCommand(a *app) *cobra.Command {
	c := &unlinkCommand{app: a}
	cmd := &cobra.Command{
		Use:   "unlink CALLER KIND",
		Short: "Remove a caller's link",
		Args:  cobra.ExactArgs(2),
		RunE:  func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0], args[1]) },
	}
	c.register(cmd)
	return cmd
}

func (c *unlinkCommand) run(ctx context.Context, caller, kind string) error {
	unlinked := change{"link.remove", kind, map[string]any{"caller": caller, "account": c.account}}
	return c.changeStore(ctx, unlinked, func(s *openStore) error {
		owner, err := c.owner(ctx, s, caller)
		if err != nil {
			return err
		}
		linked, err := s.Linked(ctx, owner, kind)
		if err != nil {
			return err
		}
		if linked == "" {
			return toolyard.Errorf(toolyard.NotFound, "%s has no %s link; \"toolyard accounts links %s\" lists the links.", caller, kind, caller)
		}
		if err := s.SetLink(ctx, owner, kind, ""); err != nil {
			return err
		}
		fmt.Fprintf(c.out, "Removed the %s link from %s.\n", kind, caller)
		return nil
	})
}

// linksCommand lists a caller's links.
type linksCommand struct {
	*app
	linkFlags
	asJSON bool
}

func newLinksCommand(a *app) *cobra.Command {
	c := &linksCommand{app: a}
	cmd := &cobra.Command{
		Use:   "links CALLER",
		Short: "List a caller's links",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd.Context(), func(s *openStore) error { return c.run(cmd.Context(), s, args[0]) })
		},
	}
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print JSON")
	c.register(cmd)
	return cmd
}

func (c *linksCommand) run(ctx context.Context, s *openStore, caller string) error {
	owner, err := c.owner(ctx, s, caller)
	if err != nil {
		return err
	}
	links, err := s.Links(ctx, owner)
	if err != nil {
		return err
	}
	if c.asJSON {
		return writeJSON(c.out, links)
	}
	if len(links) == 0 {
		fmt.Fprintln(c.out, "No links.")
	}
	for _, kind := range slices.Sorted(maps.Keys(links)) {
		fmt.Fprintf(c.out, "%s\t%s\n", untrusted.Printable(kind), untrusted.Printable(links[kind]))
	}
	return nil
}
