package marketdata

import (
	"context"
	"fmt"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/market"
)

type patternArgs struct {
	Symbol   string `json:"symbol" minLength:"1" maxLength:"64" doc:"Symbol of the perpetual, such as BTC."`
	Interval string `json:"interval" enum:"1m,5m,15m,1h,4h,1d" doc:"Length of each bar."`
	Lookback int    `json:"lookback" minimum:"20" maximum:"500" default:"100" doc:"Number of bars to examine, counted back from now."`
}

// pattern is a pattern found in recent bars.
type pattern struct {
	Pattern   string   `json:"pattern"`
	Direction string   `json:"direction" doc:"bullish, bearish or neutral."`
	Strength  float64  `json:"strength" doc:"How clearly the rule is met, from 0 to 1. It is not a probability."`
	Bars      [2]int64 `json:"bars" doc:"Start times of the pattern's first and last bars, in milliseconds since 1970."`
	Rule      string   `json:"rule"`
}

const (
	bullish = "bullish"
	bearish = "bearish"
	neutral = "neutral"

	recentBarsExamined = 5  // bars in which a short pattern must end
	rangeBars          = 20 // length of the range that a breakout leaves
	fastAverage        = 10
	slowAverage        = 30
	pivotWing          = 3 // lower bars required on each side of a high
	minPivotDistance   = 5
	minBars            = 20
)

func analyzeChartPattern() *toolyard.Tool {
	return define("analyze_chart_pattern", marketData,
		"Finds well-known chart patterns in recent bars, using fixed rules. strength measures how clearly a rule is met; it is not the probability of a price move. Patterns alone do not predict prices.",
		"Use to describe price action in words, together with the bars themselves",
		func(ctx context.Context, c *toolyard.Call, in patternArgs) ([]pattern, error) {
			list, err := recentBars(ctx, c, in.Symbol, market.Interval(in.Interval), in.Lookback)
			if err != nil {
				return nil, err
			}
			if len(list) < minBars {
				return nil, toolyard.Errorf(toolyard.NoData, "Only %d bars are available for %s; patterns require at least %d.", len(list), in.Symbol, minBars)
			}
			slices.Reverse(list)
			return findPatterns(list), nil
		})
}

// findPatterns applies all rules to bars, which are oldest first. It returns the newest patterns
// first.
func findPatterns(bars []market.Bar) []pattern {
	out := []pattern{}
	for i := len(bars) - 1; i >= max(2, len(bars)-recentBarsExamined); i-- {
		out = append(out, shortPatterns(bars[:i+1])...)
	}
	for _, rule := range []func([]market.Bar) []pattern{breakouts, averageCross, doublePivots} {
		out = append(out, rule(bars)...)
	}
	return out
}

// shortPatterns applies the rules for one to three bars that end with the last one.
func shortPatterns(bars []market.Bar) []pattern {
	var out []pattern
	for _, rule := range []func([]market.Bar) (pattern, bool){doji, hammer, engulfing, insideBar, threeInARow} {
		if p, ok := rule(bars); ok {
			out = append(out, p)
		}
	}
	return out
}

// found returns a pattern in the last n bars.
func found(bars []market.Bar, n int, name, direction string, strength decimal.Decimal, rule string) (pattern, bool) {
	s, _ := decimal.Min(decimal.Max(strength, decimal.Zero), decimal.NewFromInt(1)).Round(2).Float64()
	last := bars[len(bars)-n:]
	return pattern{name, direction, s, [2]int64{last[0].Start.UnixMilli(), last[n-1].Start.UnixMilli()}, rule}, true
}

func body(b market.Bar) decimal.Decimal   { return b.Close.Sub(b.Open) }
func height(b market.Bar) decimal.Decimal { return b.High.Sub(b.Low) }

func last(bars []market.Bar, back int) market.Bar { return bars[len(bars)-1-back] }

// ratio returns a/b, or zero if b is zero.
func ratio(a, b decimal.Decimal) decimal.Decimal {
	if b.IsZero() {
		return decimal.Zero
	}
	return a.DivRound(b, 6)
}

func dec(s string) decimal.Decimal { return decimal.RequireFromString(s) }

var (
	one       = decimal.NewFromInt(1)
	two       = decimal.NewFromInt(2)
	tenth     = dec("0.1")
	half      = dec("0.5")
	tolerance = dec("0.005") // maximum difference between two tops
	depth     = dec("0.015") // minimum drop between a top and the low that follows
)

func doji(bars []market.Bar) (pattern, bool) {
	b := last(bars, 0)
	share := ratio(body(b).Abs(), height(b))
	if height(b).IsZero() || share.GreaterThan(tenth) {
		return pattern{}, false
	}
	return found(bars, 1, "doji", neutral, one.Sub(share.Div(tenth)), "The body is at most 10 % of the bar's range.")
}

func hammer(bars []market.Bar) (pattern, bool) {
	b := last(bars, 0)
	size := body(b).Abs()
	upper, lower := b.High.Sub(decimal.Max(b.Open, b.Close)), decimal.Min(b.Open, b.Close).Sub(b.Low)
	switch {
	case size.IsZero():
		return pattern{}, false
	case lower.GreaterThan(size.Mul(two)) && upper.LessThan(size.Mul(half)):
		return found(bars, 1, "hammer", bullish, ratio(lower, height(b)), "The lower shadow is more than twice as long as the body, and the upper shadow is less than half as long.")
	case upper.GreaterThan(size.Mul(two)) && lower.LessThan(size.Mul(half)):
		return found(bars, 1, "shooting_star", bearish, ratio(upper, height(b)), "The upper shadow is more than twice as long as the body, and the lower shadow is less than half as long.")
	}
	return pattern{}, false
}

func engulfing(bars []market.Bar) (pattern, bool) {
	a, b := last(bars, 1), last(bars, 0)
	if !body(a).Mul(body(b)).IsNegative() || decimal.Max(b.Open, b.Close).LessThan(decimal.Max(a.Open, a.Close)) ||
		decimal.Min(b.Open, b.Close).GreaterThan(decimal.Min(a.Open, a.Close)) || body(b).Abs().Equal(body(a).Abs()) {
		return pattern{}, false
	}
	direction := bullish
	if body(b).IsNegative() {
		direction = bearish
	}
	return found(bars, 2, "engulfing", direction, one.Sub(ratio(body(a).Abs(), body(b).Abs())), "The body covers the entire body of the previous bar, in the opposite direction.")
}

func insideBar(bars []market.Bar) (pattern, bool) {
	a, b := last(bars, 1), last(bars, 0)
	if !b.High.LessThan(a.High) || !b.Low.GreaterThan(a.Low) {
		return pattern{}, false
	}
	return found(bars, 2, "inside_bar", neutral, one.Sub(ratio(height(b), height(a))), "The high and the low are within the previous bar's range.")
}

func threeInARow(bars []market.Bar) (pattern, bool) {
	up, down, sum := true, true, decimal.Zero
	for back := range 3 {
		b := last(bars, back)
		share := ratio(body(b), height(b))
		up, down = up && share.GreaterThan(half), down && share.Neg().GreaterThan(half)
		if back > 0 {
			later := last(bars, back-1)
			up, down = up && later.Close.GreaterThan(b.Close), down && later.Close.LessThan(b.Close)
		}
		sum = sum.Add(share.Abs())
	}
	strength := sum.DivRound(decimal.NewFromInt(3), 6)
	switch {
	case up:
		return found(bars, 3, "three_in_a_row", bullish, strength, "Each of three bars closes higher, and its body is more than half of its range.")
	case down:
		return found(bars, 3, "three_in_a_row", bearish, strength, "Each of three bars closes lower, and its body is more than half of its range.")
	}
	return pattern{}, false
}

// breakouts finds a close outside the range of the previous 20 bars.
func breakouts(bars []market.Bar) []pattern {
	if len(bars) <= rangeBars {
		return nil
	}
	b, before := last(bars, 0), bars[len(bars)-1-rangeBars:len(bars)-1]
	high, low, sum := before[0].High, before[0].Low, decimal.Zero
	for _, o := range before {
		high, low, sum = decimal.Max(high, o.High), decimal.Min(low, o.Low), sum.Add(height(o))
	}
	average := sum.DivRound(decimal.NewFromInt(rangeBars), 12)
	rule := fmt.Sprintf("The close is outside the range of the previous %d bars; strength compares the distance with an average bar's range.", rangeBars)
	var p pattern
	switch {
	case b.Close.GreaterThan(high):
		p, _ = found(bars, rangeBars+1, "range_breakout", bullish, ratio(b.Close.Sub(high), average), rule)
	case b.Close.LessThan(low):
		p, _ = found(bars, rangeBars+1, "range_breakout", bearish, ratio(low.Sub(b.Close), average), rule)
	default:
		return nil
	}
	return []pattern{p}
}

// averageCross finds a crossing of the 10-bar and 30-bar moving averages within the last bars.
func averageCross(bars []market.Bar) []pattern {
	for back := range recentBarsExamined {
		end := len(bars) - back
		if end <= slowAverage {
			return nil
		}
		now := average(bars[:end], fastAverage).Sub(average(bars[:end], slowAverage))
		before := average(bars[:end-1], fastAverage).Sub(average(bars[:end-1], slowAverage))
		if !now.Mul(before).IsNegative() {
			continue
		}
		direction := bullish
		if now.IsNegative() {
			direction = bearish
		}
		p, _ := found(bars[:end], slowAverage, "moving_average_cross", direction, ratio(now.Sub(before).Abs(), height(bars[end-1])),
			fmt.Sprintf("The average close of %d bars crosses the average close of %d bars; strength compares the change with the bar's range.", fastAverage, slowAverage))
		return []pattern{p}
	}
	return nil
}

// average returns the mean close of the last n bars.
func average(bars []market.Bar, n int) decimal.Decimal {
	sum := decimal.Zero
	for _, b := range bars[len(bars)-n:] {
		sum = sum.Add(b.Close)
	}
	return sum.DivRound(decimal.NewFromInt(int64(n)), 12)
}

// doublePivots finds two highs, or two lows, at nearly the same price.
func doublePivots(bars []market.Bar) []pattern {
	var out []pattern
	if p, ok := doublePivot(bars, "double_top", bearish, func(b market.Bar) decimal.Decimal { return b.High }, func(b market.Bar) decimal.Decimal { return b.Low }); ok {
		out = append(out, p)
	}
	if p, ok := doublePivot(bars, "double_bottom", bullish, func(b market.Bar) decimal.Decimal { return b.Low.Neg() }, func(b market.Bar) decimal.Decimal { return b.High.Neg() }); ok {
		out = append(out, p)
	}
	return out
}

// doublePivot finds the last two pivots of one price, with a turn of the other price between them.
func doublePivot(bars []market.Bar, name, direction string, top, turn func(market.Bar) decimal.Decimal) (pattern, bool) {
	var pivots []int
	for i := pivotWing; i < len(bars)-pivotWing; i++ {
		isPivot := true
		for j := i - pivotWing; j <= i+pivotWing; j++ {
			isPivot = isPivot && (j == i || top(bars[j]).LessThan(top(bars[i])))
		}
		if isPivot {
			pivots = append(pivots, i)
		}
	}
	if len(pivots) < 2 {
		return pattern{}, false
	}
	i, j := pivots[len(pivots)-2], pivots[len(pivots)-1]
	a, b := top(bars[i]), top(bars[j])
	apart := ratio(a.Sub(b).Abs(), a.Abs())
	low := turn(bars[i])
	for _, bar := range bars[i : j+1] {
		low = decimal.Min(low, turn(bar))
	}
	if j-i < minPivotDistance || apart.GreaterThan(tolerance) || ratio(decimal.Min(a, b).Sub(low), a.Abs()).LessThan(depth) {
		return pattern{}, false
	}
	return found(bars[:j+1], j-i+1, name, direction, one.Sub(apart.Div(tolerance)),
		"Two turning points within 0.5 % of each other, at least five bars apart, with a move of at least 1.5 % between them.")
}
