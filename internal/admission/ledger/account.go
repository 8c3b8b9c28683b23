package ledger

import (
	"fmt"

	"github.com/toolyard/toolyard"
)

// MaxFunds is the maximum amount in an account and its sessions. It is far below the maximum of
// Money, so sums don't overflow.
const MaxFunds = 10_000_000 * toolyard.USD

// Funding adds money to an account, or withdraws it if the amount is negative.
type Funding struct {
	ID         string // ID of the transfer
	Account    string
	Amount     toolyard.Money
	InSessions toolyard.Money // money in the account's sessions
}

// CallerKey identifies a caller across accounts.
func CallerKey(account, caller string) string {
	return fmt.Sprintf("%d/%s/%s", len(account), account, caller)
}

// FundingID returns the transfer ID for an account's funding reference.
func FundingID(account, reference string) string {
	return fmt.Sprintf("fund/%d/%s/%s", len(account), account, reference) // the length makes the ID unambiguous
}

// Refs returns the rows that the funding needs.
func (f *Funding) Refs() Refs {
	return Refs{Balances: []string{f.Account}, Calls: []CallRef{{ID: f.ID}}}
}

// Fund applies a funding, and reports whether the reference was used before.
func Fund(rows *Rows, f *Funding) (repeated bool, err error) {
	if rows.Charged[f.ID] {
		return true, nil
	}
	b := newBooks(rows, "")
	p := b.Balances[f.Account]
	switch {
	case p == nil:
		p = &BalanceRow{Change: Created, ID: f.Account, Account: f.Account, State: StateOpen}
		b.Balances[f.Account] = p
	case p.Account != p.ID:
		return false, toolyard.Errorf(toolyard.Invalid, "%s is a session, not an account.", f.Account)
	}
	sum, ok := p.Available.Add(f.Amount)
	if f.Amount < 0 && sum < 0 {
		return false, toolyard.Errorf(toolyard.BudgetExceeded, "Cannot withdraw %s USD from account %s: only %s USD is available.", -f.Amount, f.Account, p.Available)
	}
	if f.Amount > 0 && (!ok || f.Amount > MaxFunds || sum > MaxFunds-min(MaxFunds, p.Held)-f.InSessions) {
		return false, toolyard.Errorf(toolyard.Invalid, "Cannot add %s USD to account %s: the maximum for an account and its sessions is %s USD.", f.Amount, f.Account, MaxFunds)
	}
	t := Transfer{ID: f.ID, From: "world", To: "balance/" + f.Account, Amount: f.Amount, Kind: "fund"}
	if f.Amount < 0 {
		t.From, t.To, t.Amount = t.To, t.From, -f.Amount
	}
	b.transfer(t)
	p.Available = sum
	p.Mark()
	return false, nil
}

// Check returns an error if the session is invalid.
func (s *Session) Check() error {
	if s.Limit < 0 || s.Calls < 0 || s.TTL <= 0 || s.ID == "" || s.ID == s.Account {
		return toolyard.Errorf(toolyard.Invalid, "A session requires an ID, a limit of zero or more, and a lifetime.")
	}
	return nil
}

// Open moves money from an account into a new session.
func Open(rows *Rows, s Session) error {
	b := newBooks(rows, "")
	b.expire()
	account := b.Balances[s.Account]
	if p := b.Balances[s.ID]; p != nil {
		if p.Account == s.Account && p.Limit == s.Limit && p.MaxCalls == s.Calls {
			return nil // a repeated request
		}
		return toolyard.Errorf(toolyard.VersionConflict, "Session %s already exists.", s.ID)
	}
	if s.Limit > 0 && (account == nil || account.Available < s.Limit) {
		available := toolyard.Money(0)
		if account != nil {
			available = account.Available
		}
		return toolyard.Errorf(toolyard.BudgetExceeded, "Account %s has %s USD available; the session needs %s USD.", s.Account, available, s.Limit)
	}
	p := &BalanceRow{
		Change: Created, ID: s.ID, Account: s.Account, State: StateOpen,
		Limit: s.Limit, Available: s.Limit, MaxCalls: s.Calls, Expires: b.Now.Add(s.TTL),
	}
	b.Balances[p.ID] = p
	if s.Limit > 0 {
		account.Available -= s.Limit
		account.Mark()
		b.transfer(Transfer{ID: "open/" + p.ID, From: "balance/" + account.ID, To: "balance/" + p.ID, Amount: s.Limit, Kind: "open"})
	}
	return nil
}

// Close ends a session and returns its available money to the account.
func Close(rows *Rows, id string) {
	if p := rows.Balances[id]; p != nil && p.State == StateOpen {
		p.State = StateClosed
		p.Mark()
	}
	Expire(rows)
}
