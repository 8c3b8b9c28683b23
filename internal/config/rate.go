package config

import (
	"encoding/json"
	"strconv"

	"github.com/toolyard/toolyard"
)

// Rate is a limit that all replicas share.
type Rate struct {
	PerMinute   int      `json:"perMinute,omitempty"`
	Cooldown    Duration `json:"cooldown,omitempty"`
	Concurrency int      `json:"concurrency,omitempty"`
	Per         string   `json:"per,omitempty"`
}

// Rates are limits that apply at the same time, at most one for each value of Per. In the file,
// they are an object or a list.
type Rates []Rate

// JSONSchema describes Rates.
func (Rates) JSONSchema() json.RawMessage {
	const properties = `"additionalProperties":false,"properties":{` +
		`"perMinute":{"type":"integer","minimum":1,"maximum":100000000,"description":"Maximum number of calls that start in any 60 seconds."},` +
		`"cooldown":{"type":"string","pattern":"^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$","examples":["30s"],"description":"Minimum time between the start of one call and the start of the next."},` +
		`"concurrency":{"type":"integer","minimum":1,"maximum":1000000,"description":"Maximum number of concurrent calls."},` +
		`"per":{"type":"string","enum":["account","caller"],"description":"Whether the limit applies to each account or each caller separately. By default, all callers share it."}}`
	return json.RawMessage(`{"type":["object","array"],` + properties + `,"maxItems":3,"items":{"type":"object",` + properties + `}}`)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *Rates) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]Rate)(r))
	}
	var one Rate
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	*r = Rates{one}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (r Rates) MarshalJSON() ([]byte, error) {
	if len(r) == 1 {
		return json.Marshal(r[0])
	}
	return json.Marshal([]Rate(r))
}

// Limits returns the limits.
func (r Rates) Limits() (limits []toolyard.Limit) {
	for _, rate := range r {
		limits = append(limits, toolyard.Limit{PerMinute: rate.PerMinute, Cooldown: rate.Cooldown.Std(), Concurrency: rate.Concurrency, Per: rate.Per})
	}
	return limits
}

// check reports limits that count for the same callers.
func (r Rates) check(report reportFunc, steps ...string) {
	seen := make(map[string]bool)
	for i, rate := range r {
		if seen[rate.Per] {
			report("is a second limit with the same scope: combine them, or set per to account or caller", append(steps, strconv.Itoa(i))...)
		}
		seen[rate.Per] = true
	}
}

// checkRates checks the rate and spend limits of gates, servers and tools.
func (c *Config) checkRates(report reportFunc) {
	for name, g := range c.Gates {
		g.Rate.check(report, "gates", name, "rate")
		g.Spend.check(report, "gates", name, "spend")
	}
	for name, t := range c.Terms {
		t.Rate.check(report, "terms", name, "rate")
		t.Spend.check(report, "terms", name, "spend")
	}
	for id, s := range c.Servers {
		s.Rate.check(report, "servers", id, "rate")
		s.Spend.check(report, "servers", id, "spend")
		for name, t := range s.Terms {
			t.Rate.check(report, "servers", id, "terms", name, "rate")
			t.Spend.check(report, "servers", id, "terms", name, "spend")
		}
	}
}
