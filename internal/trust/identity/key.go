// Package identity authenticates callers with API keys: it creates, parses and verifies keys, and
// checks their scopes.
package identity

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
)

// A token is ty_PREFIX_SECRETCHECK. The prefix identifies the key and is not secret.
const (
	mark      = "ty_"
	prefixLen = 10
	secretLen = 43 // 256 bits in base64url
	checkLen  = 6
	secretAt  = len(mark) + prefixLen + 1
	checkAt   = secretAt + secretLen
	tokenLen  = checkAt + checkLen
)

const (
	maxText   = 128 // bytes per name, caller or account
	maxScopes = 64
)

// Key is a stored API key. Only the hash of the secret is stored. A fast hash is sufficient for 256
// random bits; slow hashes are only needed for passwords.
type Key struct {
	Prefix  string
	Hash    [sha256.Size]byte // hash of the secret
	Name    string            // chosen by the operator
	Caller  string
	Account string   // account that pays for the calls
	Scopes  []string // sorted
	Created time.Time
	Expires time.Time // zero if it does not expire
	Revoked time.Time // zero if not revoked
}

// Keys looks up keys.
type Keys interface {
	// Key returns the key with the given prefix. The error is NotFound if it does not exist. Any
	// other error means that the lookup failed.
	Key(ctx context.Context, prefix string) (Key, error)
}

// Lister is implemented by Keys that can list all keys.
type Lister interface {
	Prefixes(ctx context.Context) ([]string, error)
}

// State tells whether a key can be used.
type State string

// The states of a key.
const (
	Active  State = "active"
	Expired State = "expired"
	Revoked State = "revoked"
)

// State returns the key's state at a given time. A revoked key counts as revoked at any time,
// because clocks differ.
func (k *Key) State(now time.Time) State {
	switch {
	case !k.Revoked.IsZero():
		return Revoked
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return Expired
	}
	return Active
}

// Entry is a key as shown in lists. It does not contain the hash.
type Entry struct {
	Prefix  string    `json:"prefix"`
	Name    string    `json:"name"`
	Caller  string    `json:"caller"`
	Account string    `json:"account"`
	Scopes  []string  `json:"scopes"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"`
	State   State     `json:"state" enum:"active,expired,revoked"`
}

// Entry returns the key's entry, including its state at the given time.
func (k *Key) Entry(now time.Time) Entry {
	scopes := append([]string{}, k.Scopes...) // never null in JSON
	return Entry{k.Prefix, k.Name, k.Caller, k.Account, scopes, k.Created.UTC(), k.Expires.UTC(), k.Revoked.UTC(), k.State(now)}
}

func (k *Key) caller() toolyard.Caller {
	return toolyard.Caller{ID: k.Caller, Account: cmp.Or(k.Account, k.Caller), Roles: slices.Clone(k.Scopes)}
}

var (
	prefixEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	castagnoli     = crc32.MakeTable(crc32.Castagnoli)
)

// New creates a key and its token. The token is not stored. The default account is the caller. If
// ttl is zero, the key does not expire.
func New(name, caller, account string, scopes []string, ttl time.Duration, now time.Time) (key Key, token string, err error) {
	scopes = spellOut(scopes)
	account = cmp.Or(account, caller)
	if err := check(name, caller, account, scopes, ttl); err != nil {
		return Key{}, "", err
	}
	var random [7 + sha256.Size]byte // the prefix needs less than 7 bytes
	_, _ = rand.Read(random[:])      // never fails
	prefix := prefixEncoding.EncodeToString(random[:7])[:prefixLen]
	secret := base64.RawURLEncoding.EncodeToString(random[7:])
	key = Key{
		Prefix: prefix, Hash: sha256.Sum256([]byte(secret)), Name: name, Caller: caller, Account: account,
		Scopes: scopes, Created: now,
	}
	if ttl > 0 {
		key.Expires = now.Add(ttl)
	}
	token = mark + prefix + "_" + secret
	return key, token + checksum(token), nil
}

// idPattern matches caller and account IDs. It allows only ASCII, so that no two IDs look alike.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@:/+-]{0,127}$`)

// Local is the ID of the user who started the process.
const Local = "local"

// reserved lists the IDs that keys cannot have.
var reserved = []string{ident.Anonymous, Local}

// CheckID returns an error if an ID is not valid for a caller or an account.
func CheckID(id string) error {
	if !idPattern.MatchString(id) {
		return fmt.Errorf("%q is not a valid caller or account name: use at most %d letters, digits and . _ @ : / + -", id, maxText)
	}
	return nil
}

func check(name, caller, account string, scopes []string, ttl time.Duration) error {
	switch {
	case name == "" || len(name) > maxText || !utf8.ValidString(name) || strings.ContainsFunc(name, unprintable):
		return fmt.Errorf("a key name must be 1 to %d bytes of printable text", maxText)
	case slices.Contains(reserved, caller):
		return fmt.Errorf("%q is reserved; choose another caller name", caller)
	case ttl < 0:
		return fmt.Errorf("key lifetime cannot be negative; use a duration such as 720h")
	case len(scopes) > maxScopes:
		return fmt.Errorf("a key can have at most %d scopes", maxScopes)
	}
	for _, scope := range scopes {
		if err := checkScope(scope); err != nil {
			return err
		}
	}
	return cmp.Or(CheckID(caller), CheckID(account))
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// checksum distinguishes mistyped and truncated tokens from unknown ones. It is not a security
// feature, because anyone can compute it.
func checksum(token string) string {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum([]byte(token), castagnoli))
	return prefixEncoding.EncodeToString(sum[:])[:checkLen]
}

// parse splits a token into its prefix and the hash of its secret.
func parse(token string) (prefix string, hash [sha256.Size]byte, err error) {
	if len(token) != tokenLen || !strings.HasPrefix(token, mark) || token[secretAt-1] != '_' {
		return "", hash, refusal("Not an API key for this server: keys begin with %s and have %d characters.", mark, tokenLen)
	}
	if token[checkAt:] != checksum(token[:checkAt]) {
		return "", hash, refusal("The API key is mistyped or truncated: its checksum does not match.")
	}
	prefix = token[len(mark) : secretAt-1]
	secret := token[secretAt:checkAt]
	if !CheckPrefix(prefix) || strings.ContainsFunc(secret, func(r rune) bool { return !urlSafe(r) }) {
		return "", hash, refusal("Not an API key for this server: it contains invalid characters.")
	}
	return prefix, sha256.Sum256([]byte(secret)), nil
}

// CheckPrefix reports whether a string is a valid key prefix.
func CheckPrefix(prefix string) bool {
	return len(prefix) == prefixLen && !strings.ContainsFunc(prefix, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '2' || r > '7')
	})
}

func urlSafe(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_'
}

func refusal(format string, args ...any) *toolyard.Error {
	return toolyard.Errorf(toolyard.Unauthenticated, format, args...)
}
