package fakemarkets

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"
)

// actionKeys are the members of actions in the venue's encoding order. A client that uses another
// order produces a different signature.
var actionKeys = []string{
	"type", "orders", "cancels", "grouping", "a", "o", "b", "p", "s", "r", "t", "c", "limit", "trigger", "tif", "isMarket",
	"triggerPx", "tpsl", "asset", "cloid", "isCross", "leverage", "time",
}

// decimalKeys are the members that the venue normalizes before it encodes them.
var decimalKeys = []string{"p", "s", "triggerPx"}

// signedRequest is a request to the exchange.
type signedRequest struct {
	Action    json.RawMessage `json:"action"`
	Nonce     uint64          `json:"nonce"`
	Signature struct {
		R string `json:"r"`
		S string `json:"s"`
		V byte   `json:"v"`
	} `json:"signature"`
	VaultAddress *string `json:"vaultAddress"`
	ExpiresAfter *uint64 `json:"expiresAfter"`
}

// signer recovers the address that signed a request. A wrong signature yields some other address.
func (r *signedRequest) signer(mainnet bool) (string, error) {
	d := json.NewDecoder(strings.NewReader(string(r.Action)))
	d.UseNumber()
	var action any
	if err := d.Decode(&action); err != nil {
		return "", err
	}
	data, err := appendMsgpack(nil, "", action)
	if err != nil {
		return "", err
	}
	data = binary.BigEndian.AppendUint64(data, r.Nonce)
	data = append(data, 0)
	if r.ExpiresAfter != nil {
		data = binary.BigEndian.AppendUint64(append(data, 0), *r.ExpiresAfter)
	}
	source := "b"
	if mainnet {
		source = "a"
	}
	var chain, none [32]byte
	binary.BigEndian.PutUint16(chain[30:], 1337)
	domain := hash256(hash256([]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")),
		hash256([]byte("Exchange")), hash256([]byte("1")), chain[:], none[:])
	agent := hash256(hash256([]byte("Agent(string source,bytes32 connectionId)")), hash256([]byte(source)), hash256(data))
	compact := append([]byte{r.Signature.V}, append(bytes32(r.Signature.R), bytes32(r.Signature.S)...)...)
	key, _, err := ecdsa.RecoverCompact(compact, hash256([]byte{0x19, 1}, domain, agent))
	if err != nil {
		return "", err
	}
	return "0x" + hex.EncodeToString(hash256(key.SerializeUncompressed()[1:])[12:]), nil
}

func hash256(parts ...[]byte) []byte {
	h := sha3.NewLegacyKeccak256()
	for _, p := range parts {
		_, _ = h.Write(p)
	}
	return h.Sum(nil)
}

// bytes32 decodes up to 64 hexadecimal digits. Leading zeros may be missing.
func bytes32(s string) []byte {
	s = strings.TrimPrefix(s, "0x")
	out, err := hex.DecodeString(strings.Repeat("0", max(0, 64-len(s))) + s)
	if err != nil || len(out) != 32 {
		return make([]byte, 32)
	}
	return out
}

// appendMsgpack encodes a JSON value, with the members of objects in the order of actionKeys.
func appendMsgpack(out []byte, key string, value any) ([]byte, error) {
	switch v := value.(type) {
	case bool:
		if v {
			return append(out, 0xc3), nil
		}
		return append(out, 0xc2), nil
	case string:
		if slices.Contains(decimalKeys, key) && strings.Contains(v, ".") {
			v = strings.TrimRight(strings.TrimRight(v, "0"), ".")
		}
		return appendText(out, v), nil
	case json.Number:
		n, err := strconv.ParseUint(v.String(), 10, 64)
		if err != nil {
			return nil, err
		}
		return appendNumber(out, n), nil
	case []any:
		if len(v) > 15 {
			return nil, errors.New("too many items")
		}
		out = append(out, 0x90|byte(len(v)))
		for _, item := range v {
			var err error
			if out, err = appendMsgpack(out, "", item); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		return appendObject(out, v)
	}
	return nil, fmt.Errorf("unexpected %T", value)
}

func appendObject(out []byte, v map[string]any) ([]byte, error) {
	if len(v) > 15 {
		return nil, errors.New("too many members")
	}
	out = append(out, 0x80|byte(len(v)))
	written := 0
	for _, k := range actionKeys {
		member, ok := v[k]
		if !ok {
			continue
		}
		var err error
		if out, err = appendMsgpack(appendText(out, k), k, member); err != nil {
			return nil, err
		}
		written++
	}
	if written != len(v) {
		return nil, errors.New("unknown member")
	}
	return out, nil
}

func appendText(out []byte, s string) []byte {
	if len(s) < 32 {
		return append(append(out, 0xa0|byte(len(s))), s...)
	}
	return append(append(out, 0xd9, byte(len(s))), s...)
}

func appendNumber(out []byte, n uint64) []byte {
	switch {
	case n < 128:
		return append(out, byte(n))
	case n < 256:
		return append(out, 0xcc, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(out, 0xcd), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(out, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(out, 0xcf), n)
}
