package toolyard

import (
	"fmt"
	"math"
	"strings"
)

// Money is an exact amount in billionths of a US dollar, up to about nine billion dollars.
type Money int64

// USD is one dollar.
const USD Money = 1_000_000_000

// moneyDigits is the number of decimal places in Money.
const moneyDigits = 9

// ParseMoney parses a decimal such as "0.001" or "-12". It refuses exponents, more than nine
// decimal places, and amounts out of range.
func ParseMoney(s string) (Money, error) {
	digits, negative := strings.CutPrefix(s, "-")
	whole, fraction, point := strings.Cut(digits, ".")
	if whole == "" || (point && fraction == "") {
		return 0, fmt.Errorf("amount %q is not a decimal such as 0.001", s)
	}
	if len(fraction) > moneyDigits {
		return 0, fmt.Errorf("amount %q has more than %d decimal places", s, moneyDigits)
	}
	var n uint64
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}
	for _, c := range []byte(whole + fraction + strings.Repeat("0", moneyDigits-len(fraction))) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("amount %q is not a decimal such as 0.001", s)
		}
		if n > (limit-uint64(c-'0'))/10 {
			return 0, fmt.Errorf("amount %q is out of range", s)
		}
		n = n*10 + uint64(c-'0')
	}
	if negative {
		return Money(-n), nil //nolint:gosec // within the limit
	}
	return Money(n), nil
}

// String returns the shortest decimal that [ParseMoney] parses as m.
func (m Money) String() string {
	sign, n := "", uint64(m) //nolint:gosec // the next line handles the sign
	if m < 0 {
		sign, n = "-", -n
	}
	s := fmt.Sprintf("%s%d.%09d", sign, n/uint64(USD), n%uint64(USD))
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// Add returns m+n, and false if the sum overflows.
func (m Money) Add(n Money) (Money, bool) {
	sum := m + n
	return sum, (sum > m) == (n > 0)
}

// MarshalText encodes Money as a decimal, which is a string in JSON.
func (m Money) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText decodes a decimal.
func (m *Money) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMoney(string(text))
	return err
}
