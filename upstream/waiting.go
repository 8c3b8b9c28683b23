package upstream

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// awaiting is how many definitions are not as they were approved.
type awaiting struct {
	people   int // who have not looked at them
	rejected int
}

// mark is what is remembered of something that is not as it was approved.
type mark struct {
	hash, kind string
	rejected   bool
}

// same reports whether two marks are of one definition.
func (m mark) same(other mark) bool { return m.hash == other.hash && m.kind == other.kind }

// Waiting is how many definitions of the server wait for somebody to look at them, refused
// ones included, and how many wait no more because they were rejected: together, what Pending
// lists. They were counted when the server was last listed or the pins last changed; of a
// server that was not up yet nothing is known.
func (v *Server) Waiting() (waiting, rejected int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.awaiting.people, v.awaiting.rejected
}

// recount counts what is not as it was approved, and notes what has become of that since it
// was last counted, whoever has decided it.
func (v *Server) recount() {
	v.recounting.Lock()
	defer v.recounting.Unlock()
	if !v.wasSeen() {
		return
	}
	var sum awaiting
	now := make(map[string]mark)
	for _, p := range v.compare() {
		now[p.Tool] = mark{p.Hash, p.Kind(), p.Rejected}
		if p.Rejected {
			sum.rejected++
		} else {
			sum.people++
		}
	}
	v.tell(v.differing, now)
	v.differing = now
	v.mu.Lock()
	defer v.mu.Unlock()
	v.awaiting = sum
}

// wasSeen reports whether what is offered is what the server said itself.
func (v *Server) wasSeen() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen
}

// tell notes as events what is new about the definitions that are not as they were approved.
func (v *Server) tell(before, now map[string]mark) {
	var changed, rejected []string
	for tool, m := range now {
		switch old := before[tool]; {
		case !m.same(old) && !m.rejected:
			changed = append(changed, tool)
		case m.same(old) && m.rejected && !old.rejected:
			rejected = append(rejected, tool)
		}
	}
	approved := v.approvedSince(before, now)
	v.tellOf(EventApproved, "approved", approved)
	v.tellOf(EventRejected, "rejected", rejected)
	v.tellOf(EventChanged, "not as approved", changed)
}

// approvedSince are those that were not as they were approved and are now, because that was
// approved.
func (v *Server) approvedSince(before, now map[string]mark) (tools []string) {
	pinned := sync.OnceValue(func() map[string]json.RawMessage { return v.opts.Pins.Pinned(v.opts.ID) })
	for tool, old := range before {
		if now[tool].same(old) {
			continue
		}
		switch definition, ok := pinned()[tool]; {
		case old.kind == KindGone && !ok,
			(old.kind == KindNew || old.kind == KindChanged) && ok && hashOf(definition) == old.hash:
			tools = append(tools, tool)
		}
	}
	return tools
}

// tellOf notes one event about some definitions, if there are any.
func (v *Server) tellOf(kind, what string, tools []string) {
	if len(tools) == 0 {
		return
	}
	slices.Sort(tools)
	names := make([]string, len(tools))
	for i, tool := range tools {
		names[i] = untrusted.Quote(tool)
	}
	noun := "definitions"
	if len(tools) == 1 {
		noun = "definition"
	}
	v.event(kind, fmt.Sprintf("%d %s %s: %s", len(tools), noun, what, firstFew(names)))
}
