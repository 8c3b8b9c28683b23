package trading

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/bars"
	"github.com/toolyard/toolyard/packs/trading/cryptopanic"
	"github.com/toolyard/toolyard/packs/trading/hyperliquid"
	"github.com/toolyard/toolyard/packs/trading/market"
	"github.com/toolyard/toolyard/yard"
)

// connector returns the clients for market data. It does not send a request.
type connector func(*settings, yard.PackSetup) (*feed, error)

// feed contains the pack's market data.
type feed struct {
	market.Bars
	market.Markets
	market.Funding
	news    market.News    // may be nil
	traders market.Traders // may be nil
	venue   *hyperliquid.Client
	store   *bars.Store // store of bars; may be nil
	closer  io.Closer
}

// connect returns the clients for the venue and for the news source.
func connect(s *settings, setup yard.PackSetup) (*feed, error) {
	h := s.Hyperliquid
	testnet, err := s.testnet()
	if err != nil {
		return nil, err
	}
	venue, err := hyperliquid.New(hyperliquid.Options{URL: h.URL, Testnet: testnet, Leaderboard: h.LeaderboardURL, HTTP: setup.HTTP, Now: setup.Now})
	if err != nil {
		return nil, err
	}
	dir := s.Bars
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(setup.Dir, dir)
	}
	store := bars.Open(bars.Options{Dir: dir, Venue: venue, Now: setup.Now, Log: setup.Log})
	f := &feed{Bars: store, Markets: venue, Funding: newFundingCache(venue, setup.Now), venue: venue, store: store}
	if s.Hyperliquid.Leaderboard {
		f.traders = venue
	}
	if c := s.CryptoPanic; c != nil {
		if f.news, err = cryptopanic.New(cryptopanic.Options{URL: c.URL, Plan: c.Plan, Token: c.Token, HTTP: setup.HTTP, Now: setup.Now}); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *feed) lend(c *toolyard.Clients) {
	toolyard.Lend(c, f.Bars)
	toolyard.Lend(c, f.Markets)
	toolyard.Lend(c, f.Funding)
	if f.news != nil {
		toolyard.Lend(c, f.news)
	}
	if f.traders != nil {
		toolyard.Lend(c, f.traders)
	}
	if f.venue != nil {
		toolyard.Lend[market.FundingForecast](c, f.venue)
	}
}

// fundingCache stores blocks of past funding rates, which never change. A backtest requests every
// hour separately, but the venue is queried for 20 days at a time.
type fundingCache struct {
	from market.Funding
	now  func() time.Time

	mu     sync.Mutex
	blocks map[fundingBlock]fundingRates
}

type fundingRates struct {
	rates []market.Rate
	until time.Time // the rates are complete up to this time
}

type fundingBlock struct {
	symbol string
	start  int64 // in seconds
}

const (
	fundingBlockLength = 480 * time.Hour // less than one of the venue's pages
	maxFundingBlocks   = 2000
	fundingDelay       = 10 * time.Minute // time until a rate is published
)

func newFundingCache(from market.Funding, now func() time.Time) *fundingCache {
	return &fundingCache{from: from, now: now, blocks: map[fundingBlock]fundingRates{}}
}

// Rates implements [market.Funding].
func (f *fundingCache) Rates(ctx context.Context, symbol string, from, to time.Time) ([]market.Rate, error) {
	var list []market.Rate
	for start := from.UTC().Truncate(fundingBlockLength); !start.After(to); start = start.Add(fundingBlockLength) {
		rates, err := f.block(ctx, symbol, start, to)
		if err != nil {
			return nil, err
		}
		for _, r := range rates {
			if r.At.After(from) && !r.At.After(to) {
				list = append(list, r)
			}
		}
	}
	return list, nil
}

// block returns a block's rates up to the given time. It may include later ones.
func (f *fundingCache) block(ctx context.Context, symbol string, start, to time.Time) ([]market.Rate, error) {
	key, end, now := fundingBlock{symbol, start.Unix()}, start.Add(fundingBlockLength), f.now()
	f.mu.Lock()
	stored, ok := f.blocks[key]
	f.mu.Unlock()
	if ok && (!stored.until.Before(end) || !stored.until.Before(to)) {
		return stored.rates, nil
	}
	rates, err := f.from.Rates(ctx, symbol, start, earliest(end, now))
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.blocks) >= maxFundingBlocks {
		clear(f.blocks)
	}
	f.blocks[key] = fundingRates{slices.Clone(rates), earliest(end, now.Add(-fundingDelay))}
	return rates, nil
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
