// Package identity knows callers by the API keys that they send: what a key looks like,
// what is kept of it, whether it is valid, and what its scopes let its caller do.
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

// A token is ty_PREFIX_SECRETCHECK. The prefix finds the key and is no secret.
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
	maxText   = 128 // bytes of a name, a caller, an account
	maxScopes = 64
)

// Key is what is kept of an API key. The secret is not: its hash is enough to know it
// again. The hash is a fast one, because a secret of 256 random bits cannot be guessed,
// however fast guesses are checked; slow hashes are for what people think up.
type Key struct {
	Prefix  string
	Hash    [sha256.Size]byte // of the secret
	Name    string            // what it is for, in the words of the operator
	Caller  string            // who calls with it
	Account string            // who pays
	Scopes  []string          // what it may do beside reading, and where; sorted
	Created time.Time
	Expires time.Time // zero for never
	Revoked time.Time // zero for not
}

// Keys finds keys.
type Keys interface {
	// Key is the key with a prefix. Its error is NotFound when there is none; any other
	// means that nobody can say.
	Key(ctx context.Context, prefix string) (Key, error)
}

// Lister is implemented by Keys that can say which there are.
type Lister interface {
	// Prefixes are those of all keys.
	Prefixes(ctx context.Context) ([]string, error)
}

// State is whether a key can be used.
type State string

// The states of a key.
const (
	Active  State = "active"
	Expired State = "expired"
	Revoked State = "revoked"
)

// State is that of the key at a time. A key is expired from the instant on that it expires
// at. Revoked is revoked, whatever the clocks say.
func (k *Key) State(now time.Time) State {
	switch {
	case !k.Revoked.IsZero():
		return Revoked
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return Expired
	}
	return Active
}

// Entry is a key in a list, without its hash.
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

// Entry is the key as it is at a time.
func (k *Key) Entry(now time.Time) Entry {
	scopes := append([]string{}, k.Scopes...) // a list in JSON too if there are none
	return Entry{k.Prefix, k.Name, k.Caller, k.Account, scopes, k.Created.UTC(), k.Expires.UTC(), k.Revoked.UTC(), k.State(now)}
}

// caller is who calls with the key.
func (k *Key) caller() toolyard.Caller {
	return toolyard.Caller{ID: k.Caller, Account: cmp.Or(k.Account, k.Caller), Roles: slices.Clone(k.Scopes)}
}

var (
	prefixEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	castagnoli     = crc32.MakeTable(crc32.Castagnoli)
)

// New makes a key and the token that its caller sends, which nobody can see again. An empty
// account is that of the caller; a ttl of zero is for ever.
func New(name, caller, account string, scopes []string, ttl time.Duration, now time.Time) (key Key, token string, err error) {
	scopes = spellOut(scopes)
	account = cmp.Or(account, caller)
	if err := check(name, caller, account, scopes, ttl); err != nil {
		return Key{}, "", err
	}
	var random [7 + sha256.Size]byte // 7 bytes are more than the prefix needs
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

// idPattern is what callers and accounts are called: nothing that looks like something
// else.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@:/+-]{0,127}$`)

// reserved are callers that no key can be for: nobody was asked who they are, or they
// started the process.
var reserved = []string{ident.Anonymous, "local"}

// CheckID reports why a caller or an account cannot be called so.
func CheckID(id string) error {
	if !idPattern.MatchString(id) {
		return fmt.Errorf("%q is not a name for a caller or an account: use letters, digits and . _ @ : / + -, at most %d", id, maxText)
	}
	return nil
}

func check(name, caller, account string, scopes []string, ttl time.Duration) error {
	switch {
	case name == "" || len(name) > maxText || !utf8.ValidString(name) || strings.ContainsFunc(name, unprintable):
		return fmt.Errorf("a key name must be 1 to %d bytes of printable text", maxText)
	case slices.Contains(reserved, caller):
		return fmt.Errorf("%q is reserved; choose another caller", caller)
	case ttl < 0:
		return fmt.Errorf("the lifetime of a key cannot be negative; use a duration such as 720h")
	case len(scopes) > maxScopes:
		return fmt.Errorf("a key has at most %d scopes", maxScopes)
	}
	for _, scope := range scopes {
		if err := checkScope(scope); err != nil {
			return err
		}
	}
	return cmp.Or(CheckID(caller), CheckID(account))
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// checksum tells a token that was mistyped or cut off from one that is unknown. It is for
// honest mistakes: anyone can compute it.
func checksum(token string) string {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum([]byte(token), castagnoli))
	return prefixEncoding.EncodeToString(sum[:])[:checkLen]
}

// parse takes a token apart. There is one spelling of each.
func parse(token string) (prefix string, hash [sha256.Size]byte, err error) {
	if len(token) != tokenLen || !strings.HasPrefix(token, mark) || token[secretAt-1] != '_' {
		return "", hash, refusal("Not an API key of this server: keys begin with %s and have %d characters.", mark, tokenLen)
	}
	if token[checkAt:] != checksum(token[:checkAt]) {
		return "", hash, refusal("The API key is mistyped or truncated: its checksum does not match.")
	}
	prefix = token[len(mark) : secretAt-1]
	secret := token[secretAt:checkAt]
	if !CheckPrefix(prefix) || strings.ContainsFunc(secret, func(r rune) bool { return !urlSafe(r) }) {
		return "", hash, refusal("Not an API key of this server: it contains invalid characters.")
	}
	return prefix, sha256.Sum256([]byte(secret)), nil
}

// CheckPrefix reports whether a text can be the prefix of a key.
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
