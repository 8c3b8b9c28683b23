package toolyard

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// SetMeta fills the fields that tools publish as metadata from it: rateLimit (also
// rateLimitHints), contextRequirements, surface, queryEligible, latencyClass and pricing.
// What it does not know goes to Meta as it is.
func (s *Spec) SetMeta(meta map[string]json.RawMessage) error {
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if err := s.setMeta(key, meta[key]); err != nil {
			return fmt.Errorf("_meta.%s: %w", key, err)
		}
	}
	return nil
}

func (s *Spec) setMeta(key string, value json.RawMessage) error {
	switch key {
	case "rateLimit", "rateLimitHints":
		return s.Limit.setMeta(value)
	case "contextRequirements":
		return json.Unmarshal(value, &s.Needs)
	case "surface":
		return json.Unmarshal(value, &s.Surface)
	case "queryEligible":
		var eligible bool
		err := json.Unmarshal(value, &eligible)
		s.Hidden = !eligible
		return err
	case "latencyClass":
		return json.Unmarshal(value, &s.Latency)
	case "pricing":
		return s.Price.setMeta(value)
	}
	if s.Meta == nil {
		s.Meta = make(map[string]json.RawMessage)
	}
	s.Meta[key] = value
	return nil
}

func (l *Limit) setMeta(value json.RawMessage) error {
	var m struct {
		PerMinute   int      `json:"maxRequestsPerMinute"`
		CooldownMs  int64    `json:"cooldownMs"`
		Concurrency int      `json:"maxConcurrency"`
		Bulk        bool     `json:"supportsBulk"`
		BatchTools  []string `json:"recommendedBatchTools"`
		Notes       string   `json:"notes"`
	}
	if err := json.Unmarshal(value, &m); err != nil {
		return err
	}
	if m.PerMinute < 0 || m.CooldownMs < 0 || m.Concurrency < 0 {
		return fmt.Errorf("a limit cannot be negative")
	}
	*l = Limit{m.PerMinute, time.Duration(m.CooldownMs) * time.Millisecond, m.Concurrency, m.Bulk, m.BatchTools, m.Notes}
	return nil
}

// setMeta reads {"executeUsd": "0.001"}, or null for a tool that is never for sale.
func (p *Price) setMeta(value json.RawMessage) error {
	o, ok := members(value)
	usd, has := o["executeUsd"]
	switch {
	case !ok:
		return fmt.Errorf("it must be an object")
	case !has:
		return nil
	case string(usd) == "null":
		p.OptOut = true
		return nil
	}
	p.Set = true
	if err := json.Unmarshal(usd, &p.USD); err != nil {
		return fmt.Errorf(`executeUsd must be a decimal in quotes, such as "0.001": %w`, err)
	}
	if p.USD < 0 {
		return fmt.Errorf("executeUsd cannot be negative")
	}
	return nil
}

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
