package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
)

// QueryRow is a stored agent query.
type QueryRow struct {
	ID, Agent, Account, Caller string
	At                         time.Time
	Outcome                    string
	Model, Tools               toolyard.Money
	Body                       json.RawMessage   // all other fields
	Evidence                   map[string]string // full texts by ID; only used for writing
}

// QueryFilter selects queries. Empty fields don't restrict the selection.
type QueryFilter struct {
	Agent, Account, Caller, Outcome string

	Before Cursor // only queries after this position; zero for the first page
	Limit  int    // MaxCalls if zero or greater
}

// JobState is the state of a job.
type JobState string

// The states of a job.
const (
	JobRunning   JobState = "running"
	JobCompleted JobState = "completed"
	JobFailed    JobState = "failed"
)

// QueryJob is a query that runs in the background.
type QueryJob struct {
	ID, Account, Caller string
	Key                 string // idempotency key, unique per caller
	Digest              string // digest of the request
	At, Until           time.Time
	Ended               time.Time // zero while running
	State               JobState
	Body                json.RawMessage // the result or the error; nil while running
}

const queryColumns = "id, at, agent, account, caller, outcome, model, tools, body"

// QueryRunning is the outcome of a query that is still running. All other outcomes are final.
const QueryRunning = "running"

// SaveQuery stores a query and its evidence. If the stored query is still running, it is replaced.
func (s *queryStore) SaveQuery(ctx context.Context, q *QueryRow) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("store: query %s: %w", q.ID, s.engine.explain(err))
	}
	defer tx.Rollback() //nolint:errcheck // no effect after the commit
	_, err = tx.ExecContext(ctx, `INSERT INTO queries (`+queryColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO UPDATE
		SET outcome = excluded.outcome, model = excluded.model, tools = excluded.tools, body = excluded.body WHERE queries.outcome = '`+QueryRunning+`' AND queries.account = excluded.account`,
		clean(q.ID), q.At.UTC(), clean(q.Agent), clean(q.Account), clean(q.Caller), q.Outcome, int64(q.Model), int64(q.Tools), clean(string(q.Body)))
	if err == nil && len(q.Evidence) > 0 {
		text, args := insertEvidence(q)
		_, err = tx.ExecContext(ctx, text, args...)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return fmt.Errorf("store: query %s: %w", q.ID, s.engine.explain(err))
	}
	return nil
}

// insertEvidence returns the statement that stores a query's evidence. Using a single statement
// saves a round trip for each row.
func insertEvidence(q *QueryRow) (text string, args []any) {
	var rows strings.Builder
	args = []any{clean(q.ID), clean(q.Account)}
	for i, id := range slices.Sorted(maps.Keys(q.Evidence)) {
		if i > 0 {
			rows.WriteString(", ")
		}
		args = append(args, id, clean(q.Evidence[id]))
		fmt.Fprintf(&rows, "($1, $%d, $2, $%d)", len(args)-1, len(args))
	}
	return "INSERT INTO evidence (query, id, account, body) VALUES " + rows.String() + " ON CONFLICT (query, id) DO NOTHING", args
}

// Query returns a query. The error is NotFound if it does not exist, or if account is not empty and
// the query belongs to another account.
func (s *queryStore) Query(ctx context.Context, account, id string) (*QueryRow, error) {
	f := &filter{}
	f.equal("id", clean(id))
	f.equal("account", account)
	list, err := collect(ctx, s.database, 1, scanQuery, "SELECT "+queryColumns+" FROM queries"+f.String(), f.args)
	if err == nil && len(list) == 0 {
		err = toolyard.Errorf(toolyard.NotFound, "Query %.64q not found.", id)
	}
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// Queries lists queries, newest first.
func (s *queryStore) Queries(ctx context.Context, q QueryFilter) ([]*QueryRow, error) {
	if q.Limit <= 0 || q.Limit > MaxCalls {
		q.Limit = MaxCalls
	}
	f := &filter{}
	f.equal("agent", q.Agent)
	f.equal("account", q.Account)
	f.equal("caller", q.Caller)
	f.equal("outcome", q.Outcome)
	f.behind("at", q.Before.At, q.Before.ID)
	return collect(ctx, s.database, q.Limit, scanQuery, "SELECT "+queryColumns+" FROM queries"+f.String()+" ORDER BY at DESC, id DESC LIMIT "+f.arg(q.Limit), f.args)
}

func scanQuery(s scanner) (*QueryRow, error) {
	var q QueryRow
	var body string
	err := s.Scan(&q.ID, &q.At, &q.Agent, &q.Account, &q.Caller, &q.Outcome, &q.Model, &q.Tools, &body)
	q.At, q.Body = q.At.UTC(), json.RawMessage(body)
	return &q, err
}

// Evidence returns the full text of evidence if the query belongs to the account.
func (s *queryStore) Evidence(ctx context.Context, account, query, id string) (body string, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT body FROM evidence WHERE query = $1 AND id = $2 AND account = $3`, clean(query), clean(id), account).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return "", toolyard.Errorf(toolyard.NotFound, "Query %[2].64q has no evidence %[1].64q.", id, query)
	}
	if err != nil {
		return "", fmt.Errorf("store: evidence: %w", s.engine.explain(err))
	}
	return body, nil
}

const jobColumns = "id, account, caller, key, digest, at, until, ended, state, body"

// BeginJob stores a job that is about to run. If the caller already has a job with the same key,
// BeginJob returns that job, or IdempotencyConflict if it was started by a different request.
func (s *queryStore) BeginJob(ctx context.Context, j *QueryJob) (existing *QueryJob, err error) {
	begun, err := affected(s.db.ExecContext(ctx, `INSERT INTO query_jobs (`+jobColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, NULL, $8, NULL)
		ON CONFLICT (account, caller, key) DO NOTHING`, j.ID, clean(j.Account), clean(j.Caller), clean(j.Key), j.Digest, j.At.UTC(), j.Until.UTC(), string(JobRunning)))
	if err != nil {
		return nil, fmt.Errorf("store: job %s: %w", j.ID, s.engine.explain(err))
	}
	if begun {
		return nil, nil
	}
	f := &filter{}
	f.equal("account", clean(j.Account))
	f.equal("caller", clean(j.Caller))
	f.equal("key", clean(j.Key))
	list, err := collect(ctx, s.database, 1, scanJob, "SELECT "+jobColumns+" FROM query_jobs"+f.String(), f.args)
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0 || list[0].Digest != j.Digest:
		return nil, toolyard.Errorf(toolyard.IdempotencyConflict, "The idempotency key was already used for another query.")
	}
	return list[0], nil
}

// EndJob stores the outcome of a job.
func (s *queryStore) EndJob(ctx context.Context, id string, state JobState, body json.RawMessage, at time.Time) error {
	_, err := s.db.ExecContext(ctx, `UPDATE query_jobs SET state = $1, body = $2, ended = $3 WHERE id = $4 AND state = 'running'`, string(state), clean(string(body)), at.UTC(), id)
	if err != nil {
		return fmt.Errorf("store: job %s: %w", id, s.engine.explain(err))
	}
	return nil
}

// Job returns a caller's job. The error is NotFound if it does not exist.
func (s *queryStore) Job(ctx context.Context, account, caller, id string) (*QueryJob, error) {
	list, err := collect(ctx, s.database, 1, scanJob, "SELECT "+jobColumns+" FROM query_jobs WHERE id = $1 AND account = $2 AND caller = $3", []any{clean(id), account, caller})
	if err == nil && len(list) == 0 {
		err = toolyard.Errorf(toolyard.NotFound, "Job %.64q not found.", id)
	}
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

func scanJob(s scanner) (*QueryJob, error) {
	var j QueryJob
	var ended sql.NullTime
	var body sql.NullString
	err := s.Scan(&j.ID, &j.Account, &j.Caller, &j.Key, &j.Digest, &j.At, &j.Until, &ended, &j.State, &body)
	j.At, j.Until = j.At.UTC(), j.Until.UTC()
	if ended.Valid {
		j.Ended = ended.Time.UTC()
	}
	if body.Valid {
		j.Body = json.RawMessage(body.String)
	}
	return &j, err
}

// deleteQueries deletes the queries and jobs before a time.
func (s *queryStore) deleteQueries(ctx context.Context, before time.Time) error {
	for _, text := range []string{
		`DELETE FROM evidence WHERE query IN (SELECT id FROM queries WHERE at < $1)`, `DELETE FROM queries WHERE at < $1`, `DELETE FROM query_jobs WHERE at < $1`,
	} {
		if _, err := s.db.ExecContext(ctx, text, before.UTC()); err != nil {
			return fmt.Errorf("store: old queries: %w", s.engine.explain(err))
		}
	}
	return nil
}
