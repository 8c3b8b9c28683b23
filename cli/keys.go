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
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/guard"
	"github.com/toolyard/toolyard/internal/identity"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/yard"
)

// source is the configuration, or what an absent one means.
func (p *program) source() (*config.Source, error) { return yard.LoadConfig(p.opts) }

// store opens the store of the configuration. What a command keeps must outlive it.
func (p *program) store(ctx context.Context) (*store.Store, error) {
	source, err := p.source()
	if err != nil {
		return nil, err
	}
	address := source.StoreAddress()
	if address == "memory" {
		return nil, errors.New("there is no store that would keep it; name a configuration file with --config, and in it store: sqlite:path or postgres://user@host/database")
	}
	return store.Open(ctx, address)
}

// withStore runs fn on the store of the configuration.
func (p *program) withStore(ctx context.Context, fn func(*store.Store) error) error {
	s, err := p.store(ctx)
	if err != nil {
		return fail(err)
	}
	return fail(errors.Join(fn(s), s.Close()))
}

func (p *program) keysCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "keys",
		Short: "Make, list and revoke API keys",
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
		Short: "Make an API key and print it, once",
		Long: `Make an API key and print it. Only a hash of it is kept, so nobody can show it again.
Without a scope it is good for every gate. Scopes restrict it: gate:NAME to a gate, and to
reading, unless write is among them. Only viewer and operator give more than no scope does.`,
		Example: `  toolyard keys create --name ci --caller alice --account acme --expires 720h
  toolyard keys create --name phone --caller bob --scope gate:chat`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return p.createKey(c.Context(), k) },
	}
	c.Flags().StringVar(&k.name, "name", "", "what the key is for")
	c.Flags().StringVar(&k.caller, "caller", "", "who calls with it")
	c.Flags().StringVar(&k.account, "account", "", "who pays (default: the caller)")
	c.Flags().StringArrayVar(&k.scopes, "scope", nil, "gate:NAME, gate:*, write, viewer or operator; may be given several times")
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
	return p.withStore(ctx, func(s *store.Store) error {
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
		return nil
	})
}

// checkGates refuses a scope for a gate that is not there: the key would be good for
// nothing, and nobody would know why.
func (p *program) checkGates(scopes []string) error {
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
			scopes = "all gates"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			k.Prefix, guard.Printable(k.Name), guard.Printable(k.Caller), guard.Printable(k.Account), guard.Printable(scopes), day(k.Created), day(k.Expires), k.State)
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
			return p.withStore(c.Context(), func(s *store.Store) error {
				err := s.RevokeKey(c.Context(), prefix, p.now())
				if err != nil && toolyard.AsError(err).Code == toolyard.NotFound {
					return fmt.Errorf("there is no key %s; toolyard keys list shows them", prefix)
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
