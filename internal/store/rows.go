package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// engine is a database. It knows nothing of limits and money: it reads rows, has them
// changed, and writes what was changed, in one durable transaction.
type engine interface {
	// exchange reads and locks the rows that refs name, in the order paces, purses, holds,
	// runs, each sorted, calls change, and writes what it changed. Rows that are not there are
	// absent from the maps, except paces, which are made. An error of change undoes
	// everything. It tries again what the database asks to try again.
	exchange(ctx context.Context, r refs, change func(*rows) error) error
	// clock is the time of the database.
	clock(ctx context.Context) (time.Time, error)
	// stale finds what has expired: holds, sessions, runs. Each entry can be handled by itself.
	stale(ctx context.Context, limit int) ([]refs, error)
	// gather moves sums to the totals.
	gather(ctx context.Context) error
	// maintain forgets what need not be kept, and gathers.
	maintain(ctx context.Context, keep time.Duration) error
	// document reads a document: nothing, of version zero, if there is none.
	document(ctx context.Context, name string) (body []byte, version int64, err error)
	// setDocument replaces a document of the given version, and reports whether it had it. It
	// keeps the new version unless it is nil.
	setDocument(ctx context.Context, name string, body []byte, version int64, kept *VersionRow) (done bool, err error)
	// follow calls seen with the versions of all documents, soon after they have changed and
	// at other times too, until ctx ends.
	follow(ctx context.Context, f follower)
	send(ctx context.Context, to, message string) error
	// explain tells errors that mean that the database is away from others.
	explain(err error) error
}

// refs name rows.
type refs struct {
	paces  []string
	purses []string // with all their holds that have expired
	holds  []string
	runs   []RunID
	calls  []callRef // to find out which were charged already
}

// callRef names a call as the record has it, or a transfer, which has no time.
type callRef struct {
	id string
	at time.Time
}

// sorted puts the names in order, each once.
func (r *refs) sorted() {
	for _, list := range []*[]string{&r.paces, &r.purses, &r.holds} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.SortFunc(r.runs, compareRuns)
	r.runs = slices.Compact(r.runs)
}

// merge names the rows of all.
func merge(list []refs) (all refs) {
	for _, r := range list {
		all.purses, all.holds, all.runs = append(all.purses, r.purses...), append(all.holds, r.holds...), append(all.runs, r.runs...)
	}
	all.sorted()
	return all
}

// subject is what an entry of expired rows is about.
func (r *refs) subject() string {
	switch {
	case len(r.holds) > 0:
		return "hold " + r.holds[0]
	case len(r.purses) > 0:
		return "session " + r.purses[0]
	case len(r.runs) > 0:
		return "key " + r.runs[0].Scope + " " + r.runs[0].Key
	}
	return ""
}

// rows are what a transaction sees and changes.
type rows struct {
	now       time.Time // of the database, read once the rows are locked
	paces     map[string]*paceRow
	purses    map[string]*purseRow
	holds     map[string]*holdRow
	runs      map[RunID]*runRow
	charged   map[string]bool // calls that were charged already, and transfers that are there
	transfers []transfer      // to be written
	calls     []*CallRow      // to be written; one that is there already stays as it is
}

// change is what becomes of a row.
type change int

const (
	unchanged change = iota
	created          // to be inserted; if it is there meanwhile, the whole exchange begins again
	changed          // to be updated
	deleted
)

// paceRow is how much of a limit is used. State is JSON.
type paceRow struct {
	change
	state json.RawMessage // nil for a new one
}

// purseRow is an account or a session. Balance is what nobody holds; it is never negative.
type purseRow struct {
	change
	id        string
	account   string // itself, for an account
	state     ledger.State
	limit     toolyard.Money // of a session
	balance   toolyard.Money // neither spent nor held
	held      toolyard.Money // the sum of what its holds have left and have spent
	spent     toolyard.Money // by holds that have ended
	calls     int            // by holds that have ended
	heldCalls int            // the sum of the calls that its holds have left and have spent
	maxCalls  int            // zero for any number
	expires   time.Time      // zero for never
}

// holdRow is money of a purse that is held for calls: those of a replica, or a single one.
type holdRow struct {
	change
	id         string
	purse      string
	replica    string
	serial     int64 // of the last ask that topped it up
	left       toolyard.Money
	spent      toolyard.Money
	callsLeft  int
	callsSpent int
	expires    time.Time
}

// runState is how far a call with an idempotency key is.
type runState string

const (
	running runState = "running"
	done    runState = "done"
	unknown runState = "unknown"
)

// runRow is a call with an idempotency key.
type runRow struct {
	change
	id      RunID
	digest  [sha256.Size]byte
	call    string
	state   runState
	until   time.Time // when a running one must have ended; when one that ended is forgotten
	outcome json.RawMessage
}

// transfer moves money from one place to another: purse/x, hold/x, sales/x, world. Charges
// are written as one transfer for all calls of an exchange that the same hold pays to the same
// seller; what each of them cost is on the record of calls, which is written with it.
type transfer struct {
	id       string // unique; of a charge, the call
	from, to string
	amount   toolyard.Money
	kind     string // fund, open, lease, charge, release, close
	purse    string // for a charge: who pays in the end
	at       time.Time
}
