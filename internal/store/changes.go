package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolyard/toolyard"
)

// keepChanges is the default retention of the audit log.
const keepChanges = 400 * day

// maxDetail is the maximum size of a change's detail, in bytes.
const maxDetail = 64 << 10

// Change is an entry in the audit log: a change, or an attempt to make one.
type Change struct {
	ID      string          `json:"id"`
	At      time.Time       `json:"at"`
	Caller  string          `json:"caller"`
	Account string          `json:"account,omitempty"`
	Action  string          `json:"action"` // such as toolset.put
	Subject string          `json:"subject"`
	Detail  json.RawMessage `json:"detail,omitempty"`
	Status  int             `json:"status"` // HTTP status of the response; zero if there is none yet
	Remote  string          `json:"remote,omitempty"`
}

// ChangeQuery selects changes. Empty fields don't restrict the selection.
type ChangeQuery struct {
	Caller, Action, Subject string
	Since, Until            time.Time // Until is exclusive

	Oldest bool   // oldest first
	Before Cursor // only changes after this position; zero for the first page
	Limit  int    // MaxCalls if zero or greater
}

const changeColumns = "id, at, caller, account, action, subject, detail, status, remote"

// BeginChange records a change before it is made.
func (s *changeStore) BeginChange(ctx context.Context, c *Change) error {
	if c.ID == "" || len(c.Detail) > maxDetail || len(c.Detail) > 0 && !json.Valid(c.Detail) {
		return toolyard.Errorf(toolyard.Invalid, "A change requires an ID, and its detail must be JSON of at most %d KiB.", maxDetail>>10)
	}
	_, err := s.db.ExecContext(ctx, `INSERT INTO changes (`+changeColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		clean(c.ID), c.At.UTC(), clean(c.Caller), clean(c.Account), clean(c.Action), clean(c.Subject), optional(c.Detail), c.Status, clean(c.Remote))
	if err != nil {
		return fmt.Errorf("store: change %s: %w", c.ID, s.engine.explain(err))
	}
	return nil
}

// EndChange records a change's status and subject. The error is NotFound if BeginChange was not
// called for it.
func (s *changeStore) EndChange(ctx context.Context, id string, status int, subject string) error {
	done, err := affected(s.db.ExecContext(ctx, `UPDATE changes SET status = $1, subject = $2 WHERE id = $3`, status, clean(subject), clean(id)))
	switch {
	case err != nil:
		return fmt.Errorf("store: change %s: %w", id, s.engine.explain(err))
	case !done:
		return toolyard.Errorf(toolyard.NotFound, "Change %s not found.", id)
	}
	return nil
}

// Changes lists changes, newest first unless the query requests otherwise.
func (s *changeStore) Changes(ctx context.Context, q ChangeQuery) ([]*Change, error) {
	if q.Limit <= 0 || q.Limit > MaxCalls {
		q.Limit = MaxCalls
	}
	f := &filter{}
	f.equal("caller", q.Caller)
	f.equal("action", q.Action)
	f.equal("subject", q.Subject)
	f.between("at", q.Since, q.Until)
	order := " ORDER BY at DESC, id DESC LIMIT "
	if q.Oldest {
		order = " ORDER BY at, id LIMIT "
		if !q.Before.At.IsZero() {
			f.where = append(f.where, fmt.Sprintf("(at, id) > (%s, %s)", f.arg(q.Before.At), f.arg(q.Before.ID)))
		}
	} else {
		f.behind("at", q.Before.At, q.Before.ID)
	}
	text := "SELECT " + changeColumns + " FROM changes" + f.String() + order + f.arg(q.Limit)
	return collect(ctx, s.database, q.Limit, scanChange, text, f.args)
}

func scanChange(s scanner) (*Change, error) {
	var c Change
	var detail sql.NullString
	err := s.Scan(&c.ID, &c.At, &c.Caller, &c.Account, &c.Action, &c.Subject, &detail, &c.Status, &c.Remote)
	c.At = c.At.UTC()
	if detail.String != "" {
		c.Detail = json.RawMessage(detail.String)
	}
	return &c, err
}
