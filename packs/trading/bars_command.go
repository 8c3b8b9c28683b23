package trading

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/toolyard/toolyard/packs/trading/bars"
	"github.com/toolyard/toolyard/packs/trading/hyperliquid"
	"github.com/toolyard/toolyard/packs/trading/market"
	"github.com/toolyard/toolyard/yard"
)

// barsCommands returns the commands that fill the bar store.
func barsCommands() []yard.PackCommand {
	return []yard.PackCommand{
		{
			Name: "bars fetch", Args: "SYMBOL...", Short: "Store price bars from the venue",
			Long: "Store closed price bars from the venue, so that backtests have a longer history than the newest 5,000 bars that the venue offers. Run it regularly.",
			Flags: func(f *flag.FlagSet) {
				f.String("interval", "5m", "bar length: 1m, 5m, 15m, 1h, 4h or 1d")
				f.String("from", "", "first day or time (default: as far back as the venue offers)")
			},
			Run: fetchBars,
		},
		{
			Name: "bars import", Args: "FILE...", Short: "Store price bars from files",
			Long: "Store price bars from CSV files with the columns ts, open, high, low, close, volume and trades, or from Hyperliquid candleSnapshot JSON.",
			Flags: func(f *flag.FlagSet) {
				f.String("symbol", "", "symbol, such as BTC")
				f.String("interval", "", "bar length: 1m, 5m, 15m, 1h, 4h or 1d")
				f.Bool("replace", false, "replace stored bars that differ")
			},
			Run: importBars,
		},
	}
}

// barStore returns the open pack's store.
func barStore(s yard.PackCommandSetup) (*bars.Store, error) {
	src, ok := s.Source.(*Source)
	if !ok || src.feed.store == nil {
		return nil, errors.New("the trading pack is not enabled: add packs: {trading: {}}")
	}
	return src.feed.store, nil
}

func intervalFlag(s yard.PackCommandSetup) (market.Interval, error) {
	i := market.Interval(s.Flags.Lookup("interval").Value.String())
	if !i.Valid() {
		return i, fmt.Errorf("-interval must be one of %v", market.Intervals)
	}
	return i, nil
}

// maxVenueBars is the number of past bars that the venue offers.
const maxVenueBars = 5000

func fetchBars(ctx context.Context, s yard.PackCommandSetup) error {
	store, err := barStore(s)
	if err != nil {
		return err
	}
	interval, err := intervalFlag(s)
	if err != nil {
		return err
	}
	if len(s.Args) == 0 {
		return errors.New("specify at least one symbol, such as BTC")
	}
	to := s.Source.(*Source).setup.Now()
	from := to.Add(-maxVenueBars * interval.Duration())
	if text := s.Flags.Lookup("from").Value.String(); text != "" {
		if from, err = parseDay(text); err != nil {
			return fmt.Errorf("-from: %w", err)
		}
	}
	for _, symbol := range s.Args {
		list, err := store.Between(ctx, symbol, interval, from, to)
		if err != nil {
			return fmt.Errorf("%s: %w", symbol, err)
		}
		if len(list) == 0 {
			fmt.Fprintf(s.Stdout, "%s %s: no bars since %s\n", symbol, interval, from.UTC().Format(time.RFC3339))
			continue
		}
		fmt.Fprintf(s.Stdout, "%s %s: %d bars from %s to %s\n", symbol, interval, len(list),
			list[0].Start.Format(time.RFC3339), list[len(list)-1].End.Format(time.RFC3339))
	}
	return nil
}

// parseDay parses a date or a time.
func parseDay(s string) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, fmt.Errorf("%q is neither a date such as 2026-03-01 nor a time such as 2026-03-01T12:00:00Z", s)
	}
	return t, nil
}

func importBars(_ context.Context, s yard.PackCommandSetup) error {
	store, err := barStore(s)
	if err != nil {
		return err
	}
	interval, err := intervalFlag(s)
	if err != nil {
		return err
	}
	symbol := s.Flags.Lookup("symbol").Value.String()
	if symbol == "" || len(s.Args) == 0 {
		return errors.New("set -symbol, and specify at least one file")
	}
	replace := s.Flags.Lookup("replace").Value.String() == "true"
	for _, path := range s.Args {
		list, err := bars.Import(path, interval, func(data []byte) ([]market.Bar, error) {
			return hyperliquid.ParseCandles(data, symbol, interval)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		change, err := store.Put(symbol, interval, list, replace)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		fmt.Fprintf(s.Stdout, "%s: %d bars added, %d unchanged, %d different\n", path, change.Added, change.Unchanged, change.Different)
		if change.Different > 0 && !replace {
			fmt.Fprintln(s.Stdout, "Stored bars were not replaced; use -replace to replace them.")
		}
	}
	return nil
}
