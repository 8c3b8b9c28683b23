package toolyard

import (
	"encoding/json"
	"maps"
)

// AllMeta is the Meta of a tool together with what its other fields say in the form
// that tools publish it: rateLimit, contextRequirements, surface, queryEligible,
// latencyClass and pricing. What Meta holds already stands.
func (s *Spec) AllMeta() map[string]json.RawMessage {
	meta := make(map[string]json.RawMessage)
	if l := s.Limit.meta(); len(l) > 0 {
		meta["rateLimit"] = mustMarshal(l)
	}
	if len(s.Needs) > 0 {
		meta["contextRequirements"] = mustMarshal(s.Needs)
	}
	if s.Surface != "" {
		meta["surface"] = mustMarshal(s.Surface)
	}
	if s.Hidden {
		meta["queryEligible"] = json.RawMessage("false")
	}
	if s.Latency != "" {
		meta["latencyClass"] = mustMarshal(s.Latency)
	}
	switch {
	case s.Price.OptOut:
		meta["pricing"] = json.RawMessage(`{"executeUsd":null}`)
	case s.Price.Set:
		meta["pricing"] = mustMarshal(map[string]Money{"executeUsd": s.Price.USD})
	}
	maps.Copy(meta, s.Meta)
	return meta
}

func (l *Limit) meta() map[string]any {
	m := make(map[string]any)
	for key, value := range map[string]int64{
		"maxRequestsPerMinute": int64(l.PerMinute),
		"cooldownMs":           l.Cooldown.Milliseconds(),
		"maxConcurrency":       int64(l.Concurrency),
	} {
		if value > 0 {
			m[key] = value
		}
	}
	if l.Bulk {
		m["supportsBulk"] = true
	}
	if len(l.BatchTools) > 0 {
		m["recommendedBatchTools"] = l.BatchTools
	}
	if l.Notes != "" {
		m["notes"] = l.Notes
	}
	return m
}
