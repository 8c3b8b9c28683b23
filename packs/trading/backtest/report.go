package backtest

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard/packs/trading/engine"
	"github.com/toolyard/toolyard/packs/trading/market"
)

// Report is the result of a backtest.
type Report struct {
	Strategy string          `json:"strategy"`
	Symbol   string          `json:"symbol"`
	Interval market.Interval `json:"interval"`
	From     time.Time       `json:"from"`
	To       time.Time       `json:"to"`
	Activity
	Results
	Curve       []Point       `json:"curve"`
	Fills       []market.Fill `json:"fills"`
	Assumptions []string      `json:"assumptions"`
	Digest      string        `json:"digest"` // digest of all decisions, orders and observations
}

// Activity summarizes the strategy's actions.
type Activity struct {
	Ticks        int                 `json:"ticks"`
	Decisions    int                 `json:"decisions"`
	Rejections   map[engine.Rule]int `json:"rejections"`
	Failures     int                 `json:"failures"` // number of the strategy's failed calls
	FirstFailure string              `json:"firstFailure,omitempty"`
}

// Results describes how the strategy performed.
type Results struct {
	StartUSD       decimal.Decimal `json:"startUsd"`
	EndUSD         decimal.Decimal `json:"endUsd"`
	RealizedUSD    decimal.Decimal `json:"realizedUsd"`
	FeesUSD        decimal.Decimal `json:"feesUsd"`
	FundingUSD     decimal.Decimal `json:"fundingUsd"`
	MissingFunding int             `json:"missingFundingHours"`
	Trades         int             `json:"trades"`
	Wins           int             `json:"wins"`
	MaxDrawdownPct decimal.Decimal `json:"maxDrawdownPct"`
	Sharpe         float64         `json:"sharpe"` // of the returns per bar, annualized
}

var hundred = decimal.NewFromInt(100)

// statistics computes the drawdown and the Sharpe ratio of the curve.
func (r *Report) statistics(step time.Duration) {
	r.StartUSD, r.EndUSD = r.Curve[0].EquityUSD, r.Curve[len(r.Curve)-1].EquityUSD
	high := r.StartUSD
	returns := make([]float64, 0, len(r.Curve))
	for i, p := range r.Curve {
		high = decimal.Max(high, p.EquityUSD)
		if high.IsPositive() {
			r.MaxDrawdownPct = decimal.Max(r.MaxDrawdownPct, high.Sub(p.EquityUSD).Mul(hundred).DivRound(high, 4))
		}
		if i > 0 && r.Curve[i-1].EquityUSD.IsPositive() {
			returns = append(returns, p.EquityUSD.Sub(r.Curve[i-1].EquityUSD).DivRound(r.Curve[i-1].EquityUSD, 12).InexactFloat64())
		}
	}
	r.Sharpe = sharpe(returns, float64(365*24*time.Hour)/float64(step))
}

// sharpe returns the returns' mean divided by their standard deviation, scaled to a year. It is
// zero if the returns do not vary.
func sharpe(returns []float64, perYear float64) float64 {
	if len(returns) < 2 {
		return 0
	}
	sum := 0.0
	for _, v := range returns {
		sum += v
	}
	mean, squares := sum/float64(len(returns)), 0.0
	for _, v := range returns {
		squares += (v - mean) * (v - mean)
	}
	deviation := math.Sqrt(squares / float64(len(returns)-1))
	if deviation == 0 {
		return 0
	}
	return math.Round(mean/deviation*math.Sqrt(perYear)*100) / 100
}

// maxTrades is the number of trades that the text lists.
const maxTrades = 20

// WriteText writes the report as text for people.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	change := decimal.Zero
	if r.StartUSD.IsPositive() {
		change = r.EndUSD.Sub(r.StartUSD).Mul(hundred).DivRound(r.StartUSD, 2)
	}
	fmt.Fprintf(&b, "Backtest of %s: %s, %s bars, %s to %s\n\n", r.Strategy, r.Symbol, r.Interval, r.From.Format(time.RFC3339), r.To.Format(time.RFC3339))
	b.WriteString(r.Plot(72, 12))
	fmt.Fprintf(&b, "\nEquity       %s to %s USD (%s %%)\n", r.StartUSD.StringFixed(2), r.EndUSD.StringFixed(2), change)
	fmt.Fprintf(&b, "Realized     %s USD in %d trades, %d of them profitable\n", r.RealizedUSD.StringFixed(2), r.Trades, r.Wins)
	fmt.Fprintf(&b, "Fees         %s USD\n", r.FeesUSD.StringFixed(2))
	fmt.Fprintf(&b, "Funding      %s USD", r.FundingUSD.StringFixed(2))
	if r.MissingFunding > 0 {
		fmt.Fprintf(&b, " (rates are missing for %d hours)", r.MissingFunding)
	}
	fmt.Fprintf(&b, "\nDrawdown     %s %% at most\n", r.MaxDrawdownPct.StringFixed(2))
	fmt.Fprintf(&b, "Sharpe       %.2f (returns of each bar, annualized)\n", r.Sharpe)
	fmt.Fprintf(&b, "Decisions    %d at %d bars", r.Decisions, r.Ticks)
	if r.Failures > 0 {
		fmt.Fprintf(&b, "; %d calls failed, the first at %s", r.Failures, r.FirstFailure)
	}
	b.WriteString("\n")
	for _, rule := range slices.Sorted(maps.Keys(r.Rejections)) {
		fmt.Fprintf(&b, "Rejected     %d by %s\n", r.Rejections[rule], rule)
	}
	r.writeTrades(&b)
	b.WriteString("\nAssumptions\n")
	for _, a := range r.Assumptions {
		fmt.Fprintf(&b, "- %s\n", a)
	}
	fmt.Fprintf(&b, "\nDigest       %s\n", r.Digest)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) writeTrades(b *strings.Builder) {
	if len(r.Fills) == 0 {
		return
	}
	fmt.Fprintf(b, "\nThe last %d of %d fills\n", min(maxTrades, len(r.Fills)), len(r.Fills))
	for _, f := range r.Fills[max(0, len(r.Fills)-maxTrades):] {
		fmt.Fprintf(b, "%s  %-4s %12s %-6s at %12s", f.At.Format("2006-01-02 15:04"), f.Side, f.Size, f.Symbol, f.Price)
		if !f.RealizedUSD.IsZero() {
			fmt.Fprintf(b, "  %10s USD", f.RealizedUSD.StringFixed(2))
		}
		if f.Reason != "" {
			fmt.Fprintf(b, "  %s", f.Reason)
		}
		b.WriteString("\n")
	}
}

// Plot draws the curve with characters.
func (r *Report) Plot(width, height int) string {
	points := r.sample(width)
	low, high := bounds(points)
	rows := make([][]rune, height)
	for i := range rows {
		rows[i] = []rune(strings.Repeat(" ", len(points)))
	}
	for x, v := range points {
		rows[height-1-int((v-low)/(high-low)*float64(height-1)+0.5)][x] = '•'
	}
	var b strings.Builder
	for i, row := range rows {
		label := strings.Repeat(" ", 12)
		if i == 0 || i == height-1 {
			label = fmt.Sprintf("%12.2f", map[bool]float64{true: high, false: low}[i == 0])
		}
		fmt.Fprintf(&b, "%s ┤%s\n", label, strings.TrimRight(string(row), " "))
	}
	return b.String()
}

// sample returns about n points of the curve.
func (r *Report) sample(n int) []float64 {
	n = min(n, len(r.Curve))
	points := make([]float64, n)
	for i := range points {
		points[i] = r.Curve[i*(len(r.Curve)-1)/max(n-1, 1)].EquityUSD.InexactFloat64()
	}
	return points
}

// bounds returns the lowest and the highest value. If they are equal, it moves them slightly apart.
func bounds(points []float64) (low, high float64) {
	low, high = slices.Min(points), slices.Max(points)
	if low == high {
		high, low = high+1, low-1
	}
	return low, high
}

// WriteSVG writes the curve as an SVG image.
func (r *Report) WriteSVG(w io.Writer) error {
	const width, height, left, top, bottom = 960, 320, 80, 40, 40
	points := r.sample(width - left - 20)
	low, high := bounds(points)
	var line strings.Builder
	for i, v := range points {
		x := left + float64(i)*float64(width-left-20)/float64(max(len(points)-1, 1))
		y := top + (high-v)/(high-low)*float64(height-top-bottom)
		fmt.Fprintf(&line, "%.1f,%.1f ", x, y)
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13">
<rect width="100%%" height="100%%" fill="#fff"/>
<text x="%d" y="24" font-size="15" fill="#111">Equity of %s: %s, %s bars</text>
<text x="%d" y="%d" text-anchor="end" fill="#555">%.2f</text>
<text x="%d" y="%d" text-anchor="end" fill="#555">%.2f</text>
<text x="%d" y="%d" fill="#555">%s</text>
<text x="%d" y="%d" text-anchor="end" fill="#555">%s</text>
<polyline fill="none" stroke="#2563eb" stroke-width="1.5" points="%s"/>
</svg>
`, width, height, left, escape(r.Strategy), escape(r.Symbol), r.Interval, left-8, top+4, high, left-8, height-bottom+4, low,
		left, height-12, r.From.Format("2006-01-02 15:04"), width-20, height-12, r.To.Format("2006-01-02 15:04"), strings.TrimSpace(line.String()))
	return err
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
