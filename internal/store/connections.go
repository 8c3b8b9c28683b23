package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/trust/serverauth"
)

const connectionColumns = `account, caller, server, state, issuer, scopes, sealed, version, created, changed, used`

func scanConnection(row scanner) (*serverauth.Connection, error) {
	var c serverauth.Connection
	var scopes string
	var used int64
	err := row.Scan(&c.Account, &c.Caller, &c.Server, &c.State, &c.Issuer, &scopes, &c.Sealed, &c.Version, &c.Created, &c.Changed, &used)
	c.Scopes, c.Used = strings.Fields(scopes), fromMicros(used)
	return &c, err
}

// Connection implements [serverauth.Store].
func (s *connectionStore) Connection(ctx context.Context, o serverauth.Owner, server string) (*serverauth.Connection, error) {
	return s.connection(s.db.QueryRowContext(ctx, `SELECT `+connectionColumns+` FROM connections WHERE account = $1 AND caller = $2 AND server = $3`, o.Account, o.Caller, server))
}

// FirstConnection implements [serverauth.Store].
func (s *connectionStore) FirstConnection(ctx context.Context, server string) (*serverauth.Connection, error) {
	return s.connection(s.db.QueryRowContext(ctx, `SELECT `+connectionColumns+` FROM connections WHERE server = $1 AND state = $2
		ORDER BY created, account, caller LIMIT 1`, server, serverauth.Active))
}

func (s *connectionStore) connection(row scanner) (*serverauth.Connection, error) {
	c, err := scanConnection(row)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("store: connection: %w", s.engine.explain(err))
	}
	return c, nil
}

// Connections implements [serverauth.Store].
func (s *connectionStore) Connections(ctx context.Context, o serverauth.Owner) ([]serverauth.Connection, error) {
	return s.connections(ctx, `WHERE account = $1 AND caller = $2 ORDER BY server LIMIT 1000`, o.Account, o.Caller)
}

// ServerConnections implements [serverauth.Store].
func (s *connectionStore) ServerConnections(ctx context.Context, server string, limit int) ([]serverauth.Connection, error) {
	return s.connections(ctx, `WHERE server = $1 ORDER BY created DESC, account, caller LIMIT $2`, server, limit)
}

func (s *connectionStore) connections(ctx context.Context, condition string, args ...any) (list []serverauth.Connection, err error) {
	err = query(ctx, s.db, func(row scanner) error {
		c, err := scanConnection(row)
		list = append(list, *c)
		return err
	}, `SELECT `+connectionColumns+` FROM connections `+condition, args...)
	if err != nil {
		return nil, fmt.Errorf("store: connections: %w", s.engine.explain(err))
	}
	return list, nil
}

// PutConnection implements [serverauth.Store].
func (s *connectionStore) PutConnection(ctx context.Context, c *serverauth.Connection, before int64, lease string) (bool, error) {
	args := []any{c.Account, c.Caller, c.Server, c.State, c.Issuer, strings.Join(c.Scopes, " "), c.Sealed, c.Version, c.Created, c.Changed, micros(c.Used)}
	if before == 0 {
		return s.changed(ctx, `INSERT INTO connections (`+connectionColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING`, args...)
	}
	return s.changed(ctx, `UPDATE connections SET state = $4, issuer = $5, scopes = $6, sealed = $7, version = $8, created = $9, changed = $10, used = $11, lease_by = ''
		WHERE account = $1 AND caller = $2 AND server = $3 AND version = $12 AND (lease_by = $13 OR $13 = '')`, append(args, before, lease)...)
}

// changed executes a statement and reports whether it changed a row.
func (s *connectionStore) changed(ctx context.Context, statement string, args ...any) (bool, error) {
	done, err := s.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, fmt.Errorf("store: connection: %w", s.engine.explain(err))
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

// LeaseConnection implements [serverauth.Store]. It uses the database's clock, so it is the same
// for all replicas.
func (s *connectionStore) LeaseConnection(ctx context.Context, c *serverauth.Connection, holder string, lasts time.Duration) (bool, error) {
	now, err := s.engine.clock(ctx)
	if err != nil {
		return false, err
	}
	return s.changed(ctx, `UPDATE connections SET lease_by = $5, lease_until = $6
		WHERE account = $1 AND caller = $2 AND server = $3 AND version = $4 AND (lease_by = '' OR lease_by = $5 OR lease_until < $7)`,
		c.Account, c.Caller, c.Server, c.Version, holder, now.Add(lasts), now)
}

// ReleaseConnection implements [serverauth.Store].
func (s *connectionStore) ReleaseConnection(ctx context.Context, c *serverauth.Connection, holder string) error {
	_, err := s.changed(ctx, `UPDATE connections SET lease_by = '' WHERE account = $1 AND caller = $2 AND server = $3 AND lease_by = $4`,
		c.Account, c.Caller, c.Server, holder)
	return err
}

// MarkStale implements [serverauth.Store].
func (s *connectionStore) MarkStale(ctx context.Context, c *serverauth.Connection) error {
	_, err := s.changed(ctx, `UPDATE connections SET state = $5, lease_by = '' WHERE account = $1 AND caller = $2 AND server = $3 AND version = $4`,
		c.Account, c.Caller, c.Server, c.Version, serverauth.Stale)
	return err
}

// UseConnection implements [serverauth.Store].
func (s *connectionStore) UseConnection(ctx context.Context, c *serverauth.Connection, at time.Time) error {
	_, err := s.changed(ctx, `UPDATE connections SET used = $5 WHERE account = $1 AND caller = $2 AND server = $3 AND used = $4`,
		c.Account, c.Caller, c.Server, micros(c.Used), micros(at))
	return err
}

// DeleteConnection implements [serverauth.Store].
func (s *connectionStore) DeleteConnection(ctx context.Context, o serverauth.Owner, server string) (bool, error) {
	return s.changed(ctx, `DELETE FROM connections WHERE account = $1 AND caller = $2 AND server = $3`, o.Account, o.Caller, server)
}

// PutFlow implements [serverauth.Store]. It deletes expired flows.
func (s *connectionStore) PutFlow(ctx context.Context, id, sealed string, now, expires time.Time) error {
	if _, err := s.changed(ctx, `DELETE FROM connection_flows WHERE expires < $1`, now); err != nil {
		return err
	}
	_, err := s.changed(ctx, `INSERT INTO connection_flows (id, sealed, expires) VALUES ($1, $2, $3)`, id, sealed, expires)
	return err
}

// TakeFlow implements [serverauth.Store].
func (s *connectionStore) TakeFlow(ctx context.Context, id string) (sealed string, err error) {
	err = s.db.QueryRowContext(ctx, `DELETE FROM connection_flows WHERE id = $1 RETURNING sealed`, id).Scan(&sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("store: sign-in: %w", s.engine.explain(err))
	}
	return sealed, nil
}

// RegisteredClient implements [serverauth.Store].
func (s *connectionStore) RegisteredClient(ctx context.Context, issuer, redirect string) (sealed string, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT sealed FROM connection_clients WHERE issuer = $1 AND redirect = $2`, issuer, redirect).Scan(&sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("store: registered client: %w", s.engine.explain(err))
	}
	return sealed, nil
}

// PutRegisteredClient implements [serverauth.Store].
func (s *connectionStore) PutRegisteredClient(ctx context.Context, issuer, redirect, sealed string) error {
	_, err := s.changed(ctx, `INSERT INTO connection_clients (issuer, redirect, sealed) VALUES ($1, $2, $3)
		ON CONFLICT (issuer, redirect) DO UPDATE SET sealed = excluded.sealed`, issuer, redirect, sealed)
	return err
}
