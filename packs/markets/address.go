package markets

import (
	"encoding/hex"
	"errors"
	"strings"

	"golang.org/x/crypto/sha3"
)

const addressDigits = 40

// ParseAddress parses an EVM address: 0x and 40 hexadecimal digits. A mixed-case address must have
// a valid EIP-55 checksum. The result includes the checksum.
func ParseAddress(text string) (string, error) {
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok || len(digits) != addressDigits || !isHex(digits) {
		return "", errors.New("an address must be 0x followed by 40 hexadecimal digits")
	}
	lower := strings.ToLower(digits)
	address := "0x" + checksummed(lower)
	if digits != lower && digits != strings.ToUpper(digits) && text != address {
		return "", errors.New("the address has an invalid checksum; check it for typos")
	}
	return address, nil
}

// checksummed applies the checksum to a lower-case address: a letter is upper-case if the hash digit
// at the same index is 8 or more.
func checksummed(lower string) string {
	hash := sha3.NewLegacyKeccak256()
	hash.Write([]byte(lower))
	sum := hex.EncodeToString(hash.Sum(nil))
	out := []byte(lower)
	for i, c := range out {
		if 'a' <= c && c <= 'f' && sum[i] >= '8' { // ASCII letters sort after digits
			out[i] = c - 'a' + 'A'
		}
	}
	return string(out)
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }
