package cli

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/demo"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// fundAccounts funds the demo's accounts and opens its sessions.
func fundAccounts(ctx context.Context, s *store.Store) error {
	for account, amount := range demo.Accounts {
		if err := s.Fund(ctx, account, amount, "opening"); err != nil {
			return err
		}
	}
	for _, session := range demo.Sessions {
		if _, err := s.OpenSession(ctx, session); err != nil {
			return err
		}
	}
	return nil
}

// createKeys stores the API keys and returns those that are not revoked, by caller.
func createKeys(ctx context.Context, s *store.Store, now time.Time) (map[string]string, error) {
	tokens := make(map[string]string)
	for _, k := range demo.Keys {
		key, token, err := identity.New(k.Name, k.Caller.ID, k.Caller.Account, k.Scopes, k.TTL, now.Add(-k.Age))
		if err != nil {
			return nil, err
		}
		if k.Revoked > 0 {
			key.Revoked = now.Add(-k.Revoked)
		} else {
			tokens[k.Caller.ID] = token
		}
		if err := s.PutKey(ctx, key); err != nil {
			return nil, err
		}
	}
	return tokens, nil
}

// rowsPerBatch is the number of recorded calls to write at once.
const rowsPerBatch = 1000

// writeHistory records the calls of the last few weeks and charges for the paid ones, so that the
// ledger is consistent with the record.
func writeHistory(ctx context.Context, s *store.Store, now time.Time, packs bool) error {
	var free []*store.CallRow
	paid := make(map[string][]*store.CallRow)                              // calls by account
	for m := range demo.History(now, rand.New(rand.NewPCG(1, 1)), packs) { //nolint:gosec // deterministic test data
		row := &store.CallRow{
			ID: ident.NewCallID(m.At), At: m.At, Elapsed: m.Elapsed, Gate: m.Gate, Mode: m.Mode(), Caller: m.Caller.ID, Account: m.Caller.Account,
			Server: m.Server, Tool: m.Tool, Generation: 1, Code: m.Code, Price: m.Paid(), ArgsSize: len(m.Sent), ResultSize: m.Result, Args: m.Sent,
			Message: m.Message(),
		}
		if row.Price > 0 {
			paid[row.Account] = append(paid[row.Account], row)
		} else {
			free = append(free, row)
		}
	}
	for rows := range slices.Chunk(free, rowsPerBatch) {
		if err := s.AppendCalls(ctx, rows); err != nil {
			return err
		}
	}
	for account, rows := range paid {
		if err := chargeHistory(ctx, s, account, rows); err != nil {
			return err
		}
	}
	return nil
}

// chargeHistory funds an account with the price of the calls and charges for them.
func chargeHistory(ctx context.Context, s *store.Store, account string, rows []*store.CallRow) error {
	total := toolyard.Money(0)
	for _, row := range rows {
		total += row.Price
	}
	if err := s.Fund(ctx, account, total, "past"); err != nil {
		return err
	}
	hold := "past/" + account
	lease := ledger.HoldRequest{Hold: hold, Serial: 1, Balance: account, Account: account, Want: total, Min: total, TTL: time.Hour}
	if err := exchange(ctx, s, &ledger.Batch{Holds: []ledger.HoldRequest{lease}}); err != nil {
		return err
	}
	for part := range slices.Chunk(rows, rowsPerBatch) {
		b := &ledger.Batch{}
		for _, row := range part {
			b.Settlements = append(b.Settlements, ledger.Settlement{Call: row.ID, Hold: hold, Balance: account, Amount: row.Price, Seller: cmp.Or(row.Server, "local"), Row: row})
		}
		if err := exchange(ctx, s, b); err != nil {
			return err
		}
	}
	return exchange(ctx, s, &ledger.Batch{Releases: []ledger.HoldRelease{{Hold: hold, Balance: account, Serial: 2}}})
}

// exchange executes a batch and fails if any part of it is refused.
func exchange(ctx context.Context, s *store.Store, b *ledger.Batch) error {
	b.Replica = "demo"
	answers, err := s.Exchange(ctx, b)
	if err != nil {
		return err
	}
	for _, f := range answers.Holds {
		if f.Refused != nil {
			return errors.New(f.Refused.Message)
		}
	}
	for _, settled := range answers.Settlements {
		if settled.Refused != nil {
			return errors.New(settled.Refused.Message)
		}
	}
	return nil
}
