package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
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

// Changes keeps what people changed through the API.
type Changes interface {
	BeginChange(context.Context, *store.Change) error
	// EndChange notes how a change was answered, and what it is about if that is known only now.
	EndChange(ctx context.Context, id string, status int, subject string) error
	Changes(context.Context, store.ChangeQuery) ([]*store.Change, error)
}

type changesPage struct {
	Changes []*store.Change `json:"changes"`
	Next    string          `json:"next,omitempty"`
}

// Bounds on what is kept of changes, and read of them at once.
const (
	maxDetail      = 8 << 10 // bytes of a request that are kept with the change that it asks for
	maxChangeBytes = 1 << 20 // of the details on a page
	changesAtOnce  = 100     // that are read from the store
)

// audited serves a request that changes something, and keeps who asked for what before it is
// done: what cannot be recorded does not happen.
func (a *v1) audited(r *request, route *route, serve func(*request) (*reply, error)) (answer *reply, err error) {
	var detail json.RawMessage
	switch route.access {
	case operator:
		if detail, err = peek(r); err != nil {
			return nil, err
		}
	case caller: // who holds any key can fill no disk with changes that are only their own
		if _, ok := a.ownChanges.take(r.caller.ID, a.Now()); !ok {
			return nil, &toolyard.Error{Code: toolyard.RateLimited, Message: fmt.Sprintf("You may change links and fail to change sessions %d times an hour.", maxOwnChanges), RetryAfter: ownChangesPauses}
		}
		defer func() {
			if err == nil && answer != nil && answer.paid {
				a.ownChanges.giveBack(r.caller.ID)
			}
		}()
	case nobody, open, viewer:
	}
	return a.record(r, route, detail, serve)
}

// record serves a request that changes something, between the beginning and the end of its record.
func (a *v1) record(r *request, route *route, detail json.RawMessage, serve func(*request) (*reply, error)) (answer *reply, err error) {
	change := &store.Change{
		ID: rand.Text(), At: a.Now().UTC().Truncate(time.Microsecond), Caller: r.caller.ID, Account: r.caller.Account,
		Action: route.action, Subject: route.subject(r.Request), Detail: detail,
	}
	change.Remote, _, _ = net.SplitHostPort(r.RemoteAddr)
	if err := a.Changes.BeginChange(r.Context(), change); err != nil {
		return nil, err
	}
	status := http.StatusInternalServerError // of one that panics
	defer func() { a.ended(r, change, status) }()
	answer, err = serve(r)
	if answer != nil && answer.subject != "" {
		change.Subject = answer.subject
	}
	switch {
	case err != nil:
		status = statusOf(problemOf(err))
	case answer.body == nil:
		status = http.StatusNoContent
	default:
		status = cmp.Or(answer.status, http.StatusOK)
	}
	return answer, err
}

// ended keeps how a change was answered.
func (a *v1) ended(r *request, change *store.Change, status int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), requestTime)
	defer cancel()
	if err := a.Changes.EndChange(ctx, change.ID, status, change.Subject); err != nil {
		a.Log.WarnContext(ctx, "how a change ended is not on record", "change", change.ID, "action", change.Action, "status", status, "error", err)
	}
	a.Log.InfoContext(ctx, "changed", "action", change.Action, "subject", change.Subject, "caller", change.Caller, "status", status)
}

// refused keeps that somebody wanted to change what they may not, without what they sent. Of many
// refusals of one caller it keeps some, with how many there were in between.
func (a *v1) refused(r *request, route *route, err error) error {
	if route.action == "" || !r.caller.Authenticated() {
		return err
	}
	over, ok := a.refusals.take(r.caller.ID, a.Now())
	if ok {
		_, _ = a.record(r, route, unrecorded(over), func(*request) (*reply, error) { return nil, err }) // it is refused either way
	} else if over == 1 {
		a.Log.WarnContext(r.Context(), "further refusals of this caller are counted, not recorded", "caller", r.caller.ID, "for", refusalTime)
	}
	return err
}

// peek is the body of a request, which can be read again; of one that is too large to be kept
// its beginning. White space does not count.
func peek(r *request) (json.RawMessage, error) {
	data, err := io.ReadAll(io.LimitReader(r.Body, maxPicks+1))
	if err != nil {
		return nil, invalid("The body could not be read.")
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	var b bytes.Buffer
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return nil, nil
	case len(data) > maxPicks:
		return nil, toolyard.Errorf(toolyard.ArgsTooLarge, "The body has more than %d bytes.", maxPicks)
	case json.Compact(&b, data) != nil:
		return nil, invalid("The body is not JSON.")
	}
	kept := hideTokens(b.String())
	if len(kept) <= maxDetail {
		return json.RawMessage(kept), nil
	}
	return json.Marshal(map[string]string{"cut": untrusted.Prefix(kept, maxDetail/2)})
}

var token = regexp.MustCompile(`(tyl?_)[A-Za-z0-9_-]{8,}`)

// hideTokens takes API keys out of a text that others read.
func hideTokens(text string) string { return token.ReplaceAllString(text, "$1…") }

// subject is what a change is about: the names in the address.
func (t *route) subject(r *http.Request) string {
	var names []string
	for part := range strings.SplitSeq(t.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			names = append(names, shown(strings.ToValidUTF8(r.PathValue(strings.TrimSuffix(name, "}")), "")))
		}
	}
	return hideTokens(strings.ReplaceAll(strings.Join(names, "/"), "\x00", ""))
}

func (a *v1) getChanges(r *request) (*reply, error) {
	p := &r.params
	q := store.ChangeQuery{Caller: p.values["caller"], Action: p.values["action"], Subject: p.values["subject"], Before: p.cursor("before"), Limit: p.number("limit", defaultLimit, 1, store.MaxCalls)}
	if p.err != nil {
		return nil, p.err
	}
	list, next, err := a.changesPage(r.Context(), q)
	return done(changesPage{orEmpty(list), next}, err)
}

// changesPage reads changes until there are as many as were asked for, or as many bytes as a page
// may have, and says where to go on.
func (a *v1) changesPage(ctx context.Context, q store.ChangeQuery) (list []*store.Change, next string, err error) {
	for size := 0; len(list) < q.Limit; {
		part := q
		part.Limit = min(changesAtOnce, q.Limit-len(list))
		if n := len(list); n > 0 {
			part.Before = store.Cursor{At: list[n-1].At, ID: list[n-1].ID}
		}
		read, err := a.Changes.Changes(ctx, part)
		if err != nil {
			return nil, "", err
		}
		for _, c := range read {
			if size += len(c.Detail); size > maxChangeBytes && len(list) > 0 {
				return list, changesNext(list), nil
			}
			list = append(list, c)
		}
		if len(read) < part.Limit {
			return list, "", nil
		}
	}
	return list, changesNext(list), nil
}

// changesNext is the place behind a list of changes.
func changesNext(list []*store.Change) string {
	last := list[len(list)-1]
	return cursorText(last.At, last.ID)
}

// recent keeps the last changes in memory, for a yard that has no store.
type recent struct {
	mu   sync.Mutex
	list []*store.Change // the oldest first
}

// maxRecent is how many changes are kept in memory.
const maxRecent = 1_000

// BeginChange implements Changes.
func (c *recent) BeginChange(_ context.Context, change *store.Change) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := *change
	c.list = append(c.list, &kept)
	if extra := len(c.list) - maxRecent; extra > 0 {
		c.list = slices.Delete(c.list, 0, extra)
	}
	return nil
}

// EndChange implements Changes.
func (c *recent) EndChange(_ context.Context, id string, status int, subject string) error {
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
	return toolyard.Errorf(toolyard.NotFound, "There is no change %s.", id)
}

// Changes implements Changes.
func (c *recent) Changes(_ context.Context, q store.ChangeQuery) (list []*store.Change, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	is := func(asked, value string) bool { return asked == "" || asked == value }
	for _, change := range slices.Backward(c.list) {
		behind := q.Before.At.IsZero() || change.At.Before(q.Before.At) || change.At.Equal(q.Before.At) && change.ID < q.Before.ID
		if behind && is(q.Caller, change.Caller) && is(q.Action, change.Action) && is(q.Subject, change.Subject) && len(list) < q.Limit {
			list = append(list, change)
		}
	}
	return list, nil
}
