package cli

import (
	"cmp"
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
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/yard"
)

// source is the configuration, or what an absent one means.
func (p *program) source() (*config.Source, error) {
	return settings.ReadConfig(settings.Options{File: p.opts.ConfigFile, Store: p.opts.Store, Getenv: p.opts.Getenv})
}

// storeAddress is where the store is that a yard with these flags and this configuration uses.
func (p *program) storeAddress() (string, error) {
	address := p.opts.Store
	if address == "" {
		source, err := p.source()
		if err != nil {
			return "", err
		}
		if !source.NeedsStore() {
			return "", fmt.Errorf("this yard keeps no keys and no accounts: %s names no store; %s", cmp.Or(p.opts.ConfigFile, "the configuration"), nameStore)
		}
		address = source.StoreAddress()
	}
	if address == "memory" {
		return "", errors.New("the store is memory, which ends with the process: nothing would be kept; " + nameStore)
	}
	return address, nil
}

const nameStore = "add store: sqlite:toolyard.db or store: postgres://user@host/database there, or name the store with --store"

// withStore runs fn on the store of the configuration.
func (p *program) withStore(ctx context.Context, fn func(*store.Store) error) error {
	address, err := p.storeAddress()
	if err != nil {
		return fail(err)
	}
	return fail(p.onStore(ctx, address, fn))
}

// onStore runs fn on the store at an address.
func (p *program) onStore(ctx context.Context, address string, fn func(*store.Store) error) error {
	s, err := store.Open(ctx, address)
	if err != nil {
		return err
	}
	p.opened = address
	return errors.Join(fn(s), s.Close())
}

func (p *program) keysCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "keys",
		Short: "Create, list and revoke API keys",
		Args:  cobra.NoArgs,
		RunE:  needsSubcommand,
	}
	c.AddCommand(p.keysCreateCommand(), p.keysListCommand(), p.keysRevokeCommand())
	return c
}

// needsSubcommand refuses a command that does nothing by itself.
func needsSubcommand(c *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	return fmt.Errorf("say what to do: %s %s", c.CommandPath(), strings.Join(names, ", "))
}

// newKey is what the flags of keys create say.
type newKey struct {
	name, caller, account string
	scopes                []string
	expires               time.Duration
	asJSON                bool
}

func (p *program) keysCreateCommand() *cobra.Command {
	var k newKey
	c := &cobra.Command{
		Use:   "create --name NAME --caller CALLER",
		Short: "Create an API key and print it, once",
		Long: `Create an API key and print it. Only a hash of it is kept, so it cannot be shown again.
Without a scope it may read at every gate, and change nothing.

  --scope write       enter gates with mode write too
  --scope gate:NAME   enter only this gate, and others that are named so
  --scope all         every gate, and write
  --scope viewer      see everything in the console and the API
  --scope operator    see and change everything in the console and the API`,
		Example: `  toolyard keys create --name ci --caller alice --account acme --expires 720h
  toolyard keys create --name agent --caller bob --scope gate:desk --scope write
  toolyard keys create --name console --caller ann --scope operator --scope write`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.createKey(c.Context(), k) },
	}
	c.Flags().StringVar(&k.name, "name", "", "what the key is for")
	c.Flags().StringVar(&k.caller, "caller", "", "who calls with it")
	c.Flags().StringVar(&k.account, "account", "", "who pays (default: the caller)")
	c.Flags().StringArrayVar(&k.scopes, "scope", nil, "gate:NAME, gate:*, write, all, viewer or operator; may be given several times (default: read at every gate)")
	c.Flags().DurationVar(&k.expires, "expires", 0, "how long it is good for, such as 720h (default: until it is revoked)")
	c.Flags().BoolVar(&k.asJSON, "json", false, "print JSON")
	_ = c.MarkFlagRequired("name")
	_ = c.MarkFlagRequired("caller")
	return c
}

func (p *program) createKey(ctx context.Context, k newKey) error {
	key, token, err := identity.New(k.name, k.caller, k.account, k.scopes, k.expires, p.now())
	if err == nil {
		err = p.checkGates(key.Scopes)
	}
	if err != nil {
		return exitStatus{exitUsage, err}
	}
	made := change{"key.make", key.Prefix, map[string]any{
		"name": key.Name, "caller": key.Caller, "account": key.Account, "scopes": append([]string{}, key.Scopes...), "ttl": k.expires.String(),
	}}
	return p.changeStore(ctx, made, func(s *store.Store) error {
		if err := s.PutKey(ctx, key); err != nil {
			return err
		}
		if k.asJSON {
			return writeJSON(p.out, struct {
				Token string `json:"token"`
				identity.Entry
			}{token, key.Entry(p.now())})
		}
		fmt.Fprintln(p.out, token)
		fmt.Fprintln(p.err, "Keep it in a safe place: it is not shown again.")
		fmt.Fprintln(p.err, identity.Describe(key.Scopes))
		return nil
	})
}

// checkGates refuses a scope for a gate that is not there: the key would be good for
// nothing, and nobody would know why.
func (p *program) checkGates(scopes []string) error {
	if !slices.ContainsFunc(scopes, func(scope string) bool { return strings.HasPrefix(scope, "gate:") && scope != "gate:*" }) {
		return nil
	}
	source, err := p.source()
	if err != nil {
		return err
	}
	gates := slices.Sorted(maps.Keys(source.Gates))
	for _, g := range p.opts.Gates {
		gates = append(gates, g.Name)
	}
	if len(gates) == 0 {
		gates = []string{yard.DefaultGate}
	}
	for _, scope := range scopes {
		gate, ok := strings.CutPrefix(scope, "gate:")
		if ok && gate != "*" && !slices.Contains(gates, gate) {
			return fmt.Errorf("there is no gate %s; there are: %s", gate, strings.Join(gates, ", "))
		}
	}
	return nil
}

func (p *program) now() time.Time {
	if p.opts.Now != nil {
		return p.opts.Now()
	}
	return time.Now()
}

func (p *program) keysListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the API keys, without their secrets",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.withStore(c.Context(), func(s *store.Store) error {
				keys, err := s.Keys(c.Context())
				if err != nil {
					return err
				}
				list := make([]identity.Entry, 0, len(keys))
				for _, k := range keys {
					list = append(list, k.Entry(p.now()))
				}
				if asJSON {
					return writeJSON(p.out, list)
				}
				return p.keyTable(list)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (p *program) keyTable(list []identity.Entry) error {
	if len(list) == 0 {
		fmt.Fprintln(p.out, "No keys.")
		return nil
	}
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PREFIX\tNAME\tCALLER\tACCOUNT\tSCOPES\tCREATED\tEXPIRES\tSTATE")
	for _, k := range list {
		scopes := strings.Join(k.Scopes, " ")
		if scopes == "" {
			scopes = "read"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			k.Prefix, untrusted.Printable(k.Name), untrusted.Printable(k.Caller), untrusted.Printable(k.Account), untrusted.Printable(scopes), day(k.Created), day(k.Expires), k.State)
	}
	return w.Flush()
}

// day is a time in a table.
func day(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format("2006-01-02 15:04")
}

func (p *program) keysRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke PREFIX",
		Short: "Make an API key useless; servers that run know within half a minute",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			prefix, err := prefixOf(args[0])
			if err != nil {
				return exitStatus{exitUsage, err}
			}
			return p.changeStore(c.Context(), change{"key.revoke", prefix, nil}, func(s *store.Store) error {
				err := s.RevokeKey(c.Context(), prefix, p.now())
				if err != nil && toolyard.AsError(err).Code == toolyard.NotFound {
					return toolyard.Errorf(toolyard.NotFound, "There is no key %s; toolyard keys list shows them.", prefix)
				}
				if err == nil {
					fmt.Fprintf(p.out, "%s is revoked.\n", prefix)
				}
				return err
			})
		},
	}
}

// prefixOf is the prefix of a key that a person names. It does not repeat what is none: that
// may be a secret.
func prefixOf(text string) (string, error) {
	if !identity.CheckPrefix(text) {
		return "", errors.New("a key is named by its prefix, the 10 characters between ty_ and the next _; toolyard keys list shows them")
	}
	return text, nil
}
