package hyperliquid

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/shopspring/decimal"
)

// dec is a quoted decimal. It refuses exponents, because they allow a short text to be a huge
// number.
type dec struct{ decimal.Decimal }

// UnmarshalJSON implements [json.Unmarshaler].
func (d *dec) UnmarshalJSON(data []byte) error {
	if len(data) < 3 || len(data) > maxDecimalLen+2 || data[0] != '"' || data[len(data)-1] != '"' {
		return fmt.Errorf("%.60s is not a decimal in quotes", data)
	}
	v, err := parseDecimal(string(data[1 : len(data)-1]))
	d.Decimal = v
	return err
}

func parseDecimal(s string) (decimal.Decimal, error) {
	digits, points := 0, 0
	for i, r := range s {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r == '.' && digits > 0 && points == 0:
			points, digits = 1, 0 // at least one digit must follow
		case r == '-' && i == 0:
		default:
			return decimal.Decimal{}, fmt.Errorf("%.60q is not a decimal", s)
		}
	}
	if digits == 0 || len(s) > maxDecimalLen {
		return decimal.Decimal{}, fmt.Errorf("%.60q is not a decimal", s)
	}
	return decimal.NewFromString(s)
}

// millis is a time in milliseconds since 1970.
type millis int64

// maxMillis is the end of the year 9999, the last year that RFC 3339 can express.
const maxMillis = 253402300799999

// UnmarshalJSON implements [json.Unmarshaler].
func (m *millis) UnmarshalJSON(data []byte) error {
	var n int64
	if err := json.Unmarshal(data, &n); err != nil {
		return err
	}
	if n < 0 || n > maxMillis {
		return errors.New("not a time in milliseconds")
	}
	*m = millis(n)
	return nil
}

// Limits for prices.
const (
	maxPriceDecimals = 6 // for perpetuals, reduced by the decimal places of the size
	priceDigits      = 5 // significant digits
)

// wireDecimal formats a number for an action, in plain notation with no trailing zeros, because the
// venue normalizes numbers before it checks the signature.
func wireDecimal(d decimal.Decimal) string {
	return d.String() // has no exponent and no trailing zeros in the fraction
}

// checkPrice returns an error if the venue would refuse a perpetual's price. It may have at most
// five significant digits and 6 - szDecimals decimal places; whole numbers are always allowed.
func checkPrice(price decimal.Decimal, szDecimals int) error {
	if !price.IsPositive() {
		return errors.New("a price must be greater than zero")
	}
	if price.IsInteger() {
		return nil
	}
	places := decimalPlaces(price)
	if places > maxPriceDecimals-szDecimals {
		return fmt.Errorf("price %s has more than %d decimal places", price, maxPriceDecimals-szDecimals)
	}
	if significantDigits(price) > priceDigits {
		return fmt.Errorf("price %s has more than %d significant digits", price, priceDigits)
	}
	return nil
}

// checkSize returns an error if the venue would refuse the size.
func checkSize(size decimal.Decimal, szDecimals int) error {
	if !size.IsPositive() {
		return errors.New("a size must be greater than zero")
	}
	if decimalPlaces(size) > szDecimals {
		return fmt.Errorf("size %s has more than %d decimal places", size, szDecimals)
	}
	return nil
}

// decimalPlaces returns the number of decimal places, not counting trailing zeros.
func decimalPlaces(d decimal.Decimal) int {
	for places := range int32(64) {
		if d.Equal(d.Truncate(places)) {
			return int(places)
		}
	}
	return 64
}

// significantDigits returns the number of digits from the first to the last nonzero digit.
func significantDigits(d decimal.Decimal) int {
	return len(d.Shift(int32(decimalPlaces(d))).Abs().BigInt().String()) //nolint:gosec // G115: at most 64 places
}
