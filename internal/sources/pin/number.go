package pin

import (
	"bytes"
	"fmt"
	"strconv"
)

// Limits on a number. Within them, the canonical form passes [strictjson.Check].
const (
	maxDigits   = 100
	maxExponent = 308
)

// appendNumber appends a checked number in canonical form: the ECMAScript form of RFC 8785, but
// with all digits rather than only those that a float64 needs.
func appendNumber(out, number []byte) ([]byte, error) {
	negative, digits, point, err := decimal(number)
	if err != nil {
		return out, err
	}
	n := len(digits)
	if n == 0 {
		return append(out, '0'), nil
	}
	if negative {
		out = append(out, '-')
	}
	switch {
	case n <= point && point <= 21: // 1200
		out = append(out, digits...)
		return append(out, bytes.Repeat([]byte{'0'}, point-n)...), nil
	case 0 < point && point <= 21: // 1.2
		out = append(append(out, digits[:point]...), '.')
		return append(out, digits[point:]...), nil
	case -6 < point && point <= 0: // 0.0012
		out = append(append(out, '0', '.'), bytes.Repeat([]byte{'0'}, -point)...)
		return append(out, digits...), nil
	}
	out = append(out, digits[0]) // 1.2e+34
	if n > 1 {
		out = append(append(out, '.'), digits[1:]...)
	}
	out = append(out, 'e')
	if point > 0 {
		out = append(out, '+')
	}
	return strconv.AppendInt(out, int64(point-1), 10), nil
}

// decimal splits a checked number into 0.digits × 10^point. The digits neither start nor end with a
// zero. The number zero has no digits.
func decimal(number []byte) (negative bool, digits []byte, point int, err error) {
	mantissa, negative := bytes.CutPrefix(number, []byte{'-'})
	if i := bytes.IndexAny(mantissa, "eE"); i >= 0 {
		if point, err = strconv.Atoi(string(mantissa[i+1:])); err != nil {
			return negative, nil, 0, err
		}
		mantissa = mantissa[:i]
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte{'.'})
	point += len(whole)
	digits = append(append(make([]byte, 0, len(mantissa)), whole...), fraction...)
	significant := bytes.TrimLeft(digits, "0")
	point -= len(digits) - len(significant)
	significant = bytes.TrimRight(significant, "0")
	switch {
	case len(significant) == 0:
		return false, nil, 0, nil
	case len(significant) > maxDigits:
		return negative, nil, 0, fmt.Errorf("number %.20s… has more than %d digits", number, maxDigits)
	case point-1 > maxExponent || point-1 < -maxExponent:
		return negative, nil, 0, fmt.Errorf("number %.40s is out of range", number)
	}
	return negative, significant, point, nil
}
