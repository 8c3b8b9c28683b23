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

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/guard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/yard"
)

func (p *program) applyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "apply [FILE]",
		Short: "Put a configuration into the store, for all replicas that take theirs from there",
		Long: `Check a configuration (toolyard.yaml if no file is named) and put it into the store that
it names, or that --store does. Replicas that were started with --store and without a file
take it over at once. Variables are filled in by each replica from its own environment, and
paths are relative to where it runs.`,
		Example: `  toolyard apply --store postgres://yard@db/yard
  toolyard serve --http --store postgres://yard@db/yard   # on every machine`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p.opts.ConfigFile = cmp.Or(append(args, p.opts.ConfigFile, config.File)...)
			return fail(p.apply(c.Context()))
		},
	}
}

// apply puts the configuration file into the store.
func (p *program) apply(ctx context.Context) error {
	text, err := os.ReadFile(p.opts.ConfigFile)
	if err != nil {
		return err
	}
	if err := yard.CheckConfig(p.opts); err != nil {
		return err
	}
	source, err := config.Parse(p.opts.ConfigFile, text, p.opts.Getenv)
	if err != nil {
		return err
	}
	address := p.opts.Store
	if address == "" && source.Store != "" {
		address = source.StoreAddress()
	}
	if address == "" || address == "memory" {
		return errors.New("there is no store to put it into; name one with --store, or in the file: store: postgres://user@host/database")
	}
	s, err := store.Open(ctx, address)
	if err != nil {
		return err
	}
	return errors.Join(p.putConfig(ctx, s, source, text), s.Close())
}

// putConfig replaces the configuration in a store and shows what changes.
func (p *program) putConfig(ctx context.Context, s *store.Store, source *config.Source, text []byte) error {
	old, version, err := s.Document(ctx, config.File)
	if err != nil {
		return err
	}
	if version > 0 && bytes.Equal(old, text) {
		fmt.Fprintf(p.out, "Nothing changes: version %d in the store is the same.\n", version)
		return nil
	}
	next, err := s.SetDocument(ctx, config.File, text, version)
	if err != nil {
		return err
	}
	p.showChanges(old, version, source)
	fmt.Fprintf(p.out, "%s is version %d in the store.\n", p.opts.ConfigFile, next)
	return nil
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
		fmt.Fprintf(p.out, "  %s\n", guard.Printable(line))
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
