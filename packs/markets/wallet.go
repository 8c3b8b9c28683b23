package markets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	walletBudget   = 300 // in requests; a batch counts as one
	maxTokens      = 200
	maxDecimals    = 36
	nativeDecimals = 18
)

// NewWallet returns a provider of a caller's balances on a chain: the native coin and the configured
// tokens. Balances are exact decimals; zero token balances are omitted.
func NewWallet(o Options) (*Provider, error) {
	p, err := newProvider(&o, service{
		kind: wallet, name: "The blockchain node", budget: walletBudget, window: time.Minute, heaviest: 1,
	})
	if err != nil {
		return nil, err
	}
	tokens, err := parseTokens(o.Tokens)
	if err != nil {
		return nil, fmt.Errorf("context %s: %w", wallet, err)
	}
	w := &walletClient{client: p.client, chain: int64(o.Chain), tokens: tokens}
	p.fetch = w.fetch
	return p, nil
}

// walletClient queries one of a chain's nodes.
type walletClient struct {
	client *client
	chain  int64 // zero for any chain

	mu     sync.Mutex
	tokens []token // includes the symbols and decimals read so far
}

// token is a token and its immutable metadata.
type token struct {
	address  string // includes the checksum
	symbol   string // empty until read from the contract
	decimals int    // negative until read from the contract
}

func parseTokens(list []Token) (out []token, err error) {
	if len(list) > maxTokens {
		return nil, fmt.Errorf("tokens: must have at most %d entries", maxTokens)
	}
	for i, t := range list {
		known := token{symbol: t.Symbol, decimals: -1}
		if known.address, err = ParseAddress(t.Address); err != nil {
			return nil, fmt.Errorf("tokens[%d]: %w", i, err)
		}
		if t.Decimals != nil {
			known.decimals = *t.Decimals
			if known.decimals < 0 || known.decimals > maxDecimals {
				return nil, fmt.Errorf("tokens[%d]: decimals must be from 0 to %d", i, maxDecimals)
			}
		}
		out = append(out, known)
	}
	return out, nil
}

// walletData is the context data.
type walletData struct {
	Address       string    `json:"address"`
	ChainID       int64     `json:"chainId"`
	NativeBalance string    `json:"nativeBalance"`
	Balances      []balance `json:"balances"`
}

type balance struct {
	Token    string `json:"token"`
	Address  string `json:"address"`
	Balance  string `json:"balance"`
	Decimals int    `json:"decimals"`
}

// fetch reads all balances.
func (w *walletClient) fetch(ctx context.Context, address string) (any, error) {
	w.mu.Lock()
	tokens := slices.Clone(w.tokens)
	w.mu.Unlock()
	results, err := w.ask(ctx, walletCalls(address, tokens))
	if err != nil {
		return nil, err
	}
	out, err := readWallet(results, w.chain, tokens)
	if err != nil {
		return nil, w.client.unavailable(err.Error(), nil)
	}
	w.mu.Lock()
	w.tokens = tokens
	w.mu.Unlock()
	out.Address = address
	return out, nil
}

// ask sends calls in batches and concatenates the results.
func (w *walletClient) ask(ctx context.Context, calls []rpcCall) (results []rpcResult, err error) {
	for batch := range slices.Chunk(calls, maxBatch) {
		if err := w.client.take(ctx, 1); err != nil {
			return nil, err
		}
		body, err := json.Marshal(batch)
		if err != nil {
			return nil, err
		}
		answer, err := w.client.post(ctx, body)
		if err != nil {
			return nil, err
		}
		part, err := readBatch(answer, batch)
		if err != nil {
			return nil, w.client.unexpectedAnswer("a batch of JSON-RPC results", err)
		}
		results = append(results, part...)
	}
	return results, nil
}

// walletCalls returns the calls for the chain, the native balance, and the balance and missing
// metadata of each token.
func walletCalls(address string, tokens []token) []rpcCall {
	holder := strings.ToLower(address)
	var calls rpcCalls
	calls.add("eth_chainId")
	calls.add("eth_getBalance", holder, "latest")
	for _, t := range tokens {
		calls.view(t.address, selectBalance+strings.Repeat("0", wordDigits-addressDigits)+holder[2:])
		if t.decimals < 0 {
			calls.view(t.address, selectDecimals)
		}
		if t.symbol == "" {
			calls.view(t.address, selectSymbol)
		}
	}
	return calls
}

// readWallet parses the results of walletCalls for the same tokens, and completes their metadata. Its
// errors are shown to callers and operators.
func readWallet(results []rpcResult, chain int64, tokens []token) (*walletData, error) {
	next := func() rpcResult {
		r := results[0]
		results = results[1:]
		return r
	}
	id, err := next().quantity()
	if err != nil || !id.IsInt64() {
		return nil, errors.New("the node did not report its chain")
	}
	out := &walletData{ChainID: id.Int64(), Balances: []balance{}}
	if chain != 0 && out.ChainID != chain {
		return nil, fmt.Errorf("the node serves chain %d, but the configuration requires chain %d; correct url or chain in context.%s", out.ChainID, chain, wallet)
	}
	native, err := next().quantity()
	if err != nil {
		return nil, fmt.Errorf("the node did not report the balance: %w", err)
	}
	out.NativeBalance = units(native, nativeDecimals)
	for i := range tokens {
		held, err := tokens[i].read(next)
		if err != nil {
			return nil, fmt.Errorf("contract %s on chain %d is not a supported token (%w); correct tokens in context.%s",
				tokens[i].address, out.ChainID, err, wallet)
		}
		if t := tokens[i]; held.Sign() > 0 {
			out.Balances = append(out.Balances, balance{t.symbol, t.address, units(held, t.decimals), t.decimals})
		}
	}
	return out, nil
}

// read parses one token's results and completes its metadata.
func (t *token) read(next func() rpcResult) (*big.Int, error) {
	held, err := next().word()
	if err != nil {
		return nil, fmt.Errorf("balanceOf: %w", err)
	}
	if t.decimals < 0 {
		n, err := next().word()
		if err != nil {
			return nil, fmt.Errorf("decimals: %w", err)
		}
		if n.Cmp(big.NewInt(maxDecimals)) > 0 {
			return nil, fmt.Errorf("decimals: must be at most %d", maxDecimals)
		}
		t.decimals = int(n.Int64())
	}
	if t.symbol == "" {
		if t.symbol, err = next().symbol(); err != nil {
			return nil, fmt.Errorf("symbol: %w", err)
		}
	}
	return held, nil
}

// units converts an amount in the smallest unit into an exact decimal in whole units.
func units(amount *big.Int, decimals int) string {
	digits := amount.String()
	if missing := decimals + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - decimals
	fraction := strings.TrimRight(digits[point:], "0")
	if fraction == "" {
		return digits[:point]
	}
	return digits[:point] + "." + fraction
}
