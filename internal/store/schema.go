package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// storedTable is a table as described by the database.
type storedTable struct {
	name    string
	columns []storedColumn
	refers  bool // refers to rows in other tables
}

type storedColumn struct {
	name string
	kind kind // kind of values that are not null
}

// Data that is not part of a backup: the schema version, which the program sets; messages between
// running replicas; and a column that is only used within one statement.
var (
	transientTables  = []string{versionTable, "messages"}
	transientColumns = []string{"calls.was"}
)

// pgKinds and liteKinds map declared types to kinds.
var (
	pgKinds   = map[string]kind{"text": text, "bigint": number, "timestamp with time zone": moment, "bytea": blob}
	liteKinds = map[string]kind{"TEXT": text, "INTEGER": number, "TIMESTAMP": moment, "BLOB": blob}
)

const (
	pgSchema = `SELECT c.relname, a.attname, format_type(a.atttypid, NULL), EXISTS (SELECT 1 FROM pg_constraint WHERE conrelid = c.oid AND contype = 'f')
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
		ORDER BY c.relname COLLATE "C", a.attname COLLATE "C"`
	liteSchema = `SELECT t.name, c.name, upper(c.type), EXISTS (SELECT 1 FROM pragma_foreign_key_list(t.name))
		FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY t.name, c.name`
)

// schema returns the tables in a backup and their columns, sorted by name. Tables that refer to
// others come last.
func (s *Store) schema(ctx context.Context, db querier) (tables []*storedTable, err error) {
	text, kinds := liteSchema, liteKinds
	if s.kind == "postgres" {
		text, kinds = pgSchema, pgKinds
	}
	err = query(ctx, db, func(r scanner) error {
		var table, column, declared string
		var refers bool
		if err := r.Scan(&table, &column, &declared, &refers); err != nil {
			return err
		}
		if slices.Contains(transientTables, table) || slices.Contains(transientColumns, table+"."+column) {
			return nil
		}
		k, ok := kinds[declared]
		if !ok {
			return fmt.Errorf("column %s.%s has type %s, which backups do not support", table, column, declared)
		}
		if len(tables) == 0 || tables[len(tables)-1].name != table {
			tables = append(tables, &storedTable{name: table, refers: refers})
		}
		last := tables[len(tables)-1]
		last.columns = append(last.columns, storedColumn{column, k})
		return nil
	}, text)
	slices.SortStableFunc(tables, func(a, b *storedTable) int {
		return cmp.Compare(btoi(a.refers), btoi(b.refers))
	})
	return tables, err
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// schemaVersion returns the number of the latest migration.
func schemaVersion(ctx context.Context, db querier) (version int64, err error) {
	err = query(ctx, db, func(r scanner) error { return r.Scan(&version) }, `SELECT coalesce(max(version_id), 0) FROM `+versionTable)
	return version, err
}

// beginning stands for a time before all others, which PostgreSQL stores as -infinity.
const beginning = -62135596800000000 // start of the year 1, in microseconds since 1970

// values returns SQL expressions that convert the columns to portable values: strings, integers,
// bytes, and times in microseconds.
func (t *storedTable) values(postgres bool) string {
	list := make([]string, len(t.columns))
	for i, c := range t.columns {
		name := quoted(c.name)
		switch {
		case c.kind == moment && postgres:
			list[i] = fmt.Sprintf(`CASE WHEN isfinite(%[1]s) THEN (extract(epoch FROM %[1]s) * 1000000)::bigint WHEN %[1]s IS NOT NULL THEN %[2]d END`, name, beginning)
		case c.kind == moment:
			list[i] = fmt.Sprintf(`CASE typeof(%[1]s) WHEN 'integer' THEN %[1]s WHEN 'null' THEN NULL ELSE %[2]d END`, name, beginning)
		case c.kind == text && !postgres:
			list[i] = `CAST(` + name + ` AS TEXT)`
		case c.kind == blob && !postgres:
			list[i] = `CAST(` + name + ` AS BLOB)`
		default:
			list[i] = name
		}
	}
	return strings.Join(list, ", ")
}

// names returns the names of the columns.
func (t *storedTable) names() []string {
	list := make([]string, len(t.columns))
	for i, c := range t.columns {
		list[i] = c.name
	}
	return list
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
