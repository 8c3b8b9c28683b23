package jsonschema

import (
	"cmp"
	"math/big"
	"strconv"
	"strings"
)

// decimal is an exact JSON number: an integer times a power of ten. The integer has no trailing
// zeros, so equal numbers are equal decimals. It is never expanded, so 1e999999999 needs no more
// memory than 1.
type decimal struct {
	negative bool
	small    uint64 // the integer if digits is empty
	digits   string // the integer if it does not fit in small
	exp      int64
}

// maxExponent is the maximum length of an exponent, including e and sign.
const maxExponent = 15

// parseDecimal parses a valid JSON number.
func parseDecimal(text string) decimal {
	var d decimal
	mantissa, exponent := text, ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, exponent = text[:i], text[i+1:]
		d.exp, _ = strconv.ParseInt(exponent, 10, 64)
	}
	if mantissa[0] == '-' {
		d.negative, mantissa = true, mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	fraction = strings.TrimRight(fraction, "0")
	d.exp -= int64(len(fraction))
	if len(whole)+len(fraction) <= 19 {
		for _, part := range [2]string{whole, fraction} {
			for i := range len(part) {
				d.small = d.small*10 + uint64(part[i]-'0')
			}
		}
		return d.trimSmall()
	}
	return d.setDigits(strings.TrimLeft(whole+fraction, "0"))
}

func (d decimal) trimSmall() decimal {
	if d.small == 0 {
		return decimal{}
	}
	for d.small%10 == 0 {
		d.small /= 10
		d.exp++
	}
	return d
}

func (d decimal) setDigits(digits string) decimal {
	trimmed := strings.TrimRight(digits, "0")
	d.exp += int64(len(digits) - len(trimmed))
	if len(trimmed) > 19 {
		d.digits = trimmed
		return d
	}
	d.small, _ = strconv.ParseUint("0"+trimmed, 10, 64)
	return d.trimSmall()
}

func (d decimal) isZero() bool    { return d.small == 0 && d.digits == "" }
func (d decimal) isInteger() bool { return d.exp >= 0 }

func (d decimal) text() string {
	if d.digits != "" {
		return d.digits
	}
	return strconv.FormatUint(d.small, 10)
}

func (d decimal) compare(o decimal) int {
	if d.negative != o.negative || d.isZero() || o.isZero() {
		return cmp.Compare(d.sign(), o.sign())
	}
	c := d.compareMagnitude(o)
	if d.negative {
		return -c
	}
	return c
}

func (d decimal) sign() int {
	switch {
	case d.isZero():
		return 0
	case d.negative:
		return -1
	}
	return 1
}

func (d decimal) compareMagnitude(o decimal) int {
	if d.exp == o.exp && d.digits == "" && o.digits == "" {
		return cmp.Compare(d.small, o.small)
	}
	a, b := d.text(), o.text()
	if c := cmp.Compare(int64(len(a))+d.exp, int64(len(b))+o.exp); c != 0 {
		return c // one starts at a higher power of ten
	}
	return strings.Compare(a, b)
}

// isMultipleOf reports whether d is an integer multiple of m, which must not be zero.
func (d decimal) isMultipleOf(m decimal) bool {
	if d.isZero() {
		return true
	}
	if d.exp < m.exp {
		return false // the last digit of a multiple would be zero
	}
	if shift := d.exp - m.exp; d.digits == "" && m.digits == "" && shift == 0 {
		return d.small%m.small == 0
	}
	divisor, _ := new(big.Int).SetString(m.text(), 10)
	whole, _ := new(big.Int).SetString(d.text(), 10)
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(d.exp-m.exp), divisor)
	whole.Mul(whole.Mod(whole, divisor), power)
	return whole.Mod(whole, divisor).Sign() == 0
}
