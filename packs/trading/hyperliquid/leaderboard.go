package hyperliquid

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/market"
)

// The leaderboard is an undocumented file of about 25 MB that lists all accounts. It is read as a
// stream, and only the best accounts are stored.
const (
	maxLeaderboard    = 64 << 20
	maxLeaderboardRow = 16 << 10
	leadersKept       = 200 // per window, measure and minimum account value
	leadersTTL        = 10 * time.Minute
	leadersWithin     = time.Minute
)

var (
	leaderWindows  = []string{"day", "week", "month", "allTime"}
	leaderMeasures = map[string]func(market.Trader) decimal.Decimal{
		"pnl": func(t market.Trader) decimal.Decimal { return t.PnlUSD },
		"roi": func(t market.Trader) decimal.Decimal { return t.Return },
		"vlm": func(t market.Trader) decimal.Decimal { return t.VolumeUSD },
	}
	// leaderFloors are minimum account values. Each has its own list, because tiny accounts have
	// the highest returns.
	leaderFloors = []int64{0, 10_000, 100_000, 1_000_000}
)

// leaderList identifies a list of the best accounts.
type leaderList struct {
	window, by string
	floor      int64
}

type leaders struct {
	best map[leaderList][]market.Trader // best first
	at   time.Time
}

// Top implements [market.Traders].
func (c *Client) Top(ctx context.Context, q market.TradersQuery) ([]market.Trader, time.Time, error) {
	if !slices.Contains(leaderWindows, q.Window) || leaderMeasures[q.By] == nil {
		return nil, time.Time{}, toolyard.Errorf(toolyard.Invalid, "No leaderboard is available for %s by %s.", q.Window, q.By)
	}
	if err := c.present("leaderboard", q.AsOf); err != nil {
		return nil, time.Time{}, err
	}
	l, err := c.leaders.get(ctx, c.now, leadersTTL, c.fetchLeaders)
	if err != nil {
		return nil, time.Time{}, err
	}
	list := leaderList{q.Window, q.By, 0}
	for _, floor := range leaderFloors {
		if !q.MinAccountUSD.LessThan(decimal.NewFromInt(floor)) {
			list.floor = floor
		}
	}
	var out []market.Trader
	for _, t := range l.best[list] {
		if len(out) < q.Limit && !t.AccountUSD.LessThan(q.MinAccountUSD) {
			out = append(out, t)
		}
	}
	return out, l.at, nil
}

func (c *Client) fetchLeaders(ctx context.Context) (*leaders, error) {
	ctx, cancel := context.WithTimeout(ctx, leadersWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.leaderboard, http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := c.send(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	l, err := readLeaders(io.LimitReader(res.Body, maxLeaderboard))
	if err != nil {
		return nil, unexpected("the leaderboard", err)
	}
	l.at = c.now()
	return l, nil
}

type leaderRow struct {
	Address     string               `json:"ethAddress"`
	Account     dec                  `json:"accountValue"`
	Performance [][2]json.RawMessage `json:"windowPerformances"`
	Name        *string              `json:"displayName"`
}

// readLeaders reads {"leaderboardRows": [row, …]} row by row.
func readLeaders(r io.Reader) (*leaders, error) {
	d := json.NewDecoder(bufio.NewReaderSize(r, 64<<10))
	for _, want := range []json.Token{json.Delim('{'), "leaderboardRows", json.Delim('[')} {
		if got, err := d.Token(); err != nil || got != want {
			return nil, fmt.Errorf("expected %v, got %v: %w", want, got, errors.Join(err))
		}
	}
	l := &leaders{best: map[leaderList][]market.Trader{}}
	for d.More() {
		before := d.InputOffset()
		var row leaderRow
		if err := d.Decode(&row); err != nil {
			return nil, err
		}
		if d.InputOffset()-before > maxLeaderboardRow {
			return nil, errors.New("a row is too large")
		}
		if err := l.add(&row); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil { // reads the end of the list, to ensure that the file is complete
		return nil, err
	}
	for list, rows := range l.best {
		l.best[list] = best(rows, list.by)
	}
	return l, nil
}

func (l *leaders) add(row *leaderRow) error {
	if !isAddress(row.Address) {
		return fmt.Errorf("%.60q is not an address", row.Address)
	}
	for _, pair := range row.Performance {
		var window string
		var p struct{ Pnl, Roi, Vlm dec }
		if err := errors.Join(json.Unmarshal(pair[0], &window), json.Unmarshal(pair[1], &p)); err != nil {
			return err
		}
		if !slices.Contains(leaderWindows, window) {
			continue
		}
		t := market.Trader{
			Address: row.Address, AccountUSD: row.Account.Decimal,
			PnlUSD: p.Pnl.Decimal, Return: p.Roi.Decimal, VolumeUSD: p.Vlm.Decimal,
		}
		if row.Name != nil {
			t.Name = *row.Name
		}
		for by := range leaderMeasures {
			for _, floor := range leaderFloors {
				if !t.AccountUSD.LessThan(decimal.NewFromInt(floor)) {
					l.put(leaderList{window, by, floor}, t)
				}
			}
		}
	}
	return nil
}

// put adds an account to a list. When the list has grown to twice its size, it removes the worst
// accounts.
func (l *leaders) put(list leaderList, t market.Trader) {
	rows := append(l.best[list], t)
	if len(rows) >= 2*leadersKept {
		rows = slices.Clip(best(rows, list.by))
	}
	l.best[list] = rows
}

// best sorts accounts by a measure and returns the ones to keep.
func best(rows []market.Trader, by string) []market.Trader {
	measure := leaderMeasures[by]
	slices.SortFunc(rows, func(a, b market.Trader) int {
		return cmp.Or(measure(b).Cmp(measure(a)), cmp.Compare(a.Address, b.Address))
	})
	return rows[:min(len(rows), leadersKept)]
}
