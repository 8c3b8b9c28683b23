package yard

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/callpath/rules"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/control/approvals"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/seal"
)

// governor holds everything that assemblies need to request approvals.
type governor struct {
	sealer    func() seal.Sealer
	operators *approvals.Service // nil if there is no store
	recheck   func(context.Context, *toolyard.Call) error
}

// newGovernor returns the yard's governor.
func (y *Yard) newGovernor(s *store.Store, sealKey httpapi.SealKey) *governor {
	sealer := sealKey.Sealer("toolyard approval")
	g := &governor{recheck: y.recheckCall, sealer: func() seal.Sealer { return sealer }}
	if s != nil {
		g.operators = approvals.New(s, approvals.Options{
			Hold: func() time.Duration { return y.current.Load().Approvals.Hold.Std() }, OnChange: y.live.ApprovalChanged, Log: y.log,
		})
	}
	return g
}

// governance returns the rules of an assembly and everything needed to apply them to calls.
func (b *assembler) governance(a *assembly) callpath.Governance {
	g := callpath.Governance{Rules: a.Rules, Tracked: offersCode(a.Gates) || len(a.Agents) > 0, Digest: a.approvalDigest, Redact: b.secrets.redact, Sealer: b.governor.sealer, Recheck: b.governor.recheck}
	if b.governor.operators != nil {
		g.Operators = b.governor.operators
	}
	return g
}

// approvalDigest identifies a call for its approval. It includes the as-of time only if the gate's
// callers can set it; otherwise that is the current time, which changes when the call is repeated.
func (a *assembly) approvalDigest(c *toolyard.Call) [sha256.Size]byte {
	i := slices.IndexFunc(a.Gates, func(g *gates.Gate) bool { return g.Name == c.Gate })
	if i >= 0 && a.Gates[i].CallerClock {
		return settings.CallDigest(c)
	}
	now := *c
	now.AsOf = now.Start
	return settings.CallDigest(&now)
}

// recheckCall returns an error if a call that waited for approval could not be made now: the gate
// no longer offers the tool as approved, a rule has changed, or the caller has lost its key.
func (y *Yard) recheckCall(ctx context.Context, c *toolyard.Call) error {
	v, ok := y.server.View(c.Gate)
	if !ok || !offers(v, c.Tool) {
		return toolyard.Errorf(toolyard.ApprovalRequired, "The tool changed while the call was waiting for approval. Repeat the call to request a new approval.")
	}
	if current := y.current.Load().Rules.Decide(ctx, c, admission.Price(c)); current.Action == rules.Deny {
		return toolyard.Errorf(toolyard.PermissionDenied, "Denied by rule %s.", current.Names())
	}
	return y.access.recheck(ctx, y.enforcement.store, c.Caller, v.Gate)
}

// offers reports whether a view has a tool with the same definition, including the internal tools
// that read resources and render prompts.
func offers(v *gates.View, t *toolyard.Tool) bool {
	same := func(shown *toolyard.Tool) bool { return shown != nil && shown.Digest() == t.Digest() }
	return slices.ContainsFunc(v.Tools, func(n gates.NamedTool) bool { return same(n.Tool) }) ||
		slices.ContainsFunc(v.Resources, func(r *toolyard.Resource) bool { return same(r.Reader) }) ||
		slices.ContainsFunc(v.Prompts, func(p gates.NamedPrompt) bool { return same(p.Getter) })
}

// recheck returns an error if all of the caller's keys have expired or been revoked since it sent
// the request.
func (a *access) recheck(ctx context.Context, s *store.Store, c toolyard.Caller, g *gates.Gate) error {
	switch {
	case c.ID == identity.Local: // the local user has no key and may use every gate
		return nil
	case a.program != nil || s == nil || !c.Authenticated():
		return a.authorize(c, g)
	}
	keys, err := s.KeyPage(ctx, store.KeyQuery{Caller: c.ID, Account: c.Account, State: identity.Active, Now: time.Now(), Limit: 1})
	switch {
	case err != nil:
		return &toolyard.Error{Code: toolyard.Unavailable, Message: "The store is unavailable, so the call was not run.", RetryAfter: time.Second, Err: err}
	case len(keys) == 0:
		return toolyard.Errorf(toolyard.Unauthenticated, "The API key was revoked while the call was waiting for approval.")
	}
	return a.authorize(c, g)
}
