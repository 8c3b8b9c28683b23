package market

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// ClientID returns the client order ID for an idempotency key: the same account and key always
// yield the same ID, so that a repeated proposal cannot place a second order.
func ClientID(account, key string) string { return digestID(account, key) }

// ChildID returns the client order ID for an order's stop loss or take profit.
func ChildID(parent string, t OrderType) string { return digestID(parent, string(t)) }

func digestID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "0x" + hex.EncodeToString(sum[:16])
}
