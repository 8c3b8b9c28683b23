package market

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// ClientID returns the client order ID for an idempotency key: for the same account and key, the ID
// is always the same, so that a repeated proposal cannot place a second order.
func ClientID(account, key string) string { return digestID(account, key) }

// ChildID returns the client order ID of the stop loss or take profit of an order.
func ChildID(parent string, t OrderType) string { return digestID(parent, string(t)) }

func digestID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "0x" + hex.EncodeToString(sum[:16])
}
