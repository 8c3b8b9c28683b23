package fakemarkets

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"
)

// EVM is a chain's node with JSON-RPC 2.0 over HTTP. It answers batches in reverse order, which the
// specification allows.
type EVM struct {
	*Server
	// These fields are guarded by Server's lock; maps are keyed by lower-case address.
	chain    int
	balances map[string]*big.Int
	tokens   map[string]EVMToken
}

// EVMToken is an ERC-20 contract.
type EVMToken struct {
	Address  string
	Symbol   string
	Decimals int
	Bytes32  bool                // whether the symbol is 32 bytes, as in the oldest contracts
	Reverts  bool                // whether every call to it fails
	Balances map[string]*big.Int // keyed by holder
}

// NewEVM starts a chain's node that has no balances. It accepts 300 requests per minute.
func NewEVM(chainID int) *EVM {
	e := &EVM{chain: chainID, balances: map[string]*big.Int{}, tokens: map[string]EVMToken{}}
	e.Server = start(300, time.Minute, e.serveRPC)
	return e
}

// SetChain changes the chain that the node belongs to.
func (e *EVM) SetChain(id int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.chain = id
}

// SetBalance sets an address's native balance in the smallest unit.
func (e *EVM) SetBalance(holder string, wei *big.Int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.balances[strings.ToLower(holder)] = wei
}

// SetToken adds a contract to the chain.
func (e *EVM) SetToken(t EVMToken) {
	held := map[string]*big.Int{}
	for holder, amount := range t.Balances {
		held[strings.ToLower(holder)] = amount
	}
	t.Balances = held
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tokens[strings.ToLower(t.Address)] = t
}

// rpcError is a JSON-RPC error.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *EVM) serveRPC(r *http.Request, body []byte) reply {
	if r.Method != http.MethodPost {
		return reply{1, http.StatusMethodNotAllowed, "method not allowed"}
	}
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		return reply{1, http.StatusOK, e.call(body)}
	}
	var batch []json.RawMessage
	if json.Unmarshal(body, &batch) != nil || len(batch) == 0 {
		return reply{1, http.StatusOK, failure(nil, -32600, "invalid request")}
	}
	out := []any{}
	for _, one := range slices.Backward(batch) {
		out = append(out, e.call(one))
	}
	return reply{1, http.StatusOK, out}
}

func failure(id json.RawMessage, code int, message string) any {
	if id == nil {
		id = json.RawMessage("null")
	}
	return map[string]any{"jsonrpc": "2.0", "id": id, "error": rpcError{code, message}}
}

// call handles one request.
func (e *EVM) call(request []byte) any {
	var q struct {
		Version string            `json:"jsonrpc"`
		ID      json.RawMessage   `json:"id"`
		Method  string            `json:"method"`
		Params  []json.RawMessage `json:"params"`
	}
	if json.Unmarshal(request, &q) != nil || q.Version != "2.0" {
		return failure(q.ID, -32600, "invalid request")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	result, err := e.run(q.Method, q.Params)
	if err != nil {
		return failure(q.ID, err.Code, err.Message)
	}
	return map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": result}
}

func (e *EVM) run(method string, params []json.RawMessage) (string, *rpcError) {
	invalid := &rpcError{-32602, "invalid params"}
	switch method {
	case "eth_chainId":
		return fmt.Sprintf("0x%x", e.chain), nil
	case "eth_getBalance":
		var holder string
		if len(params) != 2 || json.Unmarshal(params[0], &holder) != nil || !isAddress(holder) {
			return "", invalid
		}
		return fmt.Sprintf("0x%x", cmp.Or(e.balances[strings.ToLower(holder)], new(big.Int))), nil
	case "eth_call":
		var q struct{ To, Data string }
		if len(params) != 2 || json.Unmarshal(params[0], &q) != nil || !isAddress(q.To) || !strings.HasPrefix(q.Data, "0x") {
			return "", invalid
		}
		return e.view(strings.ToLower(q.To), strings.ToLower(q.Data[2:]))
	}
	return "", &rpcError{-32601, "the method " + method + " does not exist/is not available"}
}

// view calls a contract. If there is none, the result is empty.
func (e *EVM) view(contract, data string) (string, *rpcError) {
	t, ok := e.tokens[contract]
	if !ok {
		return "0x", nil
	}
	holder, isBalance := strings.CutPrefix(data, "70a08231"+strings.Repeat("0", 24))
	switch {
	case t.Reverts:
	case isBalance && len(holder) == 40:
		return fmt.Sprintf("0x%064x", cmp.Or(t.Balances["0x"+holder], new(big.Int))), nil
	case data == "313ce567":
		return fmt.Sprintf("0x%064x", t.Decimals), nil
	case data == "95d89b41" && t.Bytes32:
		return "0x" + padded(t.Symbol), nil
	case data == "95d89b41":
		return fmt.Sprintf("0x%064x%064x%s", 32, len(t.Symbol), padded(t.Symbol)), nil
	}
	return "", &rpcError{3, "execution reverted"}
}

// padded returns a text in hexadecimal, padded to whole 32-byte words.
func padded(text string) string {
	digits := hex.EncodeToString([]byte(text))
	if over := len(digits) % 64; over > 0 {
		digits += strings.Repeat("0", 64-over)
	}
	return digits
}
