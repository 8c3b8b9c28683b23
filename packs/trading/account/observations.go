package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/yard"
)

// Observation is a result that a caller received.
type Observation struct {
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"arguments"`
	Result json.RawMessage `json:"result,omitempty"` // absent if too large
	Bytes  int             `json:"bytes"`
	Digest string          `json:"sha256"` // digest of the whole result
	At     time.Time       `json:"at"`
}

const (
	kindObservation = "observation"
	kindDecided     = "decided" // separates the observations for two decisions

	maxObservation  = 16 << 10 // bytes of a result to store
	maxObservedArgs = 8 << 10
	maxObservations = 50 // per decision
	freshFor        = 15 * time.Minute
)

// observationStream returns the stream with a caller's observations. The caller's name is hashed,
// because it may be long.
func (a *Account) observationStream(caller string) string {
	sum := sha256.Sum256([]byte(caller))
	return "seen/" + a.Name + "/" + hex.EncodeToString(sum[:8])
}

// Observe records a result that a caller received, for the snapshot of the caller's next decision.
func (a *Account) Observe(ctx context.Context, c *toolyard.Call, structured json.RawMessage) error {
	sum := sha256.Sum256(structured)
	o := Observation{Tool: c.Tool.Name, Args: bytes.TrimSpace(c.Args), Bytes: len(structured), Digest: hex.EncodeToString(sum[:])}
	if len(structured) <= maxObservation {
		o.Result = structured
	}
	if len(o.Args) > maxObservedArgs {
		o.Args = nil
	}
	return a.appendObservation(ctx, a.observationStream(c.Caller.ID), row(kindObservation, c.Session, c.AsOf, o))
}

func (a *Account) appendObservation(ctx context.Context, stream string, e yard.JournalEntry) error {
	for range maxAttempts {
		last, err := a.Journal.Last(ctx, stream)
		if err != nil {
			return err
		}
		_, err = a.Journal.Append(ctx, stream, last, e)
		if !HasCode(err, toolyard.VersionConflict) {
			return err
		}
	}
	return errTooBusy
}

// observedRange locates the observations of a proposal's caller.
func (a *Account) observedRange(ctx context.Context, r *Request) (*ObservedRange, error) {
	stream := a.observationStream(r.Caller)
	last, err := a.Journal.Last(ctx, stream)
	if err != nil || last == 0 {
		return nil, err
	}
	return &ObservedRange{Stream: stream, Session: r.Session, Last: last}, nil
}

// closeObservedRange separates the next decision's observations from this decision's. If it fails,
// the next decision includes too many observations, which is harmless.
func (a *Account) closeObservedRange(ctx context.Context, o *ObservedRange, id string, asOf time.Time) {
	if o == nil {
		return
	}
	if err := a.appendObservation(ctx, o.Stream, row(kindDecided, "", asOf, id)); err != nil {
		a.Log.Warn("could not assign recorded observations to a decision", "account", a.Name, "decision", id, "error", err)
	}
}

// Observations returns the caller's observations before a decision, oldest first: those since its
// last decision, in the same session or within 15 minutes.
func (a *Account) Observations(ctx context.Context, d *Decision, at time.Time) ([]Observation, error) {
	if d.Observed == nil {
		return nil, nil
	}
	rows, err := a.Journal.List(ctx, d.Observed.Stream, yard.JournalQuery{Before: d.Observed.Last + 1, Until: at, Newest: true, Limit: maxObservations})
	if err != nil {
		return nil, err
	}
	var list []Observation
	for _, r := range rows {
		if r.Kind == kindDecided || d.Observed.Session == "" && at.Sub(r.AsOf) > freshFor {
			break
		}
		if d.Observed.Session != "" && r.Key != d.Observed.Session {
			continue
		}
		var o Observation
		if err := json.Unmarshal(r.Body, &o); err != nil {
			return nil, err
		}
		o.At = r.AsOf
		list = append(list, o)
	}
	slices.Reverse(list)
	return list, nil
}
