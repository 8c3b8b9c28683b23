package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
)

// slowChanges is an audit log that blocks until it is released.
type slowChanges struct {
	memoryChanges
	asked, released chan struct{}
}

func (c *slowChanges) Changes(ctx context.Context, q store.ChangeQuery) ([]*store.Change, error) {
	c.asked <- struct{}{}
	<-c.released
	return c.memoryChanges.Changes(ctx, q)
}

func TestExportsOfTheAuditLogAreLimited(t *testing.T) {
	changes := &slowChanges{asked: make(chan struct{}), released: make(chan struct{})}
	for _, id := range []string{"b", "a"} {
		if err := changes.BeginChange(t.Context(), &store.Change{ID: id, At: time.Unix(1, 0), Action: "key.create"}); err != nil {
			t.Fatal(err)
		}
	}
	h := &changeHandler{changes, make(chan struct{}, maxExports), time.Now}
	export := func() (string, error) {
		w := httptest.NewRecorder()
		r := &request{Request: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), w: w}
		_, err := h.export(r)
		return w.Body.String(), err
	}
	texts := make(chan string, maxExports)
	for range maxExports {
		go func() {
			text, _ := export()
			texts <- text
		}()
		<-changes.asked
	}
	if _, err := export(); toolyard.AsError(err).Code != toolyard.Unavailable {
		t.Error("another export:", err)
	}
	close(changes.released)
	for range maxExports {
		if text := <-texts; strings.Count(text, "\n") != 2 || strings.Index(text, `"id":"a"`) > strings.Index(text, `"id":"b"`) {
			t.Errorf("%q", text)
		}
	}
}
