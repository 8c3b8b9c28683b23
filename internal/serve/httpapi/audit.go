package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Changes stores the audit log of changes made through the API.
type Changes interface {
	BeginChange(context.Context, *store.Change) error
	// EndChange records the status of a change, and its subject if that was unknown before.
	EndChange(ctx context.Context, id string, status int, subject string) error
	Changes(context.Context, store.ChangeQuery) ([]*store.Change, error)
}

// maxDetail is the maximum number of body bytes stored with a change.
const maxDetail = 8 << 10

// auditor records changes made through the API.
type auditor struct {
	changes    Changes
	refusals   quota // limits recorded refusals per caller
	ownChanges quota // limits callers' changes to their own data
	now        func() time.Time
	log        *slog.Logger
}

func newAuditor(opts Options) *auditor {
	return &auditor{
		changes: opts.Changes, now: opts.Now, log: opts.Log,
		refusals: quota{limit: maxRefusals, window: refusalTime}, ownChanges: quota{limit: maxOwnChanges, window: ownChangesTime},
	}
}

// audited serves a request that changes something. The change is recorded before it is made. If it
// cannot be recorded, the request is refused.
func (a *auditor) audited(r *request, route *route) (answer *reply, err error) {
	var detail json.RawMessage
	switch route.access {
	case operator, approver:
		if detail, err = peek(r); err != nil {
			return nil, err
		}
	case caller: // a caller with an ordinary key must not be able to fill the disk
		if _, ok := a.ownChanges.acquire(r.caller.ID, a.now()); !ok {
			return nil, &toolyard.Error{Code: toolyard.RateLimited, Message: fmt.Sprintf("You have exceeded the limit of %d changes per hour.", maxOwnChanges), RetryAfter: ownChangesRetry}
		}
		defer func() {
			if err == nil && answer != nil && answer.settled {
				a.ownChanges.release(r.caller.ID)
			}
		}()
	case denied, open, viewer:
	}
	return a.record(r, route, detail, route.serve)
}

// record serves a request and writes an audit record before and after it.
func (a *auditor) record(r *request, route *route, detail json.RawMessage, serve func(*request) (*reply, error)) (answer *reply, err error) {
	change := &store.Change{
		ID: rand.Text(), At: a.now().UTC().Truncate(time.Microsecond), Caller: r.caller.ID, Account: r.caller.Account,
		Action: route.action, Subject: route.subject(r.Request), Detail: detail,
	}
	change.Remote, _, _ = net.SplitHostPort(r.RemoteAddr)
	if err := a.changes.BeginChange(r.Context(), change); err != nil {
		return nil, err
	}
	status := http.StatusInternalServerError // recorded if the handler panics
	defer func() { a.end(r, change, status) }()
	answer, err = serve(r)
	if answer != nil && answer.subject != "" {
		change.Subject = answer.subject
	}
	switch {
	case err != nil:
		status = statusOf(problemOf(err))
	case answer.audited != 0:
		status = answer.audited
	case answer.body == nil:
		status = http.StatusNoContent
	default:
		status = cmp.Or(answer.status, http.StatusOK)
	}
	return answer, err
}

func (a *auditor) end(r *request, change *store.Change, status int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), requestTime)
	defer cancel()
	if err := a.changes.EndChange(ctx, change.ID, status, change.Subject); err != nil {
		a.log.WarnContext(ctx, "could not record the outcome of a change", "change", change.ID, "action", change.Action, "status", status, "error", err)
	}
	a.log.InfoContext(ctx, "change", "action", change.Action, "subject", change.Subject, "caller", change.Caller, "status", status)
}

// refused records that a caller was not allowed to make a change. It omits the request body, limits
// the number of records per caller, and counts the rest.
func (a *auditor) refused(r *request, route *route, err error) error {
	if route.action == "" || !r.caller.Authenticated() {
		return err
	}
	over, ok := a.refusals.acquire(r.caller.ID, a.now())
	if ok {
		_, _ = a.record(r, route, unrecorded(over), func(*request) (*reply, error) { return nil, err }) // the request is refused in any case
	} else if over == 1 {
		a.log.WarnContext(r.Context(), "further refused requests from this caller will only be counted", "caller", r.caller.ID, "for", refusalTime)
	}
	return err
}

// peek returns the request's body for the audit record, compacted and with tokens removed. It
// truncates a large body. The request can still be read.
func peek(r *request) (json.RawMessage, error) {
	data, err := io.ReadAll(io.LimitReader(r.Body, largeBody+1))
	if err != nil {
		return nil, invalid("The body could not be read.")
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	var b bytes.Buffer
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return nil, nil
	case len(data) > largeBody:
		return nil, toolyard.Errorf(toolyard.ArgsTooLarge, "The body exceeds %d bytes.", largeBody)
	case json.Compact(&b, data) != nil:
		return nil, invalid("The body is not valid JSON.")
	}
	detail := redactTokens(b.String())
	if len(detail) <= maxDetail {
		return json.RawMessage(detail), nil
	}
	return json.Marshal(map[string]string{"cut": untrusted.Prefix(detail, maxDetail/2)})
}

var token = regexp.MustCompile(`(tyl?_)[A-Za-z0-9_-]{8,}`)

// redactTokens removes API keys from a text.
func redactTokens(text string) string { return token.ReplaceAllString(text, "$1…") }

// subject returns what a change affects: the variable parts of the path.
func (t *route) subject(r *http.Request) string {
	var names []string
	for part := range strings.SplitSeq(t.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, shown(strings.ToValidUTF8(r.PathValue(strings.TrimSuffix(name, "}")), "")))
		}
	}
	return redactTokens(strings.ReplaceAll(strings.Join(names, "/"), "\x00", ""))
}

// memoryChanges keeps the latest changes in memory if the yard has no store.
type memoryChanges struct {
	mu   sync.Mutex
	list []*store.Change // oldest first
}

// maxMemoryChanges is the maximum number of changes in memory.
const maxMemoryChanges = 1_000

// BeginChange implements Changes.
func (c *memoryChanges) BeginChange(_ context.Context, change *store.Change) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	clone := *change
	c.list = append(c.list, &clone)
	if extra := len(c.list) - maxMemoryChanges; extra > 0 {
		c.list = slices.Delete(c.list, 0, extra)
	}
	return nil
}

// EndChange implements Changes.
func (c *memoryChanges) EndChange(_ context.Context, id string, status int, subject string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, change := range c.list {
		if change.ID == id {
			ended := *change
			ended.Status, ended.Subject = status, subject
			c.list[i] = &ended
			return nil
		}
	}
	return toolyard.Errorf(toolyard.NotFound, "Unknown change %s.", id)
}

// Changes implements Changes.
func (c *memoryChanges) Changes(_ context.Context, q store.ChangeQuery) (list []*store.Change, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := func(wanted, value string) bool { return wanted == "" || wanted == value }
	changes := slices.Clone(c.list)
	slices.SortFunc(changes, func(a, b *store.Change) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID)) })
	if q.Oldest {
		slices.Reverse(changes)
	}
	for _, change := range changes {
		order := cmp.Or(change.At.Compare(q.Before.At), cmp.Compare(change.ID, q.Before.ID))
		after := q.Before.At.IsZero() || order < 0 != q.Oldest && order != 0
		within := !change.At.Before(q.Since) && (q.Until.IsZero() || change.At.Before(q.Until))
		if after && within && is(q.Caller, change.Caller) && is(q.Action, change.Action) && is(q.Subject, change.Subject) && len(list) < q.Limit {
			list = append(list, change)
		}
	}
	return list, nil
}
