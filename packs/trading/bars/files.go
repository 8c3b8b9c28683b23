package bars

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard/packs/trading/market"
)

const (
	maxImport    = 256 << 20 // bytes in a file to import
	maxField     = 40        // characters in a number
	folderMode   = 0o755
	secondsUntil = 100_000_000_000 // smaller numbers are times in seconds; larger ones are in milliseconds
	firstYear    = 1974            // in milliseconds, earlier times would be mistaken for seconds
)

// header is the first line of the store's files. Times are milliseconds since 1970.
const header = "ts,open,high,low,close,volume,trades\n"

// columns are the accepted column names in a file to import.
var columns = map[string][]string{
	"ts":     {"ts", "t", "time", "timestamp", "start", "open_time", "date", "datetime"},
	"open":   {"open", "o"},
	"high":   {"high", "h"},
	"low":    {"low", "l"},
	"close":  {"close", "c"},
	"volume": {"volume", "v", "vol"},
	"trades": {"trades", "n", "count"},
}

// readFile reads one of the store's files.
func readFile(path string, interval market.Interval) ([]market.Bar, error) {
	f, err := os.Open(path) //nolint:gosec // G304: below the folder of the store
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	list, err := ParseCSV(io.LimitReader(f, maxFile+1), interval)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// ParseCSV reads bars in ascending order from CSV with a header. It requires the columns ts, open,
// high, low and close; volume and trades are optional. Times are in RFC 3339, or in seconds or
// milliseconds since 1970.
func ParseCSV(r io.Reader, interval market.Interval) ([]market.Bar, error) {
	reader := csv.NewReader(r)
	reader.ReuseRecord = true
	first, err := reader.Read()
	if err != nil {
		return nil, fmt.Errorf("no header: %w", err)
	}
	at, err := columnsOf(first)
	if err != nil {
		return nil, err
	}
	var out []market.Bar
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, checkBars(out, interval)
		}
		if err != nil {
			return nil, err
		}
		b, err := readRecord(record, at, interval)
		if err != nil {
			line, _ := reader.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		out = append(out, b)
	}
}

// columnsOf returns the position of each column, or -1 if it is missing.
func columnsOf(first []string) (map[string]int, error) {
	at := map[string]int{}
	for column, names := range columns {
		at[column] = slices.IndexFunc(first, func(name string) bool {
			return slices.Contains(names, strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))))
		})
		if at[column] < 0 && column != "volume" && column != "trades" {
			return nil, fmt.Errorf("missing column %s; the header must contain ts, open, high, low and close", column)
		}
	}
	return at, nil
}

func readRecord(record []string, at map[string]int, interval market.Interval) (market.Bar, error) {
	start, err := parseTime(record[at["ts"]])
	if err != nil {
		return market.Bar{}, err
	}
	b := market.Bar{Start: start, End: start.Add(interval.Duration())}
	for column, target := range map[string]*decimal.Decimal{"open": &b.Open, "high": &b.High, "low": &b.Low, "close": &b.Close, "volume": &b.Volume} {
		if at[column] < 0 {
			continue
		}
		if *target, err = parseNumber(record[at[column]]); err != nil {
			return b, fmt.Errorf("%s: %w", column, err)
		}
	}
	if i := at["trades"]; i >= 0 {
		if b.Trades, err = strconv.Atoi(record[i]); err != nil {
			return b, errors.New("trades is not a whole number")
		}
	}
	return b, nil
}

func parseTime(s string) (time.Time, error) {
	s = strings.TrimSpace(s)
	t, err := time.Parse(time.RFC3339, s)
	if n, notNumber := strconv.ParseInt(s, 10, 64); notNumber == nil {
		if n < secondsUntil && n > -secondsUntil {
			n *= 1000
		}
		t, err = time.UnixMilli(n), nil
	}
	if err != nil {
		return t, fmt.Errorf("%.40q is not a valid time: use RFC 3339, or seconds or milliseconds since 1970", s)
	}
	if t = t.UTC(); t.Year() < firstYear || t.Year() > 9999 {
		return t, fmt.Errorf("%.40q is not a valid time: the year must be from %d to 9999", s, firstYear)
	}
	return t, nil
}

// parseNumber parses a decimal. It does not allow an exponent, which could make the number huge.
func parseNumber(s string) (decimal.Decimal, error) {
	s = strings.TrimSpace(s)
	if s == "" || len(s) > maxField || strings.Trim(s, "-.0123456789") != "" {
		return decimal.Decimal{}, fmt.Errorf("%.40q is not a number", s)
	}
	return decimal.NewFromString(s)
}

// writeFile replaces a file as a whole, so that a reader sees either the old or the new file.
func writeFile(path string, list []market.Bar) error {
	var b bytes.Buffer
	b.WriteString(header)
	for _, bar := range list {
		fmt.Fprintf(&b, "%d,%s,%s,%s,%s,%s,%d\n", bar.Start.UnixMilli(), bar.Open, bar.High, bar.Low, bar.Close, bar.Volume, bar.Trades)
	}
	if b.Len() > maxFile {
		return fmt.Errorf("%s would be larger than %d bytes", path, maxFile)
	}
	if err := os.MkdirAll(filepath.Dir(path), folderMode); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Import reads a file of bars to store. The file is CSV or JSON from Hyperliquid's Info API, which
// parse decodes.
func Import(path string, interval market.Interval, parse func([]byte) ([]market.Bar, error)) ([]market.Bar, error) {
	f, err := os.Open(path) //nolint:gosec // G304: chosen by the operator
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxImport+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxImport {
		return nil, fmt.Errorf("%s is larger than %d MiB; split it", path, maxImport>>20)
	}
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '[' {
		return parse(trimmed)
	}
	return ParseCSV(bytes.NewReader(data), interval)
}
