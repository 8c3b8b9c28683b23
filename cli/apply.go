package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/yard"
)

// applyFlags are the flags of toolyard apply. Zero is no version.
type applyFlags struct {
	show, history bool
	restore       int64
}

func (p *program) applyCommand() *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:   "apply [FILE]",
		Short: "Put a configuration into the store, for all replicas that take theirs from there",
		Long: `Check a configuration (toolyard.yaml if no file is named) and put it into the store that
it names, or that --store does. Replicas that were started with --store and without a file
take it over at once. Variables are filled in by each replica from its own environment, and
paths are relative to where it runs.

The store keeps the versions that were applied: --history lists them, --show prints the
current one, and --restore makes an older one the current one, as a new version.`,
		Example: `  toolyard apply --store postgres://yard@db/yard
  toolyard apply --history --store postgres://yard@db/yard
  toolyard apply --restore 3 --store postgres://yard@db/yard
  toolyard serve --http --store postgres://yard@db/yard   # on every machine`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			restores := c.Flags().Changed("restore")
			if f.show || f.history || restores {
				if len(args) > 0 {
					return exitStatus{exitUsage, errors.New("--show, --history and --restore take no file; name the store with --store")}
				}
				if restores && f.restore < 1 {
					return exitStatus{exitUsage, errors.New("--restore needs the number of a version; toolyard apply --history lists them")}
				}
				return fail(p.applied(c.Context(), f))
			}
			p.opts.ConfigFile = cmp.Or(append(args, p.opts.ConfigFile, config.File)...)
			return fail(p.apply(c.Context()))
		},
	}
	c.Flags().BoolVar(&f.show, "show", false, "print the configuration that is in the store")
	c.Flags().BoolVar(&f.history, "history", false, "list the versions that the store keeps")
	c.Flags().Int64Var(&f.restore, "restore", 0, "put this version into the store again")
	c.MarkFlagsMutuallyExclusive("show", "history", "restore")
	return c
}

// apply puts the configuration file into the store.
func (p *program) apply(ctx context.Context) error {
	text, err := os.ReadFile(p.opts.ConfigFile)
	if err != nil {
		return err
	}
	source, err := p.checkConfig(p.opts.ConfigFile, text)
	if err != nil {
		return err
	}
	address, err := p.sharedStore(source)
	if err != nil {
		return err
	}
	return p.onStore(ctx, address, func(s *store.Store) error {
		applied := change{"config.apply", config.File, map[string]any{"file": p.opts.ConfigFile}}
		return p.putConfig(ctx, s, applied, p.opts.ConfigFile, source, text)
	})
}

// checkConfig finds what is wrong with a configuration, and parses it.
func (p *program) checkConfig(name string, text []byte) (*config.Source, error) {
	opts := p.opts
	opts.ConfigFile = name
	if err := yard.CheckConfig(opts, text); err != nil {
		return nil, err
	}
	return config.Parse(name, text, p.opts.Getenv)
}

// sharedStore is the address of the store that a configuration is put into.
func (p *program) sharedStore(source *config.Source) (string, error) {
	address := p.opts.Store
	if address == "" && source.Store != "" {
		address = source.StoreAddress()
	}
	if address == "" || address == "memory" {
		return "", errors.New("there is no store to put it into; name one with --store, or in the file: store: postgres://user@host/database")
	}
	return address, nil
}

// applied shows or restores what was put into the store.
func (p *program) applied(ctx context.Context, f applyFlags) error {
	source := &config.Source{Config: config.Default()}
	if p.opts.Store == "" {
		var err error
		if source, err = p.source(); err != nil {
			return err
		}
	}
	address, err := p.sharedStore(source)
	if err != nil {
		return err
	}
	return p.onStore(ctx, address, func(s *store.Store) error {
		switch {
		case f.show:
			return p.showConfig(ctx, s)
		case f.history:
			return p.configHistory(ctx, s)
		}
		return p.restoreConfig(ctx, s, f.restore)
	})
}

// storedConfig is the configuration in a store, which must have one.
func (p *program) storedConfig(ctx context.Context, s *store.Store) (text []byte, version int64, err error) {
	text, version, err = s.Document(ctx, config.File)
	if err == nil && version == 0 {
		err = fmt.Errorf("there is no configuration in %s; toolyard apply puts one there", storeName(p.opened))
	}
	return text, version, err
}

func (p *program) showConfig(ctx context.Context, s *store.Store) error {
	text, version, err := p.storedConfig(ctx, s)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.err, "version %d in %s\n", version, untrusted.Printable(storeName(p.opened)))
	if !isTerminal(p.out) {
		_, err = p.out.Write(text)
		return err
	}
	for line := range strings.Lines(string(text)) {
		fmt.Fprintln(p.out, untrusted.Printable(strings.TrimRight(line, "\r\n")))
	}
	return nil
}

func (p *program) configHistory(ctx context.Context, s *store.Store) error {
	_, current, err := p.storedConfig(ctx, s)
	if err != nil {
		return err
	}
	rows, err := s.Versions(ctx, config.File, store.MaxVersions)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.err, "store: %s\n", untrusted.Printable(storeName(p.opened)))
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VERSION\tTIME (UTC)\tBY\tFROM")
	if len(rows) == 0 || rows[0].Version != current { // no version was kept with it
		fmt.Fprintf(w, "%d (current)\tunknown\tunknown\tunknown\n", current)
	}
	for _, row := range rows {
		version := strconv.FormatInt(row.Version, 10)
		if row.Version == current {
			version += " (current)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", version, row.At.Format(time.DateTime), untrusted.Printable(row.By), untrusted.Printable(row.Note))
	}
	return w.Flush()
}

// restoreConfig puts a version into the store again, if it can still be used.
func (p *program) restoreConfig(ctx context.Context, s *store.Store, version int64) error {
	_, text, err := s.VersionOf(ctx, config.File, version)
	if err != nil && toolyard.AsError(err).Code == toolyard.NotFound {
		return fmt.Errorf("the store keeps no version %d of %s; toolyard apply --history lists those that it keeps", version, config.File)
	}
	if err != nil {
		return err
	}
	name := fmt.Sprintf("version %d of %s", version, config.File)
	source, err := p.checkConfig(name, text)
	if err != nil {
		return err
	}
	return p.putConfig(ctx, s, change{"config.restore", config.File, map[string]any{"restored": version}}, name, source, text)
}

// putConfig replaces the configuration in a store and shows what changes. The name says where the
// text is from.
func (p *program) putConfig(ctx context.Context, s *store.Store, c change, name string, source *config.Source, text []byte) error {
	old, version, err := s.Document(ctx, config.File)
	if err != nil {
		return err
	}
	if version > 0 && bytes.Equal(old, text) {
		fmt.Fprintf(p.out, "Nothing changes: version %d in the store is the same.\n", version)
		return nil
	}
	c.detail["version"] = version + 1
	return p.audit(ctx, s, c, func() error {
		next, err := s.SetDocumentAs(ctx, config.File, text, version, systemUser(), name)
		if err != nil {
			return err
		}
		p.showChanges(old, version, source)
		fmt.Fprintf(p.out, "%s is version %d in the store.\n", name, next)
		return nil
	})
}

// maxChanges is how many changes are shown.
const maxChanges = 40

// showChanges shows which keys differ. What they say is not shown: it may be secret.
func (p *program) showChanges(old []byte, version int64, now *config.Source) {
	before := &config.Source{Config: config.Default()}
	if version > 0 {
		var err error
		if before, err = config.Parse(config.File, old, p.opts.Getenv); err != nil {
			fmt.Fprintf(p.out, "Version %d cannot be read here, so what changes is not shown.\n", version)
			return
		}
	}
	changes := differingKeys("", tree(before.Config), tree(now.Config))
	for _, line := range changes[:min(len(changes), maxChanges)] {
		fmt.Fprintf(p.out, "  %s\n", untrusted.Printable(line))
	}
	if more := len(changes) - maxChanges; more > 0 {
		fmt.Fprintf(p.out, "  … and %d more\n", more)
	}
}

// tree is a configuration as JSON has it.
func tree(c *config.Config) (t map[string]any) {
	data, _ := json.Marshal(c)   // it was made from JSON
	_ = json.Unmarshal(data, &t) // and is an object
	return t
}

// differingKeys are the keys that two objects do not both have (+, -) or that say something
// else (~), each with all that leads to it.
func differingKeys(path string, old, now map[string]any) (list []string) {
	all := maps.Clone(old)
	maps.Copy(all, now)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		a, had := old[key]
		b, has := now[key]
		before, wasObject := a.(map[string]any)
		after, isObject := b.(map[string]any)
		switch {
		case !had:
			list = append(list, "+ "+path+key)
		case !has:
			list = append(list, "- "+path+key)
		case wasObject && isObject:
			list = append(list, differingKeys(path+key+".", before, after)...)
		case !reflect.DeepEqual(a, b):
			list = append(list, "~ "+path+key)
		}
	}
	return list
}
