package callpath

import (
	"crypto/sha256"
	"time"

	"github.com/toolyard/toolyard/internal/callpath/rules"
)

// taintRule is the name of the built-in rule for tools that send data out. Its approval requests
// expire after taintWithin.
const (
	taintRule   = "taint"
	taintWithin = 30 * time.Minute
)

// withTaint adds the built-in rule to a verdict, so that an operator has to approve the call.
// Configured rules cannot override it, and it does not override a denial.
func withTaint(v rules.Verdict, reason string) rules.Verdict {
	if reason == "" || v.Action == rules.Deny {
		return v
	}
	if v.Action != rules.Ask {
		v = rules.Verdict{Action: rules.Ask, Within: taintWithin}
	}
	v.By, v.Within = rules.Operator, min(v.Within, taintWithin)
	v.Rules = append(v.Rules, rules.Matched{Name: taintRule, Message: reason + ".", Digest: sha256.Sum256([]byte(taintRule))})
	return v
}
