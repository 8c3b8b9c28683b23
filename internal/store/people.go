package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/serverauth"
)

// Person is a caller identified by an issuer.
type Person struct {
	Caller  string // ID of the caller
	Issuer  string // name of the issuer
	Subject string
	Name    string
	Email   string
	Groups  []string  // groups in the latest token
	First   time.Time // first time seen; zero if never
	Seen    time.Time // last time seen; zero if never
	Block   Block
}

// Block is the decision to block a person. The zero value means not blocked.
type Block struct {
	At     time.Time
	By     string
	Reason string
}

// Position returns a person's position in a list.
func (p *Person) Position() (time.Time, string) { return time.UnixMicro(micros(p.Seen)), p.Caller }

const (
	personColumns = "caller, issuer, subject, name, email, groups, first_seen, seen, blocked, blocked_by, reason"

	// seenPrecision is the minimum time between two updates of a person who has not changed.
	seenPrecision = 5 * time.Minute
	// maxGroupsText is the maximum size of the stored groups, in bytes of JSON.
	maxGroupsText = 8 << 10
)

// SawPeople records people. A person who has not changed is written at most once per seenPrecision.
func (s *peopleStore) SawPeople(ctx context.Context, people []*Person) error {
	for _, p := range people {
		_, err := s.db.ExecContext(ctx, `INSERT INTO people (`+personColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $7, 0, '', '')
			ON CONFLICT (caller) DO UPDATE SET groups = excluded.groups, seen = excluded.seen,
				name = CASE excluded.name WHEN '' THEN people.name ELSE excluded.name END,
				email = CASE excluded.email WHEN '' THEN people.email ELSE excluded.email END,
				first_seen = CASE people.first_seen WHEN 0 THEN excluded.first_seen ELSE people.first_seen END
			WHERE people.seen < excluded.seen AND (people.seen < $8 OR people.groups <> excluded.groups
				OR excluded.name NOT IN ('', people.name) OR excluded.email NOT IN ('', people.email))`,
			p.Caller, p.Issuer, clean(p.Subject), clean(p.Name), clean(p.Email), groupsText(p.Groups), micros(p.Seen), micros(p.Seen.Add(-seenPrecision)))
		if err != nil {
			return s.personError(err)
		}
	}
	return nil
}

// groupsText encodes as many groups as fit.
func groupsText(groups []string) string {
	for {
		text, err := json.Marshal(append([]string{}, groups...))
		if err == nil && len(text) <= maxGroupsText {
			return clean(string(text))
		}
		groups = groups[:len(groups)/2]
	}
}

// PersonQuery selects people. Empty fields don't restrict the selection.
type PersonQuery struct {
	Part   string // selects people who have this text in their ID, name or e-mail address
	Issuer string
	State  string // active or blocked
	Before Cursor // only people after this position; zero for the first page
	Limit  int    // MaxCalls if zero or greater
}

// People lists people, most recently seen first.
func (s *peopleStore) People(ctx context.Context, q PersonQuery) ([]*Person, error) {
	if q.Limit <= 0 || q.Limit > MaxCalls {
		q.Limit = MaxCalls
	}
	f := &filter{}
	f.equal("issuer", q.Issuer)
	s.having(f, q.Part, "caller", "name", "email")
	switch q.State {
	case "blocked":
		f.where = append(f.where, "blocked <> 0")
	case "active":
		f.where = append(f.where, "blocked = 0")
	}
	if !q.Before.At.IsZero() {
		f.where = append(f.where, fmt.Sprintf("(seen, caller) < (%s, %s)", f.arg(q.Before.At.UnixMicro()), f.arg(q.Before.ID)))
	}
	return collect(ctx, s.database, q.Limit, readPerson,
		"SELECT "+personColumns+" FROM people"+f.String()+" ORDER BY seen DESC, caller DESC LIMIT "+f.arg(q.Limit), f.args)
}

// BlockPerson blocks a person. A person who was never seen is blocked in advance. A person who is
// already blocked is not changed.
func (s *peopleStore) BlockPerson(ctx context.Context, caller string, b Block) (*Person, error) {
	issuer, subject, _ := strings.Cut(caller, ":")
	_, err := s.db.ExecContext(ctx, `INSERT INTO people (`+personColumns+`) VALUES ($1, $2, $3, '', '', '[]', 0, 0, $4, $5, $6)
		ON CONFLICT (caller) DO UPDATE SET blocked = excluded.blocked, blocked_by = excluded.blocked_by, reason = excluded.reason WHERE people.blocked = 0`,
		caller, issuer, subject, micros(b.At), b.By, clean(b.Reason))
	if err == nil { // delete tokens stored when the person signed in
		_, err = s.db.ExecContext(ctx, `DELETE FROM connections WHERE account = '' AND caller = $1 AND server = $2`, caller, serverauth.SignInPrefix+issuer)
	}
	if err != nil {
		return nil, s.personError(err)
	}
	s.announce(ctx, PeopleDocument)
	return s.person(ctx, caller)
}

// UnblockPerson unblocks a person. The error is NotFound if the person is unknown.
func (s *peopleStore) UnblockPerson(ctx context.Context, caller string) (*Person, error) {
	if _, err := s.db.ExecContext(ctx, `UPDATE people SET blocked = 0, blocked_by = '', reason = '' WHERE caller = $1`, caller); err != nil {
		return nil, s.personError(err)
	}
	s.announce(ctx, PeopleDocument)
	return s.person(ctx, caller)
}

// BlockedCallers returns the IDs of all blocked people.
func (s *peopleStore) BlockedCallers(ctx context.Context) (callers []string, err error) {
	err = query(ctx, s.db, func(row scanner) error {
		var caller string
		err := row.Scan(&caller)
		callers = append(callers, caller)
		return err
	}, `SELECT caller FROM people WHERE blocked <> 0`)
	return callers, s.engine.explain(err)
}

// PeopleDocument is the document whose version changes when a person is blocked or unblocked.
const PeopleDocument = "people"

func (s *peopleStore) person(ctx context.Context, caller string) (*Person, error) {
	p, err := readPerson(s.db.QueryRowContext(ctx, `SELECT `+personColumns+` FROM people WHERE caller = $1`, caller))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, toolyard.Errorf(toolyard.NotFound, "Unknown user %.64q.", caller)
	}
	return p, s.personError(err)
}

func (s *peopleStore) personError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store: person: %w", s.engine.explain(err))
}

func readPerson(row scanner) (*Person, error) {
	p := &Person{}
	var groups string
	var first, seen, blocked int64
	if err := row.Scan(&p.Caller, &p.Issuer, &p.Subject, &p.Name, &p.Email, &groups, &first, &seen, &blocked, &p.Block.By, &p.Block.Reason); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(groups), &p.Groups); err != nil {
		return nil, fmt.Errorf("store: person %s: %w", p.Caller, err)
	}
	p.First, p.Seen, p.Block.At = fromMicros(first), fromMicros(seen), fromMicros(blocked)
	return p, nil
}
