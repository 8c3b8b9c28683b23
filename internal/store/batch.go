package store

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/toolyard/toolyard"
)

// Batch is what a replica asks of the store at once. It is one transaction, done in the
// order of the fields.
type Batch struct {
	Replica string
	Returns []PaceReturn // permits to give back
	Settles []Settle     // calls that ended
	Drops   []Drop       // money to give back
	Paces   []PaceAsk    // permits to lease
	Funds   []FundAsk    // money to lease
	Admits  []Admit      // calls to admit: permits, money and key, all of them or none
}

// Answers are the answers to a batch, in the same order.
type Answers struct {
	Settles []Settled
	Paces   []PaceGrant
	Funds   []FundGrant
	Admits  []Admitted
}

// PaceAsk asks to lease permits of a limit.
type PaceAsk struct {
	Key     string
	Limit   toolyard.Limit
	Permits int           // of calls that may begin, if the limit is per minute
	Slots   int           // of calls that may run, if the limit is on concurrency
	Turn    bool          // to be the one that begins calls, if there is a cooldown
	Hold    time.Duration // how long a slot is needed at most
}

// PaceGrant is what was leased. What is less than was asked for may be had later.
type PaceGrant struct {
	Permits  int
	Slot     int64 // when it was granted, to give it back
	Slots    int
	Turn     bool
	After    time.Duration // how long to wait before it is worth asking for what is missing
	Replicas int           // how many replicas ask for this limit these days
}

// PaceReturn gives permits back. A turn is given back as soon as its call has begun.
type PaceReturn struct {
	Key     string
	Limit   toolyard.Limit
	Permits int
	Slot    int64 // of the grant
	Slots   int
	Turn    bool
}

// FundAsk asks to lease money, and calls, from a purse. The hold is chosen by the replica,
// so that asking again after a lost answer leases once; a hold that exists is topped up.
type FundAsk struct {
	Hold    string
	Serial  int64 // greater than that of the last ask for this hold
	Purse   string
	Account string         // that the purse must be of
	Want    toolyard.Money // as much as this if it is there
	Least   toolyard.Money // less than this is nothing
	Calls   int            // if the purse counts calls
	Idle    toolyard.Money // of what the hold has, what nothing was taken from yet: it goes back if the ask is refused
	TTL     time.Duration
}

// FundGrant is what the hold has now.
type FundGrant struct {
	Left    toolyard.Money
	Calls   int
	Counts  bool // the purse counts calls
	Refused *Refusal
	Spent   toolyard.Money // by the purse, as far as the store knows
	Purse   toolyard.Money // what the purse could still spend, including what is held
}

// Drop gives a hold back, or all of it but what is kept.
type Drop struct {
	Hold, Purse string
	Serial      int64 // greater than that of the last ask for this hold
	Keep        toolyard.Money
	KeepCalls   int
}

// Refusal says why something was not given.
type Refusal struct {
	Code    toolyard.Code
	Pace    int // which pace of an Admit, if its limit is reached
	Message string
	After   time.Duration // when to ask again, zero if that does not help
}

// RunID is an idempotency key within its scope.
type RunID struct{ Scope, Key string }

// Admit asks for all that one call needs.
type Admit struct {
	Call    string
	Run     RunID
	Digest  [sha256.Size]byte
	Paces   []PaceAsk // one permit, one slot, one turn of each
	Purse   string    // empty for none
	Account string    // that the purse must be of
	Price   toolyard.Money
	Timeout time.Duration // how long the call may take
	Full    bool          // the caller has as many keys as it may have, so no new one is taken
}

// Admitted is the answer to an Admit. Money of it is in a hold with the id of the call.
type Admitted struct {
	Refused *Refusal
	Replay  json.RawMessage // the outcome of the call that ran with this key; nil if this one is to run
	Paces   []PaceGrant
	Spent   toolyard.Money
	Purse   toolyard.Money
}

// Settle says how a call ended.
type Settle struct {
	Call    string
	Hold    string // the hold that pays, empty for none
	Purse   string // of the hold
	Amount  toolyard.Money
	Calls   int // to count
	Seller  string
	Last    bool   // the hold ends with it
	Run     *RunID // whose outcome it is, nil for none
	Outcome json.RawMessage
	Unknown bool     // nobody can say how it ended
	Never   bool     // it was admitted and did not run: its key is free again
	Row     *CallRow // the call, which is recorded with its charge
}

// Settled is the answer to a Settle.
type Settled struct {
	Refused *Refusal
}
