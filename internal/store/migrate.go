package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*/*.sql
var migrations embed.FS

// versionTable records the applied migrations.
const versionTable = "toolyard_migrations"

// migrationWait is how often a replica tries to acquire the migration lock, once per second.
// Replicas that start at the same time migrate one after another.
const migrationWait = 120

func migratePostgres(ctx context.Context, db *sql.DB) error {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, migrationWait))
	if err != nil {
		return err
	}
	return migrate(ctx, goose.DialectPostgres, db, "postgres", goose.WithSessionLocker(locker))
}

// migrateSQLite retries, because SQLite has no lock that outlives a transaction. If two processes
// apply the same migration, one fails and finds it already applied when it retries.
func migrateSQLite(ctx context.Context, db *sql.DB) error {
	return retry(ctx, func() (bool, error) {
		err := migrate(ctx, goose.DialectSQLite3, db, "sqlite")
		return err != nil, err
	})
}

func migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, folder string, options ...goose.ProviderOption) error {
	files, err := fs.Sub(migrations, "migrations/"+folder)
	if err != nil {
		return err
	}
	options = append(options, goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	provider, err := goose.NewProvider(dialect, db, files, options...)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return nil
}
