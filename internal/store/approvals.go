package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

const (
	// maxPending is the maximum number of a caller's pending approvals.
	maxPending = 100
	// keepApprovals is how long expired approvals and grants are stored.
	keepApprovals = 30 * 24 * time.Hour
)

// Approval is a call that needs an operator's approval, and the decision.
type Approval struct {
	ID      string
	Subject ApprovalSubject
	Rule    ApprovalRule
	Preview json.RawMessage // arguments with secrets removed
	Hidden  int             // number of values hidden in the preview
	Cut     int             // number of values shortened in the preview
	Call    string          // the call that requested it
	State   ledger.ApprovalState
	Created time.Time
	Expires time.Time

	Decision ApprovalDecision
	UsedBy   string    // the call that used it; empty if none
	UsedAt   time.Time // zero if it has not been used
}

// ApprovalSubject identifies the calls that an approval is bound to. Digests are in hexadecimal.
type ApprovalSubject struct {
	Account    string
	Caller     string
	Gate       string
	Server     string
	Tool       string
	Definition string // digest of the tool's definition
	Arguments  string // digest of the gate, the tool and the arguments
	Price      toolyard.Money
	Binding    string // digest of everything that the approval depends on
}

// ApprovalRule describes the rules that require an approval.
type ApprovalRule struct {
	Name    string // names of all matching ask rules, separated by commas
	Digest  string // digest of their content
	Message string
}

// ApprovalDecision is an operator's decision. The zero value means no decision yet.
type ApprovalDecision struct {
	By     string
	At     time.Time
	Reason string
}

// Grant exempts calls from ask rules for some time.
type Grant struct {
	ID           string
	Subject      ApprovalSubject // Binding is not used; empty Arguments match any arguments
	Rule         ApprovalRule
	Created      time.Time
	Expires      time.Time
	By           string
	AnyArguments bool
}

const approvalColumns = `id, binding, account, caller, gate, server, tool, definition, arguments, preview, hidden, cut,
	rule, rule_digest, message, price, call, state, created, expires, decided_by, decided_at, reason, used_call, used_at`

func scanApproval(s scanner) (*Approval, error) {
	a := &Approval{}
	u, decided, used := &a.Subject, (*time.Time)(nil), (*time.Time)(nil)
	err := s.Scan(&a.ID, &u.Binding, &u.Account, &u.Caller, &u.Gate, &u.Server, &u.Tool, &u.Definition, &u.Arguments, (*[]byte)(&a.Preview), &a.Hidden, &a.Cut,
		&a.Rule.Name, &a.Rule.Digest, &a.Rule.Message, &u.Price, &a.Call, &a.State, &a.Created, &a.Expires, &a.Decision.By, &decided, &a.Decision.Reason, &a.UsedBy, &used)
	a.Created, a.Expires = a.Created.UTC(), a.Expires.UTC()
	if decided != nil {
		a.Decision.At = decided.UTC()
	}
	if used != nil {
		a.UsedAt = used.UTC()
	}
	return a, err
}

// ApprovalRequest is a request for approval.
type ApprovalRequest struct {
	Approval
	Within time.Duration // how long the request is valid
	Run    ledger.RunKey // the call's idempotency key; empty if none
}

// RequestApproval returns the approval for a call: one that is pending, approved or declined and
// has not expired, one used by a call with the same idempotency key, or else a new one. It returns
// nil if a grant exempts the call.
func (s *approvalStore) RequestApproval(ctx context.Context, r *ApprovalRequest) (a *Approval, created bool, err error) {
	now, err := s.engine.clock(ctx)
	if err != nil {
		return nil, false, err
	}
	u := &r.Subject
	if _, err = s.db.ExecContext(ctx, `UPDATE approvals SET state = 'expired' WHERE binding = $1 AND state IN ('pending', 'approved') AND expires <= $2`, u.Binding, now); err != nil {
		return nil, false, s.approvalError(err)
	}
	if a, err = s.openApproval(ctx, r, now); err != nil || a != nil && a.State != ledger.ApprovalPending {
		return a, false, err
	}
	granted, err := s.granted(ctx, r, now)
	switch {
	case err != nil:
		return nil, false, err
	case granted:
		return nil, false, nil
	case a != nil:
		return a, false, nil
	}
	return s.createApproval(ctx, r, now)
}

// granted reports whether a grant exempts a call.
func (s *approvalStore) granted(ctx context.Context, r *ApprovalRequest, now time.Time) (bool, error) {
	u, n := &r.Subject, 0
	err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM grants WHERE account = $1 AND caller = $2 AND gate = $3 AND server = $4 AND tool = $5 AND definition = $6
		AND (arguments = '' OR arguments = $7) AND rule_digest = $8 AND price >= $9 AND expires > $10`,
		u.Account, u.Caller, u.Gate, u.Server, u.Tool, u.Definition, u.Arguments, r.Rule.Digest, int64(u.Price), now).Scan(&n)
	return n > 0, s.approvalError(err)
}

// createApproval stores a request for approval, unless the same call requested it in the meantime.
func (s *approvalStore) createApproval(ctx context.Context, r *ApprovalRequest, now time.Time) (a *Approval, created bool, err error) {
	u, pending := &r.Subject, 0
	err = s.db.QueryRowContext(ctx, `SELECT count(*) FROM approvals WHERE account = $1 AND caller = $2 AND state = 'pending' AND expires > $3`, u.Account, u.Caller, now).Scan(&pending)
	if err != nil {
		return nil, false, s.approvalError(err)
	}
	if pending >= maxPending {
		return nil, false, &toolyard.Error{Code: toolyard.RateLimited, RetryAfter: time.Minute, Message: fmt.Sprintf("%d of your calls are already waiting for approval, which is the maximum. Wait until some are decided.", pending)}
	}
	done, err := s.db.ExecContext(ctx, `INSERT INTO approvals (id, binding, account, caller, gate, server, tool, definition, arguments, preview, hidden, cut,
		rule, rule_digest, message, price, call, state, created, expires)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, 'pending', $18, $19) ON CONFLICT DO NOTHING`,
		r.ID, u.Binding, u.Account, u.Caller, u.Gate, u.Server, u.Tool, u.Definition, u.Arguments, clean(string(r.Preview)), r.Hidden, r.Cut,
		r.Rule.Name, r.Rule.Digest, clean(r.Rule.Message), int64(u.Price), r.Call, now, now.Add(r.Within))
	if err != nil {
		return nil, false, s.approvalError(err)
	}
	n, err := done.RowsAffected()
	if err != nil {
		return nil, false, s.approvalError(err)
	}
	if a, err = s.openApproval(ctx, r, now); err == nil && a == nil { // it was decided and used in the meantime
		err = fmt.Errorf("store: approval: %w", ErrUnavailable)
	}
	return a, n == 1, err
}

// openApproval returns the approval that a call can use or has to wait for, or nil.
func (s *approvalStore) openApproval(ctx context.Context, r *ApprovalRequest, now time.Time) (*Approval, error) {
	a, err := scanApproval(s.db.QueryRowContext(ctx, `SELECT `+approvalColumns+` FROM approvals WHERE binding = $1
		AND (state IN ('pending', 'approved', 'declined') AND expires > $2 OR state = 'used' AND used_key = $4 AND used_key <> ''
			AND EXISTS (SELECT 1 FROM runs WHERE scope = $3 AND key = $4 AND runs.call = used_call))
		ORDER BY CASE state WHEN 'used' THEN 0 ELSE 1 END, created DESC LIMIT 1`, r.Subject.Binding, now, r.Run.Scope, r.Run.Key))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return a, s.approvalError(err)
}

func (s *approvalStore) approvalError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store: approval: %w", s.engine.explain(err))
}

// Approval returns an approval. If it has expired, its state is expired.
func (s *approvalStore) Approval(ctx context.Context, id string) (*Approval, error) {
	now, err := s.engine.clock(ctx)
	if err != nil {
		return nil, err
	}
	a, err := scanApproval(s.db.QueryRowContext(ctx, `SELECT `+approvalColumns+` FROM approvals WHERE id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, toolyard.Errorf(toolyard.NotFound, "Approval %.64s not found.", id)
	}
	if err != nil {
		return nil, s.approvalError(err)
	}
	a.expire(now)
	return a, nil
}

func (a *Approval) expire(now time.Time) {
	if (a.State == ledger.ApprovalPending || a.State == ledger.ApprovalApproved) && !a.Expires.After(now) {
		a.State = ledger.ApprovalExpired
	}
}

// ApprovalQuery selects approvals. Empty fields don't restrict the selection.
type ApprovalQuery struct {
	State   ledger.ApprovalState
	Account string
	Before  Cursor // only approvals after this position; zero for the first page
	Limit   int    // MaxCalls if zero or greater
}

// Approvals lists approvals, newest first.
func (s *approvalStore) Approvals(ctx context.Context, q ApprovalQuery) ([]*Approval, error) {
	now, err := s.engine.clock(ctx)
	if err != nil {
		return nil, err
	}
	if q.Limit <= 0 || q.Limit > MaxCalls {
		q.Limit = MaxCalls
	}
	f := &filter{}
	f.equal("account", q.Account)
	switch q.State {
	case "":
	case ledger.ApprovalExpired:
		f.where = append(f.where, "(state = 'expired' OR state IN ('pending', 'approved') AND expires <= "+f.arg(now)+")")
	case ledger.ApprovalPending, ledger.ApprovalApproved:
		f.equal("state", string(q.State))
		f.where = append(f.where, "expires > "+f.arg(now))
	default:
		f.equal("state", string(q.State))
	}
	if !q.Before.At.IsZero() {
		f.where = append(f.where, fmt.Sprintf("(created, id) < (%s, %s)", f.arg(q.Before.At), f.arg(q.Before.ID)))
	}
	list, err := collect(ctx, s.database, q.Limit, scanApproval,
		"SELECT "+approvalColumns+" FROM approvals"+f.String()+" ORDER BY created DESC, id DESC LIMIT "+f.arg(q.Limit), f.args)
	for _, a := range list {
		a.expire(now)
	}
	return list, err
}

// Decide decides on a pending approval. If grant is not nil, it is stored together with the
// decision. The error is VersionConflict if the approval is not pending.
func (s *approvalStore) Decide(ctx context.Context, id string, approve bool, d ApprovalDecision, grant *Grant) (*Approval, error) {
	now, err := s.engine.clock(ctx)
	if err != nil {
		return nil, err
	}
	state := ledger.ApprovalDeclined
	if approve {
		state = ledger.ApprovalApproved
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, s.approvalError(err)
	}
	defer tx.Rollback() //nolint:errcheck // no effect after the commit
	done, err := tx.ExecContext(ctx, `UPDATE approvals SET state = $1, decided_by = $2, decided_at = $3, reason = $4 WHERE id = $5 AND state = 'pending' AND expires > $3`,
		string(state), d.By, now, clean(d.Reason), id)
	if err != nil {
		return nil, s.approvalError(err)
	}
	n, err := done.RowsAffected()
	if err == nil && n == 1 && grant != nil {
		err = insertGrant(ctx, tx, grant, now)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return nil, s.approvalError(err)
	}
	a, err := s.Approval(ctx, id)
	if err == nil && n == 0 {
		return nil, toolyard.Errorf(toolyard.VersionConflict, "The approval is already %s.", a.State)
	}
	return a, err
}

func insertGrant(ctx context.Context, tx *sql.Tx, g *Grant, now time.Time) error {
	u := &g.Subject
	arguments := u.Arguments
	if g.AnyArguments {
		arguments = ""
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO grants (id, account, caller, gate, server, tool, definition, arguments, rule, rule_digest, price, created, expires, created_by)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		g.ID, u.Account, u.Caller, u.Gate, u.Server, u.Tool, u.Definition, arguments, g.Rule.Name, g.Rule.Digest, int64(u.Price), now, g.Expires, g.By)
	return err
}

// Grants lists up to MaxCalls grants that have not expired, newest first.
func (s *approvalStore) Grants(ctx context.Context) ([]*Grant, error) {
	now, err := s.engine.clock(ctx)
	if err != nil {
		return nil, err
	}
	return collect(ctx, s.database, MaxCalls, func(row scanner) (*Grant, error) {
		g := &Grant{}
		u := &g.Subject
		err := row.Scan(&g.ID, &u.Account, &u.Caller, &u.Gate, &u.Server, &u.Tool, &u.Definition, &u.Arguments, &g.Rule.Name, &g.Rule.Digest, &u.Price, &g.Created, &g.Expires, &g.By)
		g.AnyArguments, g.Created, g.Expires = u.Arguments == "", g.Created.UTC(), g.Expires.UTC()
		return g, err
	}, `SELECT id, account, caller, gate, server, tool, definition, arguments, rule, rule_digest, price, created, expires, created_by FROM grants
		WHERE expires > $1 ORDER BY created DESC, id LIMIT $2`, []any{now, MaxCalls})
}

// DeleteGrant revokes a grant.
func (s *approvalStore) DeleteGrant(ctx context.Context, id string) error {
	done, err := s.db.ExecContext(ctx, `DELETE FROM grants WHERE id = $1`, id)
	if err != nil {
		return s.approvalError(err)
	}
	if n, err := done.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return toolyard.Errorf(toolyard.NotFound, "Grant %.64s not found.", id)
}
