// Package approvals lets calls wait for an operator's approval, and lets operators decide. All
// replicas share the approvals through the store.
package approvals

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/store"
)

// Store stores approvals for all replicas.
type Store interface {
	RequestApproval(context.Context, *store.ApprovalRequest) (a *store.Approval, created bool, err error)
	Approval(ctx context.Context, id string) (*store.Approval, error)
	Approvals(context.Context, store.ApprovalQuery) ([]*store.Approval, error)
	Decide(ctx context.Context, id string, approve bool, d store.ApprovalDecision, grant *store.Grant) (*store.Approval, error)
	Grants(context.Context) ([]*store.Grant, error)
	DeleteGrant(ctx context.Context, id string) error
	Send(ctx context.Context, to string, message []byte) error
}

const (
	pollTime     = 2 * time.Second  // interval between polls for a waiting call, in case a notification is lost
	progressTime = 5 * time.Second  // interval between progress reports to a waiting client
	retryAfter   = 15 * time.Second // suggested delay before repeating a call
	sendTimeout  = 2 * time.Second  // time limit for sending a notification
	maxWaiting   = 1000             // calls waiting on this replica; others fail immediately and can be repeated
)

// Options configures a Service.
type Options struct {
	Hold     func() time.Duration            // how long a call waits for a decision
	OnChange func(id, account, state string) // called when an approval is requested or decided on any replica; may be nil
	Log      *slog.Logger
}

// Service obtains approvals for calls. It implements [callpath.Operators].
type Service struct {
	store Store
	opts  Options

	mu      sync.Mutex
	waiters map[string]map[chan struct{}]struct{} // by approval ID
	waiting int
}

var (
	_ callpath.Operators = (*Service)(nil)
	_ httpapi.Approvals  = (*Service)(nil)
)

// New returns a Service.
func New(s Store, o Options) *Service {
	if o.OnChange == nil {
		o.OnChange = func(_, _, _ string) {}
	}
	return &Service{store: s, opts: o, waiters: make(map[string]map[chan struct{}]struct{})}
}

// Await implements [callpath.Operators].
func (s *Service) Await(ctx context.Context, c *toolyard.Call, a *callpath.Approval) (id string, err error) {
	row, created, err := s.store.RequestApproval(ctx, newRequest(c, a))
	switch {
	case err != nil:
		return "", unavailable(ctx, err)
	case row == nil: // a grant exempts the call
		return "", nil
	case created:
		s.changed(ctx, row)
	}
	return s.await(ctx, c, row)
}

func unavailable(ctx context.Context, err error) error {
	if e := toolyard.AsError(err); e.Code != toolyard.Failed || ctx.Err() != nil {
		return e
	}
	return &toolyard.Error{Code: toolyard.Unavailable, Message: "The store is unavailable, so the call could not be approved and was not run.", RetryAfter: time.Second, Err: err}
}

func newRequest(c *toolyard.Call, a *callpath.Approval) *store.ApprovalRequest {
	definition, rules := c.Tool.Digest(), a.Verdict.Digest()
	r := &store.ApprovalRequest{Within: a.Verdict.Within}
	r.ID, r.Call = "apr_"+strings.ToLower(rand.Text()), c.ID
	r.Subject = store.ApprovalSubject{
		Account: cmp.Or(c.Caller.Account, c.Caller.ID), Caller: c.Caller.ID, Gate: c.Gate, Server: c.Tool.Server, Tool: c.Tool.Name,
		Definition: hex.EncodeToString(definition[:]), Arguments: hex.EncodeToString(a.Digest[:]), Price: a.Price, Binding: hex.EncodeToString(a.Binding[:]),
	}
	r.Rule = store.ApprovalRule{Name: a.Verdict.Names(), Digest: hex.EncodeToString(rules[:]), Message: a.Verdict.Message()}
	r.Preview, r.Hidden, r.Cut = a.Preview.Args, a.Preview.Hidden, a.Preview.Cut
	if c.IdempotencyKey != "" {
		r.Run = ledger.RunKey{Scope: ledger.CallerKey(r.Subject.Account, c.Caller.ID), Key: c.IdempotencyKey}
	}
	return r
}

// await waits until an approval is decided, but no longer than a call may be held.
func (s *Service) await(ctx context.Context, c *toolyard.Call, a *store.Approval) (id string, err error) {
	woken, release := s.subscribe(a.ID)
	defer release()
	start := time.Now()
	hold := s.opts.Hold()
	if woken == nil {
		hold = 0
	}
	end := time.NewTimer(hold)
	defer end.Stop()
	poll, progress := time.NewTicker(pollTime), time.NewTicker(progressTime)
	defer poll.Stop()
	defer progress.Stop()
	for {
		// Read after subscribing, so that no decision is missed.
		if a, err = s.store.Approval(ctx, a.ID); err != nil {
			return "", unavailable(ctx, err)
		}
		switch a.State {
		case ledger.ApprovalApproved, ledger.ApprovalUsed: // if it was used by a call with another idempotency key, admission refuses this one
			return a.ID, nil
		case ledger.ApprovalDeclined:
			return "", declined(a)
		case ledger.ApprovalExpired:
			return "", toolyard.Errorf(toolyard.ApprovalRequired, "The approval request expired without a decision. Repeat the call to request approval again.")
		case ledger.ApprovalPending:
		}
	waiting:
		for {
			select {
			case <-woken:
				break waiting
			case <-poll.C:
				break waiting
			case <-progress.C:
				c.Progress(time.Since(start).Seconds(), hold.Seconds(), "Waiting for operator approval")
			case <-end.C:
				return "", required(a)
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
	}
}

func declined(a *store.Approval) error {
	text := fmt.Sprintf("%s declined this call. Rule %s requires approval for it.", a.Decision.By, a.Rule.Name)
	if a.Decision.Reason != "" {
		text += " Reason: " + a.Decision.Reason
	}
	return toolyard.Errorf(toolyard.PermissionDenied, "%s", text)
}

func required(a *store.Approval) error {
	text := fmt.Sprintf("Rule %s requires an operator to approve this call. Request %s expires at %s. Repeat the call with the same arguments once it is approved.",
		a.Rule.Name, a.ID, a.Expires.Format(time.RFC3339))
	if a.Rule.Message != "" {
		text += " " + a.Rule.Message
	}
	return &toolyard.Error{Code: toolyard.ApprovalRequired, Message: text, RetryAfter: retryAfter, Approval: a.ID, Expires: a.Expires}
}

// subscribe returns a channel that receives a value when an approval changes. The channel is nil if
// too many calls are waiting.
func (s *Service) subscribe(id string) (woken chan struct{}, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting >= maxWaiting {
		return nil, func() {}
	}
	s.waiting++
	woken = make(chan struct{}, 1)
	if s.waiters[id] == nil {
		s.waiters[id] = make(map[chan struct{}]struct{})
	}
	s.waiters[id][woken] = struct{}{}
	return woken, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting--
		if delete(s.waiters[id], woken); len(s.waiters[id]) == 0 {
			delete(s.waiters, id)
		}
	}
}

// messagePrefix is the prefix of messages between replicas. It is followed by an approval's ID,
// account and state.
const messagePrefix = "approval "

// changed notifies waiting calls and observers on all replicas.
func (s *Service) changed(ctx context.Context, a *store.Approval) {
	s.notify(a.ID, a.Subject.Account, string(a.State))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	if err := s.store.Send(ctx, "", []byte(messagePrefix+a.ID+" "+string(a.State)+" "+a.Subject.Account)); err != nil {
		s.opts.Log.Warn("could not notify other replicas of an approval; they will detect it later", "approval", a.ID, "error", err)
	}
}

// Receive handles a message from another replica. It reports whether the message was about an
// approval.
func (s *Service) Receive(message []byte) bool {
	rest, ok := strings.CutPrefix(string(message), messagePrefix)
	if !ok {
		return false
	}
	id, rest, _ := strings.Cut(rest, " ")
	state, account, _ := strings.Cut(rest, " ")
	s.notify(id, account, state)
	return true
}

func (s *Service) notify(id, account, state string) {
	s.mu.Lock()
	for woken := range s.waiters[id] {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	s.mu.Unlock()
	s.opts.OnChange(id, account, state)
}

// Approval returns an approval.
func (s *Service) Approval(ctx context.Context, id string) (*store.Approval, error) {
	return s.store.Approval(ctx, id)
}

// Approvals lists approvals, newest first.
func (s *Service) Approvals(ctx context.Context, q store.ApprovalQuery) ([]*store.Approval, error) {
	return s.store.Approvals(ctx, q)
}

// Grants lists the grants that have not expired.
func (s *Service) Grants(ctx context.Context) ([]*store.Grant, error) { return s.store.Grants(ctx) }

// DeleteGrant revokes a grant.
func (s *Service) DeleteGrant(ctx context.Context, id string) error {
	return s.store.DeleteGrant(ctx, id)
}

// Decide approves or declines a pending approval. Callers cannot decide on their own calls.
func (s *Service) Decide(ctx context.Context, id string, by toolyard.Caller, d httpapi.Decision) (*store.Approval, error) {
	a, err := s.store.Approval(ctx, id)
	if err != nil {
		return nil, err
	}
	if a.Subject.Caller == by.ID && a.Subject.Account == cmp.Or(by.Account, by.ID) {
		return nil, toolyard.Errorf(toolyard.PermissionDenied, "You cannot approve or decline your own call. Another operator or approver must decide.")
	}
	var grant *store.Grant
	if d.Approve && d.Remember > 0 {
		grant = &store.Grant{
			ID: "grn_" + strings.ToLower(rand.Text()), Subject: a.Subject, Rule: a.Rule, Expires: time.Now().Add(d.Remember).UTC(), By: by.ID, AnyArguments: d.AnyArguments,
		}
	}
	if a, err = s.store.Decide(ctx, id, d.Approve, store.ApprovalDecision{By: by.ID, Reason: d.Reason}, grant); err != nil {
		return nil, err
	}
	s.changed(ctx, a)
	return a, nil
}
