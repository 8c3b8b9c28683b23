package callpath

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/callpath/rules"
	"github.com/toolyard/toolyard/internal/trust/seal"
	"github.com/toolyard/toolyard/internal/trust/taint"
)

// Governance holds the rules and the dependencies for enforcing them.
type Governance struct {
	Rules     *rules.Set                                  // nil if there are none
	Tracked   bool                                        // calls may have a [taint.Tracker] in their context
	Operators Operators                                   // nil if operators cannot approve calls
	Digest    func(*toolyard.Call) [sha256.Size]byte      // identifies a call's gate, tool, arguments and as-of time
	Redact    func(string) string                         // removes secrets from text shown to approvers; may be nil
	Recheck   func(context.Context, *toolyard.Call) error // rejects a call that may no longer run after waiting; may be nil
	Sealer    func() seal.Sealer                          // seals callers' approvals; all replicas share its key
}

// Operators obtains approvals from operators.
type Operators interface {
	// Await waits until an operator approves the call and returns the approval's ID, which
	// admission consumes. The ID is empty if an operator has already allowed such calls for some
	// time.
	Await(context.Context, *toolyard.Call, *Approval) (id string, err error)
}

// Approval is the call that an approval is bound to, in addition to the caller, gate and tool.
type Approval struct {
	Verdict rules.Verdict
	Binding [sha256.Size]byte // hash of everything that the approval depends on
	Digest  [sha256.Size]byte // hash of the arguments
	Preview rules.Preview
	Price   toolyard.Money
}

// Rules enforces the operator's rules: it refuses denied calls and requests approval for others. It
// returns nil if there are no rules and calls are not tracked.
func Rules(now func() time.Time, g Governance) toolyard.Policy {
	if g.Rules == nil && !g.Tracked {
		return nil
	}
	return func(next toolyard.Handler) toolyard.Handler {
		s := ruleStep{Governance: g, now: now, next: next}
		return s.handle
	}
}

type ruleStep struct {
	Governance
	now  func() time.Time
	next toolyard.Handler
}

func (s *ruleStep) handle(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
	tracker := taint.From(ctx)
	res, err := s.decide(ctx, c, tracker.Reason(c.Tool))
	if err == nil || c.Ran() {
		tracker.Received(c.Tool)
	}
	return res, err
}

// decide runs the call if the rules allow it, or once it is approved. tainted explains why a
// tainted call needs approval and is empty for other calls.
func (s *ruleStep) decide(ctx context.Context, c *toolyard.Call, tainted string) (*toolyard.Result, error) {
	state := openState(c)
	price := admission.Price(c)
	v := withTaint(s.Rules.Decide(ctx, c, price), tainted)
	switch v.Action {
	case rules.Deny:
		return nil, toolyard.Errorf(toolyard.PermissionDenied, "%s", refusal(&v, "Denied by rule "+v.Names()+"."))
	case rules.Ask:
	default:
		return s.next(ctx, c)
	}
	a := s.approval(c, v, price)
	if state.approved != "" {
		if text, _, ok := s.Sealer().Open(state.approved, a.Binding[:], s.now()); ok && text == sealApproved {
			return s.run(ctx, c, a) // approved in an earlier round of the same call
		}
	}
	if v.By == rules.Caller && canAsk(c) {
		return s.askCaller(ctx, c, a, state)
	}
	return s.askOperator(ctx, c, a)
}

// refusal appends the rules' messages to text.
func refusal(v *rules.Verdict, text string) string {
	if m := v.Message(); m != "" {
		return text + " " + m
	}
	return text
}

// approval describes the call to be approved. The binding covers everything that an approver sees
// or relies on, so any change requires a new approval.
func (s *ruleStep) approval(c *toolyard.Call, v rules.Verdict, price toolyard.Money) *Approval {
	a := &Approval{Verdict: v, Digest: s.Digest(c), Preview: rules.Show(c.CallerArgs(), s.Redact), Price: price}
	raw, _ := json.Marshal([]any{ // cannot fail: all values are encodable
		c.Caller.Account, c.Caller.ID, c.Gate, c.Tool.Server, c.Tool.Name, c.Tool.Digest(), a.Digest, v.Digest(), price,
	})
	a.Binding = sha256.Sum256(raw)
	return a
}

// canAsk reports whether the call's client can ask its user to fill in a form. Calls made by other
// tools have no user.
func canAsk(c *toolyard.Call) bool {
	return c.Depth == 0 && c.Supports("elicitation") && (!c.Supports("elicitation.url") || c.Supports("elicitation.form"))
}

// decision is the form shown to the client's user.
type decision struct {
	Decision string `json:"decision" enum:"approve,decline" doc:"approve runs the call once, decline refuses it."`
}

const (
	approvalKey  = "toolyard.approval" // key of the question to the user
	approvalTime = 10 * time.Minute    // lifetime of a question, and of its answer in later rounds of the call
	sealAsked    = "asked"
	sealApproved = "approved"
)

// askCaller asks the client's user, and runs the call if the user approves it.
func (s *ruleStep) askCaller(ctx context.Context, c *toolyard.Call, a *Approval, state callState) (*toolyard.Result, error) {
	asking := *c
	asking.RequestState = state.asked // excludes the tool's own state
	reply, err := toolyard.Ask[decision](ctx, &asking, toolyard.Question{
		Key: approvalKey, Message: question(c, a), Bind: string(a.Binding[:]),
		State: []byte(s.Sealer().Seal(sealAsked, a.Binding[:], s.now().Add(approvalTime))),
	})
	if asks, ok := errors.AsType[interface {
		error
		Unfinished() *toolyard.Result
	}](err); ok {
		return withState(asks.Unfinished(), func(inner string) string { return askedPrefix + inner })
	}
	if err != nil {
		return nil, err
	}
	// A tool may use the same key, so only the seal proves that this step asked the question.
	if text, _, ok := s.Sealer().Open(string(reply.State), a.Binding[:], s.now()); !ok || text != sealAsked {
		return nil, toolyard.Errorf(toolyard.Invalid, "The approval is not valid for this call or has expired. Call again without the answer.")
	}
	if !reply.Accepted() || reply.Form.Decision != "approve" {
		return nil, toolyard.Errorf(toolyard.PermissionDenied, "Rule %s requires approval, and the user declined the call. Do not repeat it unless the user asks you to.", a.Verdict.Names())
	}
	c.RequestState, c.InputResponses = "", nil // the answer was meant for this step
	return s.run(ctx, c, a)
}

// run runs an approved call. If the tool requires input, the approval also covers the next round.
func (s *ruleStep) run(ctx context.Context, c *toolyard.Call, a *Approval) (*toolyard.Result, error) {
	res, err := s.next(ctx, c)
	if err != nil || !res.InputRequired() {
		return res, err
	}
	token := s.Sealer().Seal(sealApproved, a.Binding[:], s.now().Add(approvalTime+time.Second))
	return withState(res, func(inner string) string { return approvedPrefix + token + "\n" + inner })
}

// askOperator waits for an operator's decision, and runs the call if it is approved.
func (s *ruleStep) askOperator(ctx context.Context, c *toolyard.Call, a *Approval) (*toolyard.Result, error) {
	if s.Operators == nil {
		text := fmt.Sprintf("Rule %s requires the user to approve this call, but this client cannot ask the user. Use a client that supports elicitation.", a.Verdict.Names())
		if c.Depth > 0 {
			text = fmt.Sprintf("Rule %s requires approval for this call, but approval cannot be requested for calls that another tool makes.", a.Verdict.Names())
		}
		return nil, toolyard.Errorf(toolyard.ApprovalRequired, "%s", refusal(&a.Verdict, text))
	}
	id, err := s.Operators.Await(ctx, c, a)
	if err != nil {
		return nil, err
	}
	if s.Recheck != nil {
		if err := s.Recheck(ctx, c); err != nil {
			return nil, err
		}
	}
	if id != "" {
		ctx = context.WithValue(ctx, approvalOf{}, usedApproval{c.ID, id})
	}
	return s.run(ctx, c, a)
}

// approvalOf is the context key for the approval that the call's admission consumes.
type approvalOf struct{}

// usedApproval is the approval of one call. Calls made by its tool inherit the context but not the
// approval.
type usedApproval struct{ call, id string }

// approvalID returns the ID of the approval that the call must consume, or "" if there is none.
func approvalID(ctx context.Context, c *toolyard.Call) string {
	if used, ok := ctx.Value(approvalOf{}).(usedApproval); ok && used.call == c.ID {
		return used.id
	}
	return ""
}

// question returns the text of the approval form.
func question(c *toolyard.Call, a *Approval) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Approve this call? Rule %s requires approval.\n", a.Verdict.Names())
	if m := a.Verdict.Message(); m != "" {
		b.WriteString(m + "\n")
	}
	fmt.Fprintf(&b, "\nTool: %s\n", c.Tool.Name)
	if c.Tool.Server != "" {
		fmt.Fprintf(&b, "Server: %s\n", c.Tool.Server)
	}
	if a.Price > 0 {
		fmt.Fprintf(&b, "Price: %s USD\n", a.Price)
	}
	fmt.Fprintf(&b, "Arguments: %s", a.Preview.Args)
	if a.Preview.Hidden > 0 {
		fmt.Fprintf(&b, "\n%d values are hidden because they may be secrets.", a.Preview.Hidden)
	}
	return b.String()
}

// Prefixes of the request states that this step writes. The server seals request states, and this
// step seals its own part, so a tool cannot forge them.
const (
	askedPrefix    = "toolyard.asked\n"
	approvedPrefix = "toolyard.approved\n"
)

// callState is the part of a request state that this step wrote.
type callState struct {
	asked    string // state of the pending question
	approved string // sealed approval
}

// openState removes the part of the request state that this step wrote, so that the tool sees only
// its own state.
func openState(c *toolyard.Call) (s callState) {
	if asked, ok := strings.CutPrefix(c.RequestState, askedPrefix); ok {
		c.RequestState, s.asked = "", asked
	} else if rest, ok := strings.CutPrefix(c.RequestState, approvedPrefix); ok {
		s.approved, c.RequestState, _ = strings.Cut(rest, "\n")
	}
	return s
}

// withState replaces the request state of an unfinished result.
func withState(res *toolyard.Result, edit func(inner string) string) (*toolyard.Result, error) {
	list, _ := jsonobject.Members(res.Raw())
	inner, found := "", false
	for i, m := range list {
		if m.Key == "requestState" {
			inner, _ = jsonobject.String(m.Value)
			list[i].Value, found = jsonobject.AppendString(nil, edit(inner)), true
		}
	}
	if !found {
		list = append(list, jsonobject.Member{Key: "requestState", Value: jsonobject.AppendString(nil, edit(""))})
	}
	changed := &toolyard.Result{}
	return changed, changed.UnmarshalJSON(jsonobject.Join(list))
}
