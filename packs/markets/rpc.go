package markets

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Limits on requests and results.
const (
	maxBatch  = 100  // calls per request
	maxResult = 1024 // bytes in a hexadecimal result
	maxSymbol = 64   // in bytes
)

// Function selectors of ERC-20 contracts.
const (
	selectBalance  = "0x70a08231" // balanceOf(address)
	selectDecimals = "0x313ce567" // decimals()
	selectSymbol   = "0x95d89b41" // symbol()
	wordBytes      = 32
	wordDigits     = 2 * wordBytes
)

// rpcCall is a JSON-RPC 2.0 request.
type rpcCall struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

type rpcCalls []rpcCall

func (c *rpcCalls) add(method string, params ...any) {
	if params == nil {
		params = []any{}
	}
	*c = append(*c, rpcCall{"2.0", len(*c) + 1, method, params})
}

// view adds a read-only contract call.
func (c *rpcCalls) view(contract, data string) {
	c.add("eth_call", map[string]string{"to": contract, "data": data}, "latest")
}

// rpcResult is the hexadecimal result of a call, or its error.
type rpcResult struct {
	hex string // without 0x
	err error
}

// readBatch parses the results of a batch, which may be in any order, and returns them in call order.
func readBatch(answer []byte, calls []rpcCall) ([]rpcResult, error) {
	var r reading
	items := objects(&r, "answer", trimmed(answer), func(o object) object { return o })
	if r.err != nil {
		return nil, r.err
	}
	if len(items) != len(calls) {
		return nil, fmt.Errorf("received %d results for %d calls", len(items), len(calls))
	}
	results, seen := make([]rpcResult, len(calls)), make([]bool, len(calls))
	for _, o := range items {
		i := o.whole("id") - int64(calls[0].ID)
		if r.err != nil {
			return nil, r.err
		}
		if i < 0 || i >= int64(len(calls)) || seen[i] {
			return nil, fmt.Errorf("%s does not match any pending call", o.at("id"))
		}
		seen[i], results[i] = true, readResult(o)
	}
	return results, r.err
}

// readResult reads one result.
func readResult(o object) rpcResult {
	if version, _ := strictjson.String(o.members["jsonrpc"]); version != "2.0" {
		o.fail(o.at("jsonrpc"), "2.0")
	}
	if o.has("error") {
		if o.has("result") {
			o.fail(o.path, "either a result or an error")
		}
		e := o.object("error")
		return rpcResult{err: fmt.Errorf("the node refused the call with code %s", e.number("code"))}
	}
	text, _ := strictjson.String(o.members["result"])
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok || len(digits) > maxResult || !isHex(digits) {
		o.fail(o.at("result"), "hexadecimal")
	}
	return rpcResult{hex: digits}
}

// quantity parses a JSON-RPC quantity, which has no leading zeros.
func (r rpcResult) quantity() (*big.Int, error) {
	if r.err != nil {
		return nil, r.err
	}
	n, ok := new(big.Int).SetString(r.hex, 16)
	if !ok || len(r.hex) > wordDigits {
		return nil, errors.New("it is not a number")
	}
	return n, nil
}

// word parses a 32-byte number that a contract returned.
func (r rpcResult) word() (*big.Int, error) {
	if r.err == nil && len(r.hex) != wordDigits {
		return nil, errors.New("the call did not return a number")
	}
	return r.quantity()
}

// symbol parses a contract's symbol, which is a string or, in the oldest contracts, 32 bytes.
func (r rpcResult) symbol() (string, error) {
	if r.err != nil {
		return "", r.err
	}
	data, err := hex.DecodeString(r.hex)
	if err != nil {
		return "", errors.New("the call did not return a string")
	}
	text := data
	if len(data) != wordBytes {
		if text, err = abiString(data); err != nil {
			return "", err
		}
	}
	symbol := string(bytes.TrimRight(text, "\x00"))
	if symbol == "" || len(symbol) > maxSymbol || untrusted.CheckText(symbol) != nil {
		return "", errors.New("the call did not return a short string")
	}
	return symbol, nil
}

// abiString decodes an ABI string: offset, length and bytes.
func abiString(data []byte) ([]byte, error) {
	if len(data) < 2*wordBytes {
		return nil, errors.New("the call did not return a string")
	}
	offset, length := new(big.Int).SetBytes(data[:wordBytes]), new(big.Int).SetBytes(data[wordBytes:2*wordBytes])
	rest := data[2*wordBytes:]
	if offset.Cmp(big.NewInt(wordBytes)) != 0 || length.Cmp(big.NewInt(int64(len(rest)))) > 0 {
		return nil, errors.New("the call did not return a string")
	}
	return rest[:length.Int64()], nil
}
