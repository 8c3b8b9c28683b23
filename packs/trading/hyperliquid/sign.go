package hyperliquid

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"
)

// signer signs L1 actions with an agent's key.
type signer struct {
	key     *secp256k1.PrivateKey
	address string // derived from the key
	source  string // a for mainnet, b for testnet; a signature is valid for only one of them
}

// newSigner parses a private key: 32 bytes in hexadecimal, with or without 0x. Errors never quote it.
func newSigner(key string, testnet bool) (*signer, error) {
	raw, err := hex.DecodeString(strings.TrimPrefix(key, "0x"))
	if err != nil || len(raw) != secp256k1.PrivKeyBytesLen {
		return nil, errors.New("agentKey is not a private key: expected 64 hexadecimal digits")
	}
	var scalar secp256k1.ModNScalar
	if scalar.SetByteSlice(raw) || scalar.IsZero() {
		return nil, errors.New("agentKey is not a private key of the curve secp256k1")
	}
	s := &signer{key: secp256k1.NewPrivateKey(&scalar), source: "a"}
	if testnet {
		s.source = "b"
	}
	s.address = addressOf(s.key.PubKey())
	return s, nil
}

// addressOf returns a public key's Ethereum address, in lower case.
func addressOf(key *secp256k1.PublicKey) string {
	sum := keccak(key.SerializeUncompressed()[1:])
	return "0x" + hex.EncodeToString(sum[12:])
}

// signature is a signature in the venue's format.
type signature struct {
	R string `json:"r"`
	S string `json:"s"`
	V int    `json:"v"`
}

// sign signs an action. An expiresAfter of zero means that the action does not expire.
func (s *signer) sign(a action, nonce, expiresAfter uint64) signature {
	return s.signDigest(agentDigest(s.source, actionHash(a, nonce, "", expiresAfter)))
}

func (s *signer) signDigest(digest []byte) signature {
	compact := ecdsa.SignCompact(s.key, digest, false)
	return signature{
		R: "0x" + hex.EncodeToString(compact[1:33]),
		S: "0x" + hex.EncodeToString(compact[33:]),
		V: int(compact[0]),
	}
}

// actionHash identifies an action with its nonce, vault and expiry. The vault is an address without
// 0x, or empty.
func actionHash(a action, nonce uint64, vault string, expiresAfter uint64) []byte {
	var p packer
	a.pack(&p)
	data := binary.BigEndian.AppendUint64(p.out, nonce)
	if vault == "" {
		data = append(data, 0)
	} else {
		raw, _ := hex.DecodeString(vault)
		data = append(append(data, 1), raw...)
	}
	if expiresAfter != 0 {
		data = binary.BigEndian.AppendUint64(append(data, 0), expiresAfter)
	}
	return keccak(data)
}

// agentDigest returns the EIP-712 digest of an Agent with an action hash.
func agentDigest(source string, hash []byte) []byte {
	domain := keccak(
		keccak([]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")),
		keccak([]byte("Exchange")), keccak([]byte("1")), word(1337), word(0),
	)
	message := keccak(keccak([]byte("Agent(string source,bytes32 connectionId)")), keccak([]byte(source)), hash)
	return keccak([]byte{0x19, 0x01}, domain, message)
}

// word returns a number as a 32-byte Ethereum ABI value.
func word(n uint64) []byte {
	out := make([]byte, 32)
	binary.BigEndian.PutUint64(out[24:], n)
	return out
}

func keccak(parts ...[]byte) []byte {
	h := sha3.NewLegacyKeccak256()
	for _, part := range parts {
		_, _ = h.Write(part) // writing to a hash cannot fail
	}
	return h.Sum(nil)
}
