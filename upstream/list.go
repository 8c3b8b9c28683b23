package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Bounds on the lists of a server.
const (
	maxPages    = 1_000
	maxItems    = 10_000
	maxListed   = 16 << 20 // bytes of all pages
	listTimeout = 30 * time.Second
)

// listing is all that a server says it has.
type listing struct {
	tools, resources, templates, prompts []json.RawMessage
	problems                             []string // lists that could not be had
}

// sum is what tells two listings apart.
func (l *listing) sum() (sum [32]byte) {
	h := sha256.New()
	for _, list := range [][]json.RawMessage{l.tools, l.resources, l.templates, l.prompts} {
		_, _ = fmt.Fprintf(h, "%d\n", len(list))
		for _, item := range list {
			_, _ = fmt.Fprintf(h, "%d\n%s", len(item), item)
		}
	}
	_, _ = fmt.Fprintf(h, "%q", l.problems)
	h.Sum(sum[:0])
	return sum
}

// listAll reads all lists of the server. Without its tools a server is of no use; any
// other list that fails is a problem, not the end.
func (s *session) listAll(ctx context.Context) (l listing, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if s.has["tools"] {
		if l.tools, err = s.list(ctx, "tools/list", "tools"); err != nil {
			return l, fmt.Errorf("its tools cannot be listed: %w", err)
		}
	}
	for _, more := range []struct {
		needs, method, key string
		into               *[]json.RawMessage
	}{
		{"resources", "resources/list", "resources", &l.resources},
		{"resources", "resources/templates/list", "resourceTemplates", &l.templates},
		{"prompts", "prompts/list", "prompts", &l.prompts},
	} {
		if !s.has[more.needs] {
			continue
		}
		if *more.into, err = s.list(ctx, more.method, more.key); err != nil && !isUnknownMethod(err) {
			l.problems = append(l.problems, fmt.Sprintf("its %s cannot be listed: %v", more.key, err))
		}
	}
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
		result, err := s.request(ctx, request{method: method, params: params, silence: true})
		if err != nil {
			return nil, err
		}
		var page []json.RawMessage
		if raw := strictjson.Member(result, key); raw == nil || json.Unmarshal(raw, &page) != nil {
			return nil, fmt.Errorf("the answer has no list of %s", key)
		}
		items = append(items, page...)
		if size += len(result); len(items) > maxItems || size > maxListed {
			return nil, fmt.Errorf("there are more than %d, or they have more than %d MiB", maxItems, maxListed>>20)
		}
		next := strictjson.Member(result, "nextCursor")
		if next == nil || string(next) == "null" {
			return items, nil
		}
		cursor, ok := strictjson.String(next)
		if !ok || seen[cursor] {
			return nil, errors.New("its pages do not end")
		}
		seen[cursor] = true
		params = jsonobject.AppendString([]byte(`"cursor":`), cursor)
	}
	return nil, fmt.Errorf("there are more than %d pages", maxPages)
}

// resourcesOf are the resources that may be read, and how. What the operator named and
// the server does not list can be read all the same.
func (v *Server) resourcesOf(l *listing) (resources []*toolyard.Resource, problems []toolyard.Problem) {
	reader, completer := v.action("resources.read", v.read), v.action("completion.complete", v.complete)
	seen := make(map[string]bool)
	add := func(r *toolyard.Resource) {
		if r.MatchesAny(v.opts.Resources) && !seen[r.URI] {
			seen[r.URI] = true
			r.Server, r.Reader, r.Completer = v.opts.ID, reader, completer
			resources = append(resources, r)
		}
	}
	for _, list := range []struct {
		items    []json.RawMessage
		key      string
		template bool
	}{{l.resources, "uri", false}, {l.templates, "uriTemplate", true}} {
		for _, definition := range list.items {
			uri := text(definition, list.key)
			if err := checkItem(definition, uri); err != nil {
				problems = append(problems, v.problem("", "the resource "+untrusted.Quote(uri)+" is left out: "+err.Error(), ""))
				continue
			}
			add(&toolyard.Resource{URI: uri, Template: list.template, Definition: definition})
		}
	}
	for _, uri := range v.opts.Resources {
		if len(uri) > 0 && uri[len(uri)-1] != '*' {
			add(&toolyard.Resource{URI: uri, Unlisted: true})
		}
	}
	return resources, problems
}

// maxDefinition is how many bytes the definition of one thing may have.
const maxDefinition = 512 << 10

// checkItem checks the definition of a resource.
func checkItem(definition json.RawMessage, id string) error {
	switch {
	case len(definition) == 0 || definition[0] != '{' || id == "":
		return errors.New("its definition is none")
	case len(id) > 2<<10 || len(definition) > maxDefinition:
		return errors.New("it is too long")
	}
	return untrusted.CheckJSONText(definition)
}
