package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// MaxMessage is the maximum size of a message between replicas, in bytes.
const MaxMessage = 128 << 10

// maxNotification is the maximum size of a message in a PostgreSQL notification, which may have at
// most 8000 bytes including the replica's name.
const maxNotification = 7800

// keepMessages is how long a message is stored for a replica.
const keepMessages = time.Minute

// messageChannel carries messages between replicas. The first line is the receiver's name, or empty
// for all. It is followed by the message, or by # and the ID of its row.
const messageChannel = "toolyard_messages"

// Send sends a message to a replica, or to all replicas if to is empty. Replicas that are not
// listening miss it. If the store is used by a single process, Send does nothing.
func (s *messageStore) Send(ctx context.Context, to string, message []byte) error {
	limit := MaxMessage
	if to == "" {
		limit = maxNotification // no single replica would delete its row
	}
	if len(message) > limit || len(to) > 100 || strings.ContainsAny(to, "\n\x00") {
		return fmt.Errorf("store: a message must be at most %d bytes, and a replica name at most 100 bytes", limit)
	}
	return s.engine.send(ctx, to, string(message))
}

func (*lite) send(context.Context, string, string) error { return nil }

func (p *postgres) send(ctx context.Context, to, message string) error {
	text, args := `SELECT pg_notify('`+messageChannel+`', $1 || chr(10) || $2)`, []any{to, message}
	if len(message) > maxNotification {
		text = `WITH missed AS (DELETE FROM messages WHERE at < now() - interval '1 minute'),
			kept AS (INSERT INTO messages (body) VALUES ($2) RETURNING id)
			SELECT pg_notify('` + messageChannel + `', $1 || chr(10) || '#' || id) FROM kept`
	}
	_, err := p.pool.Exec(ctx, text, args...)
	return pgError(err)
}

// receive returns a notification's message if it is for this replica.
func (p *postgres) receive(ctx context.Context, conn *pgx.Conn, replica, payload string) ([]byte, error) {
	to, message, _ := strings.Cut(payload, "\n")
	if to != "" && to != replica {
		return nil, nil
	}
	row, large := strings.CutPrefix(message, "#")
	if !large {
		return []byte(message), nil
	}
	id, err := strconv.ParseInt(row, 10, 64)
	if err != nil || to == "" {
		return nil, nil // invalid message
	}
	var body string
	err = conn.QueryRow(ctx, `DELETE FROM messages WHERE id = $1 RETURNING body`, id).Scan(&body)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return []byte(body), err
}

// Ended MCP sessions are stored as consumed tokens.
const (
	sessionPrefix = "mcp session "
	sessionOwner  = "mcp session of "
)

// maxEndedSessions is the maximum number of ended MCP sessions stored per caller. The oldest are
// deleted, which is harmless because only the caller could use them.
const maxEndedSessions = 1000

// EndSession stores that an MCP session has ended, until it expires.
func (s *messageStore) EndSession(ctx context.Context, id, owner string, expires time.Time) error {
	if _, _, err := s.Consume(ctx, sessionPrefix+id, sessionOwner+owner, expires); err != nil {
		return err
	}
	_, err := s.db.ExecContext(ctx, `DELETE FROM consumed WHERE id IN
		(SELECT id FROM consumed WHERE owner = $1 ORDER BY until DESC, id LIMIT 100 OFFSET $2)`, sessionOwner+owner, maxEndedSessions)
	return s.engine.explain(err)
}

// EndedSessions returns up to limit MCP sessions that have ended but not expired.
func (s *messageStore) EndedSessions(ctx context.Context, limit int) ([]string, error) {
	now, err := s.engine.clock(ctx)
	if err != nil {
		return nil, err
	}
	return collect(ctx, s.database, limit, func(row scanner) (id string, err error) {
		err = row.Scan(&id)
		return strings.TrimPrefix(id, sessionPrefix), err
	}, `SELECT id FROM consumed WHERE id >= $1 AND id < $2 AND until > $3 ORDER BY id LIMIT $4`, []any{sessionPrefix, sessionPrefix + "~", now, limit})
}
