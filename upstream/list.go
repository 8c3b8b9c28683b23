package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// Limits on a listing.
const (
	maxPages    = 1_000
	maxItems    = 10_000
	maxListed   = 16 << 20 // bytes of all pages together
	listTimeout = 30 * time.Second
)

// listing is everything that a server lists.
type listing struct {
	tools, resources, templates, prompts []json.RawMessage
	watchable                            bool     // whether the server reports updates to resources
	problems                             []string // lists that could not be read
}

// sum returns a hash of the listing.
func (l *listing) sum() (sum [32]byte) {
	h := sha256.New()
	for _, list := range [][]json.RawMessage{l.tools, l.resources, l.templates, l.prompts} {
		_, _ = fmt.Fprintf(h, "%d\n", len(list))
		for _, item := range list {
			_, _ = fmt.Fprintf(h, "%d\n%s", len(item), item)
		}
	}
	_, _ = fmt.Fprintf(h, "%t%q", l.watchable, l.problems)
	h.Sum(sum[:0])
	return sum
}

// listAll reads all of the server's lists. It returns an error if the tools cannot be listed;
// failures of other lists become problems with the listing.
func (s *session) listAll(ctx context.Context) (l listing, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if s.capabilities["tools"] {
		if l.tools, err = s.list(ctx, "tools/list", "tools"); err != nil {
			return l, fmt.Errorf("cannot list the server's tools: %w", err)
		}
	}
	if s.toolsOnly {
		return l, nil
	}
	for _, more := range []struct {
		capability, method, key string
		into                    *[]json.RawMessage
	}{
		{"resources", "resources/list", "resources", &l.resources},
		{"resources", "resources/templates/list", "resourceTemplates", &l.templates},
		{"prompts", "prompts/list", "prompts", &l.prompts},
	} {
		if !s.capabilities[more.capability] {
			continue
		}
		if *more.into, err = s.list(ctx, more.method, more.key); err != nil && !isUnknownMethod(err) {
			l.problems = append(l.problems, fmt.Sprintf("cannot list the server's %s: %v", more.key, err))
		}
	}
	l.watchable = s.capabilities["resources.subscribe"]
	return l, nil
}

func isUnknownMethod(err error) bool {
	e, ok := errors.AsType[*rpcError](err)
	return ok && e.Code == codeMethodNotFound
}

// list reads all pages of one list.
func (s *session) list(ctx context.Context, method, key string) (items []json.RawMessage, err error) {
	var params []byte
	size, seen := 0, make(map[string]bool)
	for range maxPages {
		result, err := s.request(ctx, request{method: method, params: params, noCancel: true})
		if err != nil {
			return nil, err
		}
		var page []json.RawMessage
		if raw := strictjson.Member(result, key); raw == nil || json.Unmarshal(raw, &page) != nil {
			return nil, fmt.Errorf("the response contains no list of %s", key)
		}
		items = append(items, page...)
		if size += len(result); len(items) > maxItems || size > maxListed {
			return nil, fmt.Errorf("the list has more than %d entries or exceeds %d MiB", maxItems, maxListed>>20)
		}
		next := strictjson.Member(result, "nextCursor")
		if next == nil || string(next) == "null" {
			return items, nil
		}
		cursor, ok := strictjson.String(next)
		if !ok || seen[cursor] {
			return nil, errors.New("the server sent an invalid or repeated page cursor")
		}
		seen[cursor] = true
		params = jsonobject.AppendString([]byte(`"cursor":`), cursor)
	}
	return nil, fmt.Errorf("the list has more than %d pages", maxPages)
}
