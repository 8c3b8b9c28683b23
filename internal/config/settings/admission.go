package settings

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/sources/pin"
)

// maxName is the maximum length of idempotency keys and of names of sessions, callers and accounts,
// in bytes.
const maxName = 255

// AdmissionRequest returns a call's admission request, which includes its price, limits and
// idempotency key.
func (s *Settings) AdmissionRequest(c *toolyard.Call) (*admission.Request, error) {
	t := c.Tool
	a := &admission.Request{
		Call: c, CallID: c.ID, Caller: c.Caller.ID, Account: cmp.Or(c.Caller.Account, c.Caller.ID, ident.Anonymous),
		Seller: cmp.Or(t.Server, "local"), Writes: !t.IsReadOnly(), Wait: s.Limits.Wait.Std(), Timeout: s.ToolTimeout(t),
		Limits: s.LimitsOf(c.Gate, t), Price: admission.Price(c),
	}
	if t.Timeout > 0 {
		a.Timeout = min(a.Timeout, t.Timeout)
	}
	if c.Session != "" || a.Price > 0 {
		a.Balance = cmp.Or(c.Session, a.Account)
	}
	for _, name := range []string{c.IdempotencyKey, c.Session, a.Caller, a.Account} {
		if len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
			return nil, toolyard.Errorf(toolyard.Invalid, "Idempotency keys and session, caller and account names must be at most %d bytes of printable text.", maxName)
		}
	}
	a.Caller = ledger.CallerKey(a.Account, a.Caller)
	scopeLimits(a)
	if a.Price > 0 {
		a.Spend = scopeSpend(a, s.SpendLimitsOf(c.Gate, t))
	}
	if c.IdempotencyKey == "" {
		return a, nil
	}
	if !c.Caller.Authenticated() {
		return nil, toolyard.Errorf(toolyard.Unauthenticated, "An idempotency key requires an authenticated caller, because results are stored per caller. Send an API key, or omit the idempotency key.")
	}
	a.Scope, a.Key = a.Caller, c.IdempotencyKey
	a.Digest = CallDigest(c)
	return a, nil
}

// agentGrace is added to an agent's time limit, so that a query is ended by the agent's own limit.
const agentGrace = 5 * time.Second

// ToolTimeout returns the maximum duration of a call, apart from the tool's own timeout. For a
// query, this is the agent's time limit.
func (s *Settings) ToolTimeout(t *toolyard.Tool) time.Duration {
	if a, ok := s.Agents[gates.AgentOf(t)]; ok {
		return a.Limits.Time.Std() + agentGrace
	}
	return s.Limits.Timeout.Std()
}

// scopeLimits gives each account or caller a separate copy of the limits that are counted per
// account or caller.
func scopeLimits(a *admission.Request) {
	for i := range a.Limits {
		l := &a.Limits[i]
		switch l.Limit.Per {
		case "account":
			l.Key, l.Name = l.Key+a.Account, "your account's use of "+l.Name
		case "caller":
			l.Key, l.Name = l.Key+a.Caller, "your use of "+l.Name
		}
	}
}

// scopeSpend gives each account or caller a separate copy of the spend limits that are counted per
// account or caller.
func scopeSpend(a *admission.Request, limits []SpendLimit) (scoped []ledger.SpendLimit) {
	for _, l := range limits {
		switch l.Per {
		case "account":
			l.Key, l.Name = l.Key+a.Account, "your account's use of "+l.Name
		case "caller":
			l.Key, l.Name = l.Key+a.Caller, "your use of "+l.Name
		}
		scoped = append(scoped, l.SpendLimit)
	}
	return scoped
}

// scopePrefixes follow the name of a limit in the keys for each account or caller.
var scopePrefixes = map[string]string{"account": "/for account/", "caller": "/for caller/"}

// LimitKey returns the key under which a limit is listed. key may be the key for a single account
// or caller.
func LimitKey(key string) string {
	for _, prefix := range scopePrefixes {
		if base, _, found := strings.Cut(key, prefix); found {
			return base + prefix
		}
	}
	return key
}

// LimitsOf returns the limits that count calls to a tool at a gate, widest first. The name of a
// local limit starts its error message, so it is capitalized; other names follow other words.
func (s *Settings) LimitsOf(gate string, t *toolyard.Tool) (limits []admission.LimitRef) {
	if server, ok := s.Servers[t.Server]; ok {
		n := server.Limits.Concurrency
		limits = append(limits, admission.LimitRef{
			Key: "at once/" + t.Server, Name: "Server " + t.Server, Local: true, Limit: toolyard.Limit{Concurrency: n},
		})
	}
	limits = append(limits, s.GateLimits(gate)...)
	if server, ok := s.Servers[t.Server]; ok {
		limits = append(limits, limitRefs("server/"+t.Server, "server "+t.Server, server.Rate.Limits())...)
	}
	return append(limits, limitRefs(ToolLimitKey(t), "tool "+t.Name, append([]toolyard.Limit{t.Limit}, t.Quotas...))...)
}

// GateLimits returns the limits on all calls at a gate.
func (s *Settings) GateLimits(gate string) []admission.LimitRef {
	return limitRefs("gate/"+gate, "gate "+gate, s.Config.Gates[gate].Rate.Limits())
}

// limitRefs returns references to the limits of a gate, a server or a tool, widest first.
func limitRefs(key, name string, limits []toolyard.Limit) (refs []admission.LimitRef) {
	for _, per := range []string{"", "account", "caller"} {
		for _, l := range limits {
			if l.Per == per && l.Limited() {
				refs = append(refs, admission.LimitRef{Key: key + scopePrefixes[per], Name: name, Limit: l})
			}
		}
	}
	return refs
}

// ToolLimitKey returns the key of a tool's limit.
func ToolLimitKey(t *toolyard.Tool) string { return "tool/" + t.Server + "/" + t.Name }

// CallDigest identifies the gate, tool, arguments and as-of time sent by the caller. It excludes
// injected context, which changes from call to call.
func CallDigest(c *toolyard.Call) [sha256.Size]byte {
	args := c.CallerArgs()
	canonical, err := pin.Canonical(args)
	if err != nil {
		canonical = args // compare the bytes instead
	}
	text := fmt.Appendf(nil, "%s\n%s\n%s\n%s", c.Gate, c.Tool.Server, c.Tool.Name, canonical)
	if c.AsOfSet {
		text = fmt.Appendf(text, "\n%s", c.AsOf.Format(time.RFC3339Nano))
	}
	return sha256.Sum256(text)
}
