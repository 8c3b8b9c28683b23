package settings

import (
	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/config"
)

// SpendLimit is a spend limit and its scope.
type SpendLimit struct {
	ledger.SpendLimit
	Per string // account, caller, or empty if all callers share the limit
}

// SpendLimitsOf returns the spend limits that count paid calls to a tool at a gate, widest first.
func (s *Settings) SpendLimitsOf(gate string, t *toolyard.Tool) []SpendLimit {
	limits, terms := s.GateSpendLimits(gate), s.Config.Terms
	if server, ok := s.Servers[t.Server]; ok {
		limits = append(limits, spendLimits("server/"+t.Server, "server "+t.Server, server.Spend)...)
		terms = server.Terms
	}
	return append(limits, spendLimits(ToolLimitKey(t), "tool "+t.Name, terms[t.Name].Spend)...)
}

// GateSpendLimits returns the spend limits on all calls at a gate.
func (s *Settings) GateSpendLimits(gate string) []SpendLimit {
	return spendLimits("gate/"+gate, "gate "+gate, s.Config.Gates[gate].Spend)
}

// spendLimits returns the spend limits of a gate, a server or a tool, widest first.
func spendLimits(key, name string, spends config.Spends) (limits []SpendLimit) {
	for _, per := range []string{"", "account", "caller"} {
		for _, spend := range spends {
			if spend.Per != per {
				continue
			}
			for _, l := range []struct {
				period ledger.Period
				amount *config.Amount
			}{{ledger.Month, spend.PerMonth}, {ledger.Day, spend.PerDay}} {
				if l.amount != nil {
					limit := ledger.SpendLimit{Key: key + "/spend/" + string(l.period) + scopePrefixes[per], Name: name, Max: toolyard.Money(*l.amount), Period: l.period}
					limits = append(limits, SpendLimit{limit, per})
				}
			}
		}
	}
	return limits
}
