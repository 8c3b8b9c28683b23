package store

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// scanner is a row from either database.
type scanner interface{ Scan(...any) error }

// cursor is a result set from either database.
type cursor interface {
	scanner
	Next() bool
	Err() error
}

// collectRows reads a result set into a map.
func collectRows[K comparable, R any](from cursor, into map[K]R, scan func(scanner) (K, R, error)) error {
	for from.Next() {
		key, row, err := scan(from)
		if err != nil {
			return err
		}
		into[key] = row
	}
	return from.Err()
}

func scanName(s scanner) (name string, exists bool, err error) {
	return name, true, s.Scan(&name)
}

func scanLimit(s scanner) (key string, l *ledger.LimitRow, err error) {
	l = &ledger.LimitRow{}
	return key, l, s.Scan(&key, (*[]byte)(&l.State))
}

func limitValues(key string, l *ledger.LimitRow) []any { return []any{key, optional(l.State)} }

func scanBalance(s scanner) (string, *ledger.BalanceRow, error) {
	b, expires := &ledger.BalanceRow{}, (*time.Time)(nil)
	err := s.Scan(&b.ID, &b.Account, &b.State, &b.Limit, &b.Available, &b.Held, &b.Spent, &b.Calls, &b.HeldCalls, &b.MaxCalls, &expires)
	if expires != nil {
		b.Expires = expires.UTC()
	}
	return b.ID, b, err
}

func balanceValues(id string, b *ledger.BalanceRow) []any {
	return []any{
		id, b.Account, string(b.State), int64(b.Limit), int64(b.Available), int64(b.Held), int64(b.Spent),
		int64(b.Calls), int64(b.HeldCalls), int64(b.MaxCalls), optionalTime(b.Expires),
	}
}

func scanHold(s scanner) (string, *ledger.HoldRow, error) {
	h := &ledger.HoldRow{}
	err := s.Scan(&h.ID, &h.Balance, &h.Replica, &h.Serial, &h.Unspent, &h.Spent, &h.CallsUnspent, &h.CallsSpent, &h.Expires)
	h.Expires = h.Expires.UTC()
	return h.ID, h, err
}

func holdValues(id string, h *ledger.HoldRow) []any {
	return []any{id, h.Balance, h.Replica, h.Serial, int64(h.Unspent), int64(h.Spent), int64(h.CallsUnspent), int64(h.CallsSpent), h.Expires}
}

func scanRun(s scanner) (ledger.RunKey, *ledger.RunRow, error) {
	r, digest := &ledger.RunRow{}, []byte(nil)
	err := s.Scan(&r.Key.Scope, &r.Key.Key, &digest, &r.Call, &r.State, &r.Until, (*[]byte)(&r.Outcome))
	if err == nil && copy(r.Digest[:], digest) != sha256.Size {
		err = fmt.Errorf("the stored digest for run %q is truncated", r.Key.Key)
	}
	r.Until = r.Until.UTC()
	return r.Key, r, err
}

func runValues(key ledger.RunKey, r *ledger.RunRow) []any {
	return []any{key.Scope, key.Key, r.Digest[:], r.Call, string(r.State), r.Until, []byte(r.Outcome)}
}

func scanApprovalUse(s scanner) (string, *ledger.ApprovalRow, error) {
	a, used := &ledger.ApprovalRow{}, (*time.Time)(nil)
	err := s.Scan(&a.ID, &a.State, &a.Expires, &a.Call, &a.Key, &used)
	if used != nil {
		a.Used = used.UTC()
	}
	a.Expires = a.Expires.UTC()
	return a.ID, a, err
}

func approvalUseValues(id string, a *ledger.ApprovalRow) []any {
	var used any
	if !a.Used.IsZero() {
		used = a.Used
	}
	return []any{id, string(a.State), a.Expires, a.Call, a.Key, used}
}

func transferValues(t *ledger.Transfer) []any {
	return []any{t.ID, t.From, t.To, int64(t.Amount), t.Kind, t.Balance, t.At}
}

func callValues(c *CallRow) []any {
	return []any{
		clean(c.ID), c.At, int64(c.Elapsed), clean(c.Gate), clean(string(c.Mode)), clean(c.Caller), clean(c.Account),
		clean(c.Session), clean(c.Server), clean(c.Tool), int64(c.Generation), clean(string(c.Code)), int64(c.Price), //nolint:gosec // converted back when read
		int64(c.ArgsSize), int64(c.ResultSize), optional(c.Args), optional(c.Parent), optional(c.Message), optional(formatMarks(c.Marks)),
		optionalTime(c.AsOf),
	}
}

func intentValues(i *ledger.Intent) []any {
	call, _ := json.Marshal(i.Call) //nolint:errchkjson // cannot fail: the arguments are valid JSON
	return []any{clean(i.Call.ID), i.Until, clean(string(call))}
}

// optional returns a string or bytes, or nil if they are empty.
func optional[T ~string | ~[]byte](text T) any {
	if len(text) == 0 {
		return nil
	}
	return clean(string(text))
}

// optionalTime returns a time, or nil if it is zero.
func optionalTime(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.UTC()
}

// clean replaces characters that a database rejects, so that a malformed call does not prevent the
// rest of its batch from being recorded.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// checkRefs rejects names that a database would alter or reject.
func checkRefs(r *ledger.Refs) error {
	names := slices.Concat(r.Limits, r.Balances, r.Holds, r.Approvals)
	for _, c := range r.Calls {
		names = append(names, c.ID)
	}
	for _, key := range r.Runs {
		names = append(names, key.Scope, key.Key)
	}
	for _, name := range names {
		if !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0 {
			return fmt.Errorf("store: name %q must be valid UTF-8 and contain no NUL bytes", name)
		}
	}
	return nil
}
