package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/backoff"
)

// MaxDocument is the maximum size of a document, in bytes.
const MaxDocument = 8 << 20

// maxDocumentName is the maximum size of a name. It fits in a PostgreSQL notification.
const maxDocumentName = 255

// Document returns a small text that replicas share, and its version. Each change increases the
// version by one. If the document does not exist, the text is nil and the version is zero.
func (s *documentStore) Document(ctx context.Context, name string) (body []byte, version int64, err error) {
	return s.engine.document(ctx, name)
}

// SetDocument replaces the document if version is current, and returns the new version. Version
// zero creates the document. The error is VersionConflict if the document has another version.
func (s *documentStore) SetDocument(ctx context.Context, name string, body []byte, version int64) (next int64, err error) {
	return s.replace(ctx, name, body, version, nil)
}

// replace replaces a document. If kept is not nil, it also stores the new version in the history.
func (s *documentStore) replace(ctx context.Context, name string, body []byte, version int64, kept *VersionRow) (next int64, err error) {
	if name == "" || len(name) > maxDocumentName {
		return 0, fmt.Errorf("store: a document name must be 1 to %d bytes", maxDocumentName)
	}
	if len(body) > MaxDocument {
		return 0, toolyard.Errorf(toolyard.ArgsTooLarge, "%s exceeds %d MiB.", name, MaxDocument>>20)
	}
	if body == nil {
		body = []byte{}
	}
	done, err := s.engine.setDocument(ctx, name, body, version, kept)
	if err != nil {
		return 0, err
	}
	if !done {
		return 0, toolyard.Errorf(toolyard.VersionConflict, "%s changed since you read it. Reload and try again.", name)
	}
	return version + 1, nil
}

// Watch calls changed with the name of each document, and then again whenever a document has a new
// version, until ctx ends. It returns ctx's error. If several changes occur in quick succession, it
// may report only the last one. While the store is unavailable, it waits, and then reports the
// documents that changed. All calls to changed are made from one goroutine.
func (s *documentStore) Watch(ctx context.Context, changed func(name string)) error {
	return s.Follow(ctx, "", changed, func([]byte) {})
}

// Follow is like Watch, but also calls heard with each message to the replica or to all replicas.
func (s *documentStore) Follow(ctx context.Context, replica string, changed func(name string), heard func(message []byte)) error {
	known := map[string]int64{}
	s.engine.follow(ctx, follower{replica: replica, heard: heard, seen: func(versions map[string]int64) {
		for _, name := range slices.Sorted(maps.Keys(versions)) {
			if versions[name] != known[name] && ctx.Err() == nil {
				known[name] = versions[name]
				changed(name)
			}
		}
	}})
	return ctx.Err()
}

// follower receives other replicas' changes and messages.
type follower struct {
	replica string
	seen    func(versions map[string]int64) // called with the versions of all documents
	heard   func(message []byte)
}

// pollPause returns the polling interval if there are no notifications. It is randomized, so that
// replicas don't all poll at the same time.
func pollPause() time.Duration {
	return 300*time.Millisecond + backoff.Jitter(200*time.Millisecond)
}

// rest waits, or returns when ctx ends.
func rest(ctx context.Context, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
}

const (
	insertDocument = `INSERT INTO documents (name, version, body) VALUES ($1, CAST($3 AS bigint) + 1, $2) ON CONFLICT DO NOTHING`
	updateDocument = `UPDATE documents SET version = version + 1, body = $2 WHERE name = $1 AND version = $3`
	readDocument   = `SELECT body, version FROM documents WHERE name = $1`
	readVersions   = `SELECT name, version FROM documents`
)

// writeDocument returns the statement that creates or replaces a document.
func writeDocument(version int64) string {
	if version == 0 {
		return insertDocument
	}
	return updateDocument
}

func documentOf(ctx context.Context, db *sql.DB, name string) (body []byte, version int64, err error) {
	err = db.QueryRowContext(ctx, readDocument, name).Scan(&body, &version)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, 0, nil
	}
	return body, version, err
}

// setDocument executes a statement. If kept is not nil, it also stores the new version in the
// history, in the same transaction.
func setDocument(ctx context.Context, db *sql.DB, text, name string, body []byte, version int64, kept *VersionRow) (done bool, err error) {
	if kept == nil {
		return affected(db.ExecContext(ctx, text, name, body, version))
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() //nolint:errcheck // no effect after the commit
	if done, err = affected(tx.ExecContext(ctx, text, name, body, version)); err != nil || !done {
		return false, err
	}
	if err := keepVersion(ctx, tx, name, body, kept); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

func affected(done sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n == 1, err
}

func scanVersion(row scanner) (name string, version int64, err error) {
	err = row.Scan(&name, &version)
	return name, version, err
}

func (l *lite) document(ctx context.Context, name string) (body []byte, version int64, err error) {
	body, version, err = documentOf(ctx, l.db, name)
	return body, version, liteError(err)
}

func (l *lite) setDocument(ctx context.Context, name string, body []byte, version int64, kept *VersionRow) (done bool, err error) {
	done, err = setDocument(ctx, l.db, writeDocument(version), name, body, version, kept)
	return done, liteError(err)
}

// follow polls, because other processes may write to the file and cannot send notifications.
func (l *lite) follow(ctx context.Context, f follower) {
	for ; ctx.Err() == nil; rest(ctx, pollPause()) {
		if versions, err := l.versions(ctx); err == nil {
			f.seen(versions)
		}
	}
}

func (l *lite) versions(ctx context.Context) (map[string]int64, error) {
	found, err := l.db.QueryContext(ctx, readVersions)
	if err != nil {
		return nil, err
	}
	defer found.Close() //nolint:errcheck // collectRows reports errors
	versions := map[string]int64{}
	return versions, collectRows(found, versions, scanVersion)
}

// documentChannel carries the names of changed documents.
const documentChannel = "toolyard_documents"

func (p *postgres) document(ctx context.Context, name string) (body []byte, version int64, err error) {
	err = retry(ctx, func() (again bool, err error) {
		body, version, err = documentOf(ctx, p.db, name)
		return pgBroken(err), err
	})
	return body, version, pgError(err)
}

// setDocument writes and notifies in one statement, so that either both happen or neither does.
func (p *postgres) setDocument(ctx context.Context, name string, body []byte, version int64, kept *VersionRow) (done bool, err error) {
	done, err = setDocument(ctx, p.db, `WITH written AS (`+writeDocument(version)+` RETURNING name)
		SELECT pg_notify('`+documentChannel+`', name) FROM written`, name, body, version, kept)
	return done, pgError(err)
}

// Minimum and maximum delay before a broken connection is replaced.
const (
	firstReconnect = 20 * time.Millisecond
	lastReconnect  = 500 * time.Millisecond
)

// follow listens on its own connection, and replaces the connection if it breaks.
func (p *postgres) follow(ctx context.Context, f follower) {
	pause := firstReconnect
	for ctx.Err() == nil {
		listened, _ := p.listen(ctx, f) // all errors are retried
		if pause = min(2*pause, lastReconnect); listened {
			pause = firstReconnect
		}
		backoff.Sleep(ctx, pause)
	}
}

// listen listens until the connection breaks, and reports whether it was established. It starts
// listening before it reads, so that no change is missed.
func (p *postgres) listen(ctx context.Context, f follower) (listened bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, p.pool.Config().ConnConfig)
	if err != nil {
		return false, err
	}
	defer hangUp(ctx, conn)
	if _, err := conn.Exec(ctx, `LISTEN `+documentChannel+`; LISTEN `+messageChannel); err != nil {
		return false, err
	}
	for {
		versions, err := pgVersions(ctx, conn)
		if err != nil {
			return listened, err
		}
		listened = true
		f.seen(versions)
		if err := p.awaitNews(ctx, conn, f); err != nil {
			return listened, err
		}
	}
}

// hangUp closes a connection and waits up to a second.
func hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
	select {
	case <-conn.PgConn().CleanupDone():
	case <-ctx.Done():
	}
}

// pgVersions reads the versions of all documents. If the server does not respond in time, the
// connection counts as lost.
func pgVersions(ctx context.Context, conn *pgx.Conn) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	found, err := conn.Query(ctx, readVersions)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	versions := map[string]int64{}
	return versions, collectRows(found, versions, scanVersion)
}

// awaitNews waits for a change or the next poll, and passes on messages. It returns an error if the
// connection is lost.
func (p *postgres) awaitNews(ctx context.Context, conn *pgx.Conn, f follower) error {
	wait, cancel := context.WithTimeout(ctx, pollPause())
	defer cancel()
	for {
		news, err := conn.WaitForNotification(wait)
		switch {
		case err != nil && (conn.IsClosed() || ctx.Err() != nil):
			return err
		case err != nil || news.Channel == documentChannel:
			return nil
		}
		message, err := p.receive(ctx, conn, f.replica, news.Payload)
		if err != nil {
			return err
		}
		if message != nil {
			f.heard(message)
		}
	}
}
