// Package taint tracks which data has entered a model's context, based on the labels of tools: the
// caller's private data, and text written by strangers. Once both have entered, instructions in the
// strangers' text could misuse a tool that sends data out, so such a tool needs approval. Decisions
// depend only on the calls, never on the model's output.
package taint

import (
	"context"
	"slices"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
)

// The labels of tools.
const (
	Private   = "private"   // returns the caller's data
	Untrusted = "untrusted" // returns text that strangers can write
	Egress    = "egress"    // sends data out
)

// Labels lists all labels.
var Labels = []string{Private, Untrusted, Egress}

// Defaults returns the labels of a tool that declares none. Text from MCP servers is untrusted,
// unless a trusted server declares openWorldHint: false. Write tools on MCP servers can send data
// out. Local tools have no labels.
func Defaults(s *toolyard.Spec) (labels []string) {
	if s.Server == "" {
		return nil
	}
	annotations, _ := jsonobject.Map(s.Extra["annotations"])
	if string(annotations["openWorldHint"]) != "false" {
		labels = append(labels, Untrusted)
	}
	if !s.IsReadOnly() {
		labels = append(labels, Egress)
	}
	return labels
}

// RuleOfTwo returns one tool for each label if the tools together have all three labels. A model
// that uses these tools could be tricked into sending private data to strangers. Otherwise, it
// returns nil.
func RuleOfTwo(tools []*toolyard.Tool) map[string]*toolyard.Tool {
	found := make(map[string]*toolyard.Tool, len(Labels))
	for _, t := range tools {
		for _, label := range t.Labels {
			if found[label] == nil {
				found[label] = t
			}
		}
	}
	for _, label := range Labels {
		if found[label] == nil {
			return nil
		}
	}
	return found
}

// Tracker tracks the results received by a code run or an agent query. The zero value is ready to
// use, and a nil Tracker tracks nothing. It is safe for concurrent use.
type Tracker struct {
	mu      sync.Mutex
	entered map[string]string // first tool with each label
}

// Received adds the labels of a tool whose result or error the model receives.
func (t *Tracker) Received(tool *toolyard.Tool) {
	if t == nil || len(tool.Labels) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entered == nil {
		t.entered = make(map[string]string, len(Labels))
	}
	for _, label := range tool.Labels {
		if _, ok := t.entered[label]; !ok {
			t.entered[label] = shownName(tool)
		}
	}
}

// Reason returns the reason if a call to the tool needs approval, or "".
func (t *Tracker) Reason(tool *toolyard.Tool) string {
	if t == nil || !slices.Contains(tool.Labels, Egress) {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	private, untrusted := t.entered[Private], t.entered[Untrusted]
	if private == "" || untrusted == "" {
		return ""
	}
	return shownName(tool) + " sends data out, after private data from " + private + " and untrusted text from " + untrusted + " were read"
}

func shownName(t *toolyard.Tool) string {
	if t.Server == "" {
		return t.Name
	}
	return t.Server + "/" + t.Name
}

type contextKey struct{}

// With returns a context whose calls are tracked by t, including nested calls at any depth.
func With(ctx context.Context, t *Tracker) context.Context {
	return context.WithValue(ctx, contextKey{}, t)
}

// From returns the tracker in a context, or nil.
func From(ctx context.Context) *Tracker {
	t, _ := ctx.Value(contextKey{}).(*Tracker)
	return t
}
