package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/yard"
)

func newKeysCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Create, list and revoke API keys",
		Args:  cobra.NoArgs,
		RunE:  requireSubcommand,
	}
	cmd.AddCommand(newKeysCreateCommand(a), newKeysListCommand(a), newKeysRevokeCommand(a))
	return cmd
}

// keysCreateCommand creates an API key.
type keysCreateCommand struct {
	*app
	name, caller, account string
	scopes                []string
	expires               time.Duration
	asJSON                bool
}

func newKeysCreateCommand(a *app) *cobra.Command {
	c := &keysCreateCommand{app: a}
	cmd := &cobra.Command{
		Use:   "create --name NAME --caller CALLER",
		Short: "Create an API key and print it once",
		Long: `Create an API key and print it. Only a hash is stored, so it cannot be shown again.
Without a scope, the key can call tools at every gate with mode read.

  --scope write       also use gates with mode write
  --scope gate:NAME   use only this gate (repeat for more gates)
  --scope all         use every gate, in read or write mode
  --scope viewer      view everything in the console and the API
  --scope approver    approve pending calls for the key's account
  --scope operator    view and change everything in the console and the API`,
		Example: `  toolyard keys create --name ci --caller alice --account acme --expires 720h
  toolyard keys create --name agent --caller bob --scope gate:support --scope write
  toolyard keys create --name console --caller ann --scope operator --scope write`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&c.name, "name", "", "purpose of the key")
	cmd.Flags().StringVar(&c.caller, "caller", "", "user or program that uses the key")
	cmd.Flags().StringVar(&c.account, "account", "", "account that pays (default: the caller)")
	cmd.Flags().StringArrayVar(&c.scopes, "scope", nil, "gate:NAME, gate:*, write, all, viewer, approver or operator; can be repeated (default: read at every gate)")
	cmd.Flags().DurationVar(&c.expires, "expires", 0, "lifetime, such as 720h (default: until it is revoked)")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print JSON")
	_ = cmd.MarkFlagRequired("name")
	_ = cmd.MarkFlagRequired("caller")
	return cmd
}

func (c *keysCreateCommand) run(ctx context.Context) error {
	key, token, err := identity.New(c.name, c.caller, c.account, c.scopes, c.expires, c.now())
	if err == nil {
		err = c.checkGates(key.Scopes)
	}
	if err != nil {
		return usageError(err)
	}
	created := change{"key.create", key.Prefix, map[string]any{
		"name": key.Name, "caller": key.Caller, "account": key.Account, "scopes": append([]string{}, key.Scopes...), "ttl": c.expires.String(),
	}}
	return c.changeStore(ctx, created, func(s *openStore) error {
		if err := s.PutKey(ctx, key); err != nil {
			return err
		}
		if c.asJSON {
			return writeJSON(c.out, struct {
				Token string `json:"token"`
				identity.Entry
			}{token, key.Entry(c.now())})
		}
		fmt.Fprintln(c.out, token)
		fmt.Fprintln(c.err, "Save the key now: it cannot be shown again.")
		fmt.Fprintln(c.err, identity.Describe(key.Scopes))
		return nil
	})
}

// checkGates rejects a scope for a gate that does not exist, because the key would be useless.
func (c *keysCreateCommand) checkGates(scopes []string) error {
	if !slices.ContainsFunc(scopes, func(scope string) bool { return strings.HasPrefix(scope, "gate:") && scope != "gate:*" }) {
		return nil
	}
	source, err := c.loadConfig()
	if err != nil {
		return err
	}
	gates := slices.Sorted(maps.Keys(source.Gates))
	for _, g := range c.opts.Gates {
		gates = append(gates, g.Name)
	}
	if len(gates) == 0 {
		gates = []string{yard.DefaultGate}
	}
	for _, scope := range scopes {
		gate, ok := strings.CutPrefix(scope, "gate:")
		if ok && gate != "*" && !slices.Contains(gates, gate) {
			return fmt.Errorf("unknown gate %q; available gates: %s", gate, strings.Join(gates, ", "))
		}
	}
	return nil
}

// keysListCommand lists API keys.
type keysListCommand struct {
	*app
	asJSON bool
}

func newKeysListCommand(a *app) *cobra.Command {
	c := &keysListCommand{app: a}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List API keys without their secrets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), func(s *openStore) error { return c.run(cmd.Context(), s) })
		},
	}
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print JSON")
	return cmd
}

func (c *keysListCommand) run(ctx context.Context, s *openStore) error {
	keys, err := s.Keys(ctx)
	if err != nil {
		return err
	}
	list := make([]identity.Entry, 0, len(keys))
	for _, k := range keys {
		list = append(list, k.Entry(c.now()))
	}
	if c.asJSON {
		return writeJSON(c.out, list)
	}
	return c.printTable(list)
}

func (c *keysListCommand) printTable(list []identity.Entry) error {
	if len(list) == 0 {
		fmt.Fprintln(c.out, "No keys.")
		return nil
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PREFIX\tNAME\tCALLER\tACCOUNT\tSCOPES\tCREATED\tEXPIRES\tSTATE")
	for _, k := range list {
		scopes := strings.Join(k.Scopes, " ")
		if scopes == "" {
			scopes = "read"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			k.Prefix, untrusted.Printable(k.Name), untrusted.Printable(k.Caller), untrusted.Printable(k.Account), untrusted.Printable(scopes), formatMinute(k.Created), formatMinute(k.Expires), k.State)
	}
	return w.Flush()
}

// formatMinute formats a time for a table.
func formatMinute(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format("2006-01-02 15:04")
}

// keysRevokeCommand revokes an API key.
type keysRevokeCommand struct{ *app }

func newKeysRevokeCommand(a *app) *cobra.Command {
	c := keysRevokeCommand{a}
	return &cobra.Command{
		Use:   "revoke PREFIX",
		Short: "Revoke an API key; running servers reject it within 30 seconds",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix, err := parsePrefix(args[0])
			if err != nil {
				return usageError(err)
			}
			return c.run(cmd.Context(), prefix)
		},
	}
}

func (c keysRevokeCommand) run(ctx context.Context, prefix string) error {
	return c.changeStore(ctx, change{"key.revoke", prefix, nil}, func(s *openStore) error {
		err := s.RevokeKey(ctx, prefix, c.now())
		if err != nil && toolyard.AsError(err).Code == toolyard.NotFound {
			return toolyard.Errorf(toolyard.NotFound, "Unknown key %s; \"toolyard keys list\" shows all keys.", prefix)
		}
		if err == nil {
			fmt.Fprintf(c.out, "Revoked %s.\n", prefix)
		}
		return err
	})
}

// parsePrefix validates a key's prefix. The error does not repeat the text, which may be a whole
// key.
func parsePrefix(text string) (string, error) {
	if !identity.CheckPrefix(text) {
		return "", errors.New("expected a key prefix, the 10 characters between ty_ and the next _; \"toolyard keys list\" shows all prefixes")
	}
	return text, nil
}
