package toolyard_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
)

// amounts matches a valid amount.
var amounts = regexp.MustCompile(`^-?[0-9]+(\.[0-9]{1,9})?$`)

var (
	most  = decimal.New(1<<63-1, -9)
	least = decimal.New(-1<<63, -9)
)

// held reports whether an exact amount is in range.
func held(d decimal.Decimal) bool { return !d.GreaterThan(most) && !d.LessThan(least) }

// randomAmount returns a string that is usually a valid amount, and sometimes nearly valid.
func randomAmount(r *rand.Rand) string {
	digits := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte("0123456789"[r.IntN(10)])
		}
		return b.String()
	}
	s := digits(1 + r.IntN(3))
	switch r.IntN(16) {
	case 0: // near the largest amount
		s = fmt.Sprint(uint64(9_223_372_035) + r.Uint64N(3))
	case 1:
		s = digits(8 + r.IntN(14))
	}
	if r.IntN(4) > 0 {
		s += "." + digits(1+r.IntN(9))
	}
	switch r.IntN(24) {
	case 0:
		s += digits(1 + r.IntN(4))
	case 1, 2, 3, 4:
		s = "-" + s
	case 5: // insert an invalid character
		i := r.IntN(len(s) + 1)
		s = s[:i] + []string{"e", "+", "-", ".", " ", "_", "٣", "\x00", ","}[r.IntN(9)] + s[i:]
	}
	return s
}

// parseBoth parses an amount with ParseMoney and as an exact decimal, and returns an error if only
// one of them succeeds.
func parseBoth(s string) (toolyard.Money, decimal.Decimal, bool, error) {
	m, err := toolyard.ParseMoney(s)
	var want decimal.Decimal
	ok := amounts.MatchString(s)
	if ok {
		want = decimal.RequireFromString(s)
		ok = held(want)
	}
	if ok != (err == nil) {
		return m, want, ok, fmt.Errorf("parsing %q: %w, but that it is an amount is %v", s, err, ok)
	}
	return m, want, ok, nil
}

// equal returns an error if an amount differs from the exact one.
func equal(m toolyard.Money, want decimal.Decimal) error {
	if m.String() != want.String() {
		return fmt.Errorf("%s should be %s", m, want)
	}
	return nil
}

// moneySequence adds random amounts, some of them repeatedly, as updates of a balance do.
func moneySequence(r *rand.Rand) error {
	sum, exact := toolyard.Money(0), decimal.Decimal{}
	for range 1 + r.IntN(2) {
		m, want, ok, err := parseBoth(randomAmount(r))
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := equal(m, want); err != nil {
			return err
		}
		n := int64(1 + r.IntN(2000))
		if product := want.Mul(decimal.NewFromInt(n)); held(product) {
			m, want = m*toolyard.Money(n), product
		}
		next, ok := sum.Add(m)
		if total := exact.Add(want); ok != held(total) {
			return fmt.Errorf("adding %s to %s: that it can be held is %v", m, sum, ok)
		} else if ok {
			sum, exact = next, total
		}
	}
	return equal(sum, exact)
}

// In a million random sequences, parsing, multiplying, adding and formatting agree with exact
// decimals, and amounts out of range are rejected.
func TestMoneyAgainstDecimals(t *testing.T) {
	const workers = 2
	each := 1_000_000 / workers
	if testing.Short() {
		each /= 10
	}
	var all sync.WaitGroup
	for seed := range uint64(workers) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 9))
			for i := range each {
				if err := moneySequence(r); err != nil {
					t.Errorf("sequence %d of %d: %v", i, seed, err)
					return
				}
			}
		})
	}
	all.Wait()
}
