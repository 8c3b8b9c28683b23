package store

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/toolyard/toolyard"
)

// CallRow is a call on the record.
type CallRow struct {
	ID         string          `json:"id"`
	At         time.Time       `json:"at"`
	Elapsed    time.Duration   `json:"elapsedNs"`
	Gate       string          `json:"gate"`
	Mode       toolyard.Mode   `json:"mode"`
	Caller     string          `json:"caller"`
	Account    string          `json:"account,omitempty"`
	Session    string          `json:"session,omitempty"`
	Server     string          `json:"server,omitempty"`
	Tool       string          `json:"tool"`
	Generation uint64          `json:"generation"`
	Code       toolyard.Code   `json:"code"`
	Price      toolyard.Money  `json:"priceUsd"`
	ArgsSize   int             `json:"argsBytes"`
	ResultSize int             `json:"resultBytes"`
	Args       json.RawMessage `json:"args,omitempty"`    // as far as the configuration wants them kept
	Parent     string          `json:"parent,omitempty"`  // the call that this one was made inside of
	Message    string          `json:"message,omitempty"` // of a failure
	Marks      []Mark          `json:"marks,omitempty"`   // when it came to each step of its path, in whole microseconds
}

// purse is what paid for the call, if it cost something.
func (r *CallRow) purse() string { return cmp.Or(r.Session, r.Account) }
