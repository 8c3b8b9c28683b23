package ledger

import (
	"time"

	"github.com/toolyard/toolyard"
)

// ApprovalState is the state of an approval.
type ApprovalState string

// The states of an approval.
const (
	ApprovalPending  ApprovalState = "pending"
	ApprovalApproved ApprovalState = "approved" // approved but not used yet
	ApprovalDeclined ApprovalState = "declined"
	ApprovalUsed     ApprovalState = "used" // used by one call
	ApprovalExpired  ApprovalState = "expired"
)

// ApprovalRow is the part of an approval that changes when it is used.
type ApprovalRow struct {
	Change
	ID      string
	State   ApprovalState
	Expires time.Time
	Call    string    // call that used the approval; empty if none
	Key     string    // idempotency key of that call
	Used    time.Time // zero if the approval was not used
}

// refuseApproval returns the reason if a call cannot use its approval, or nil.
func (b *books) refuseApproval(a *AdmitRequest) *Refusal {
	r := b.Approvals[a.Approval]
	switch {
	case a.Approval == "", r != nil && r.State == ApprovalApproved && r.Expires.After(b.Now):
		return nil
	case r != nil && r.State == ApprovalDeclined:
		return &Refusal{Code: toolyard.PermissionDenied, Message: "The call was declined."}
	case r != nil && r.State == ApprovalUsed:
		return &Refusal{Code: toolyard.ApprovalRequired, Message: "The approval was used by another call. Repeat the call to request a new approval."}
	}
	return &Refusal{Code: toolyard.ApprovalRequired, Message: "The approval has expired. Repeat the call to request a new approval."}
}

// useApproval marks the approval of an admitted call as used.
func (b *books) useApproval(a *AdmitRequest) {
	r := b.Approvals[a.Approval]
	if a.Approval == "" {
		return
	}
	r.State, r.Call, r.Used = ApprovalUsed, a.Call, b.Now
	if a.Run.Key != a.Call { // a call with no idempotency key uses its ID as the key
		r.Key = a.Run.Key
	}
	r.Mark()
}

// returnApproval makes an approval available again if its call did not start.
func (b *books) returnApproval(s *Settlement) {
	r := b.Approvals[s.Unused]
	if r == nil || r.State != ApprovalUsed || r.Call != s.Call {
		return
	}
	r.State, r.Call, r.Key, r.Used = ApprovalApproved, "", "", time.Time{}
	r.Mark()
}
