package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/store"
)

func newStoreCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "store", Short: "Back up and restore the store", Args: cobra.NoArgs, RunE: requireSubcommand}
	cmd.AddCommand(newBackupCommand(a), newRestoreCommand(a))
	return cmd
}

func newBackupCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all data in the store to a file, even while servers are running",
		Long: `Write a consistent snapshot of all data in the store to a new file. Servers can keep running.

The file can be restored into SQLite and PostgreSQL. It contains everything that the database
contains, such as recorded arguments, so protect it the same way.`,
		Example: `  toolyard store backup toolyard-2026-11-16.backup
  toolyard store backup yard.backup --store postgres://yard@db/yard`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeStore(cmd.Context(), change{action: "store.backup", subject: args[0]}, func(s *openStore) error {
				return a.backUp(cmd.Context(), s, args[0])
			})
		},
	}
}

// backUp writes a backup. It writes to a temporary file first, so that a file with the final name
// is always a complete backup.
func (a *app) backUp(ctx context.Context, s *openStore, name string) (err error) {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s already exists; choose another name", name)
	}
	partial := name + ".partial"
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the file
	if err != nil {
		return err
	}
	rows, err := s.Backup(ctx, f, a.opts.Process.Version)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(partial, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	a.printf("%s: %s, %d bytes", name, plural(int(rows), "row"), info.Size())
	return nil
}

func newRestoreCommand(a *app) *cobra.Command {
	var replace, check bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Replace the data in the store with a backup",
		Long: `Restore a backup. If an error occurs, nothing is changed. First stop all servers that use the
store; otherwise, they continue with the old balances and limits.

The backup must have the same schema version as this program. Restore an older backup with the version of
Toolyard that created it, then upgrade.`,
		Example: `  toolyard store restore yard.backup --store postgres://yard@db/yard
  toolyard store restore yard.backup --check      # only verify the file`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return fail(err)
			}
			defer f.Close() //nolint:errcheck // only read
			if check {
				header, err := store.CheckBackup(f)
				if err != nil {
					return fail(fmt.Errorf("%s: %w", args[0], err))
				}
				a.printf("%s: complete; created at %s by Toolyard %s from %s", args[0], header.At.Format("2006-01-02 15:04:05 MST"), header.Version, header.Kind)
				return nil
			}
			return a.withStore(cmd.Context(), func(s *openStore) error { return a.restore(cmd.Context(), s, f, args[0], replace) })
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "delete the existing data in the store")
	cmd.Flags().BoolVar(&check, "check", false, "verify the file without changing anything")
	return cmd
}

// restore restores a backup and records this in the restored audit log.
func (a *app) restore(ctx context.Context, s *openStore, f *os.File, name string, replace bool) error {
	rows, err := s.Restore(ctx, f, replace)
	if errors.Is(err, store.ErrNotEmpty) {
		return fmt.Errorf("%w; use an empty database, or --replace to delete its data", err)
	}
	if err != nil {
		return err
	}
	return a.audit(ctx, s, change{action: "store.restore", subject: name, detail: map[string]any{"rows": rows}}, func() error {
		if err := s.Audit(ctx); err != nil {
			return err
		}
		a.printf("%s: %s restored; the ledger balances", name, plural(int(rows), "row"))
		return nil
	})
}
