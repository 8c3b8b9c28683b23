package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// applyCommand stores a configuration, and shows and restores stored versions.
type applyCommand struct {
	*app
	show, history bool
	restore       int64 // zero if no version is restored
}

func newApplyCommand(a *app) *cobra.Command {
	c := &applyCommand{app: a}
	cmd := &cobra.Command{
		Use:   "apply [FILE]",
		Short: "Save a configuration to the store, for all replicas that read it from the store",
		Long: `Check a configuration (toolyard.yaml by default) and write it to the store that it configures,
or to --store. Replicas that run with --store and no file apply it immediately.
Each replica substitutes variables from its own environment; paths are relative to its working
directory.

The store keeps every applied version: --history lists them, --show prints the current one, and
--restore applies an earlier one again as a new version.`,
		Example: `  toolyard apply --store postgres://yard@db/yard
  toolyard apply --history --store postgres://yard@db/yard
  toolyard apply --restore 3 --store postgres://yard@db/yard
  toolyard serve --http --store postgres://yard@db/yard   # on every machine`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			restores := cmd.Flags().Changed("restore")
			if c.show || c.history || restores {
				if len(args) > 0 {
					return usageError(errors.New("--show, --history and --restore do not take a file; specify the store with --store"))
				}
				if restores && c.restore < 1 {
					return usageError(errors.New("--restore requires a version number; \"toolyard apply --history\" lists them"))
				}
				return fail(c.runStored(cmd.Context()))
			}
			a.opts.ConfigFile = cmp.Or(append(args, a.opts.ConfigFile, config.File)...)
			return fail(c.run(cmd.Context()))
		},
	}
	cmd.Flags().BoolVar(&c.show, "show", false, "print the stored configuration")
	cmd.Flags().BoolVar(&c.history, "history", false, "list the stored versions")
	cmd.Flags().Int64Var(&c.restore, "restore", 0, "apply this version again")
	cmd.MarkFlagsMutuallyExclusive("show", "history", "restore")
	return cmd
}

// run writes the configuration file to the store.
func (c *applyCommand) run(ctx context.Context) error {
	text, err := os.ReadFile(c.opts.ConfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist; specify a different file with \"toolyard apply FILE\"", c.opts.ConfigFile)
	}
	if err != nil {
		return err
	}
	source, err := c.checkConfig(c.opts.ConfigFile, text)
	if err != nil {
		return err
	}
	address, err := c.sharedStore(source)
	if err != nil {
		return err
	}
	return withStoreAt(ctx, address, func(s *openStore) error {
		applied := change{"config.apply", config.File, map[string]any{"file": c.opts.ConfigFile}}
		return c.put(ctx, s, applied, c.opts.ConfigFile, source, text)
	})
}

// runStored shows or restores stored versions.
func (c *applyCommand) runStored(ctx context.Context) error {
	source := &config.Source{Config: config.Default()}
	if c.opts.Store == "" {
		var err error
		if source, err = c.loadConfig(); err != nil {
			return err
		}
	}
	address, err := c.sharedStore(source)
	if err != nil {
		return err
	}
	return withStoreAt(ctx, address, func(s *openStore) error {
		switch {
		case c.show:
			return c.printCurrent(ctx, s)
		case c.history:
			return c.printHistory(ctx, s)
		}
		return c.restoreVersion(ctx, s)
	})
}

// checkConfig validates and parses a configuration.
func (c *applyCommand) checkConfig(name string, text []byte) (*config.Source, error) {
	opts := c.opts
	opts.ConfigFile = name
	if err := yard.CheckConfig(opts, text); err != nil {
		return nil, err
	}
	return config.Parse(name, text, c.opts.Process.Getenv)
}

// sharedStore returns the address of the store that a configuration is written to.
func (c *applyCommand) sharedStore(source *config.Source) (string, error) {
	address := c.opts.Store
	if address == "" && source.Store != "" {
		address = source.StoreAddress()
	}
	if address == "" || address == "memory" {
		return "", errors.New("no store is configured; use --store, or add this to the file: store: postgres://user@host/database")
	}
	return address, nil
}

// currentConfig returns the stored configuration. It fails if there is none.
func currentConfig(ctx context.Context, s *openStore) (text []byte, version int64, err error) {
	text, version, err = s.Document(ctx, config.File)
	if err == nil && version == 0 {
		err = fmt.Errorf("%s contains no configuration; run \"toolyard apply\" to store one", s.name())
	}
	return text, version, err
}

func (c *applyCommand) printCurrent(ctx context.Context, s *openStore) error {
	text, version, err := currentConfig(ctx, s)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.err, "version %d in %s\n", version, s.name())
	if !isTerminal(c.out) {
		_, err = c.out.Write(text)
		return err
	}
	for line := range strings.Lines(string(text)) {
		fmt.Fprintln(c.out, untrusted.Printable(strings.TrimRight(line, "\r\n")))
	}
	return nil
}

func (c *applyCommand) printHistory(ctx context.Context, s *openStore) error {
	_, current, err := currentConfig(ctx, s)
	if err != nil {
		return err
	}
	rows, err := s.Versions(ctx, config.File, store.MaxVersions)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.err, "store: %s\n", s.name())
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VERSION\tTIME (UTC)\tBY\tFROM")
	if len(rows) == 0 || rows[0].Version != current { // the version has no history entry
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

// restoreVersion applies a stored version again, if it is still valid.
func (c *applyCommand) restoreVersion(ctx context.Context, s *openStore) error {
	_, text, err := s.VersionOf(ctx, config.File, c.restore)
	if err != nil && toolyard.AsError(err).Code == toolyard.NotFound {
		return fmt.Errorf("version %d of %s is not in the store; \"toolyard apply --history\" lists the versions", c.restore, config.File)
	}
	if err != nil {
		return err
	}
	name := fmt.Sprintf("version %d of %s", c.restore, config.File)
	source, err := c.checkConfig(name, text)
	if err != nil {
		return err
	}
	return c.put(ctx, s, change{"config.restore", config.File, map[string]any{"restored": c.restore}}, name, source, text)
}

// put replaces the stored configuration and prints the changed keys. name describes where the text
// comes from.
func (c *applyCommand) put(ctx context.Context, s *openStore, applied change, name string, source *config.Source, text []byte) error {
	old, version, err := s.Document(ctx, config.File)
	if err != nil {
		return err
	}
	if version > 0 && bytes.Equal(old, text) {
		fmt.Fprintf(c.out, "No changes: %s is identical to version %d in the store.\n", name, version)
		return nil
	}
	applied.detail["version"] = version + 1
	return c.audit(ctx, s, applied, func() error {
		next, err := s.SetDocumentAs(ctx, config.File, text, version, systemUser(), name)
		if err != nil {
			return err
		}
		c.printChanges(old, version, source)
		fmt.Fprintf(c.out, "Stored %s as version %d.\n", name, next)
		return nil
	})
}

// maxChanges is the maximum number of changed keys to print.
const maxChanges = 40

// printChanges prints the keys that differ. It omits the values, which may be secret.
func (c *applyCommand) printChanges(old []byte, version int64, now *config.Source) {
	before := &config.Source{Config: config.Default()}
	if version > 0 {
		var err error
		if before, err = config.Parse(config.File, old, c.opts.Process.Getenv); err != nil {
			fmt.Fprintf(c.out, "The changes are not shown: version %d cannot be parsed.\n", version)
			return
		}
	}
	changes := diffKeys("", configTree(before.Config), configTree(now.Config))
	for _, line := range changes[:min(len(changes), maxChanges)] {
		fmt.Fprintf(c.out, "  %s\n", untrusted.Printable(line))
	}
	if more := len(changes) - maxChanges; more > 0 {
		fmt.Fprintf(c.out, "  … and %d more\n", more)
	}
}

// configTree converts a configuration to JSON objects.
func configTree(c *config.Config) (t map[string]any) {
	data, _ := json.Marshal(c)   // cannot fail: it was decoded from JSON
	_ = json.Unmarshal(data, &t) // cannot fail: it is an object
	return t
}

// diffKeys lists the paths of keys that were added (+), removed (-) or changed (~).
func diffKeys(path string, old, now map[string]any) (list []string) {
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
			list = append(list, diffKeys(path+key+".", before, after)...)
		case !reflect.DeepEqual(a, b):
			list = append(list, "~ "+path+key)
		}
	}
	return list
}
