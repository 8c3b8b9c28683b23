package config

import (
	"encoding/json"
	"slices"
	"strconv"
)

// Spend limits the price of calls per calendar day and month in UTC. All replicas share it.
type Spend struct {
	PerDay   *Amount `json:"perDayUsd,omitempty"`
	PerMonth *Amount `json:"perMonthUsd,omitempty"`
	Per      string  `json:"per,omitempty"`
}

// Spends are spend limits that apply at the same time, at most one for each value of Per. In the
// file, they are an object or a list.
type Spends []Spend

// JSONSchema describes Spends.
func (Spends) JSONSchema() json.RawMessage {
	const amount = `{"type":"string","pattern":"^[0-9]{1,9}(\\.[0-9]{1,9})?$","examples":["20.00"],"description":"Maximum total price of calls per calendar `
	const properties = `"additionalProperties":false,"properties":{` +
		`"perDayUsd":` + amount + `day (UTC), in US dollars, as a string."},` +
		`"perMonthUsd":` + amount + `month (UTC), in US dollars, as a string."},` +
		`"per":{"type":"string","enum":["account","caller"],"description":"Whether the limit applies to each account or each caller separately. By default, all callers share it."}}`
	return json.RawMessage(`{"type":["object","array"],` + properties + `,"maxItems":3,"items":{"type":"object",` + properties + `}}`)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Spends) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]Spend)(s))
	}
	var one Spend
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	*s = Spends{one}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (s Spends) MarshalJSON() ([]byte, error) {
	if len(s) == 1 {
		return json.Marshal(s[0])
	}
	return json.Marshal([]Spend(s))
}

// check reports limits that have no amount, and limits that count for the same callers.
func (s Spends) check(report reportFunc, steps ...string) {
	seen := make(map[string]bool)
	for i, spend := range s {
		at := append(slices.Clip(steps), strconv.Itoa(i))
		if spend.PerDay == nil && spend.PerMonth == nil {
			report("must set perDayUsd, perMonthUsd or both", at...)
		}
		if seen[spend.Per] {
			report("is a second limit with the same scope: combine them, or set per to account or caller", at...)
		}
		seen[spend.Per] = true
	}
}
