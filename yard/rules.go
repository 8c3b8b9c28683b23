package yard

import (
	"sync"

	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/trust/seal"
)

// governance returns how calls are subject to the rules of an assembly.
func (b *assembler) governance(a *assembly) callpath.Governance {
	return callpath.Governance{Rules: a.Rules, Tracked: offersCode(a.Gates), Digest: settings.CallDigest, Redact: b.secrets.redact, Sealer: b.approvalSealer}
}

// newApprovalSealer returns the sealer of approvals of callers, which is made on first use.
func newApprovalSealer(key func() httpapi.SealKey) func() seal.Sealer {
	return sync.OnceValue(func() seal.Sealer {
		secret := key()
		return seal.New(secret[:], "toolyard approval")
	})
}
