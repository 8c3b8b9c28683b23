//go:build unix

package portfolio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/script"
	"github.com/toolyard/toolyard/toolyardtest"
)

// load loads the tool from its file.
func load(t *testing.T) *toolyard.Tool {
	t.Helper()
	folder, err := script.New(script.Options{Dir: "tools", CacheDir: filepath.Join(os.TempDir(), "toolyard-test-cache")})
	if err != nil {
		t.Skip(err) // this build has no script engine
	}
	ctx, cancel := context.WithCancel(t.Context())
	published, ended := make(chan []*toolyard.Tool, 1), make(chan error, 1)
	go func() {
		ended <- folder.Run(ctx, func(offer toolyard.Offer) {
			select {
			case published <- offer.Tools:
			default: // only the first offer matters
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case tools := <-published:
		if len(tools) == 1 && tools[0].Name == "analyze_portfolio_risk" {
			return tools[0]
		}
		t.Fatalf("%d tools, problems: %v", len(tools), folder.Problems())
	case <-time.After(time.Minute):
		t.Fatal("nothing was published")
	}
	return nil
}

// position returns a position in Hyperliquid's format.
func position(coin, value string, leverage int) string {
	return fmt.Sprintf(`{"type":"oneWay","position":{"coin":%q,"szi":"1.0","positionValue":%q,"liquidationPx":null,"leverage":{"type":"cross","value":%d}}}`,
		coin, value, leverage)
}

func portfolio(account string, positions ...string) string {
	return fmt.Sprintf(`{"marginSummary":{"accountValue":%q},"assetPositions":[%s]}`, account, strings.Join(positions, ","))
}

// eleven returns eleven positions with a total value of 6000; the largest is short.
func eleven() []string {
	list := []string{position("ETH", "1400.5", 20), position("BTC", "-1500.50", 3)}
	for i := range 8 {
		list = append(list, position(fmt.Sprintf("C%d", i), "344.375", 1))
	}
	return append(list, position("LAST", "344.0", 10))
}

// answer is the result that clients receive.
type answer struct {
	Content    []text `json:"content"`
	Structured risk   `json:"structuredContent"`
}

type text struct{ Type, Text string }

type risk struct {
	RiskScore       int      `json:"riskScore"`
	LeverageRatio   float64  `json:"leverageRatio"`
	LargestPosition string   `json:"largestPosition"`
	Recommendations []string `json:"recommendations"`
}

const (
	reduce  = "Consider reducing leverage"
	diverse = "Portfolio may be over-diversified"
	careful = "A conservative portfolio is worth no more than its account"
)

func TestRisk(t *testing.T) {
	tool := load(t)
	if !slices.Equal(tool.Contexts, []string{"hyperliquid"}) || !tool.AllowedIn(toolyard.Read) {
		t.Errorf("it needs %q in %v", tool.Contexts, tool.Effects)
	}
	none := []string{}
	tests := map[string]struct {
		portfolio string
		more      string
		want      risk
		text      string
	}{
		"everything at once": {portfolio("1000.0", eleven()...), "", risk{90, 6, "BTC", []string{reduce, diverse}}, "Risk Score: 90/100. Leverage: 6.00x"},
		"no account value":   {portfolio("0", eleven()...), "", risk{50, 0, "BTC", []string{diverse}}, "Risk Score: 50/100. Leverage: 0.00x"},
		"a debt":             {portfolio("-5.0", position("A", "10", 1)), "", risk{0, 0, "A", none}, "Risk Score: 0/100. Leverage: 0.00x"},
		"exactly 5":          {portfolio("2", position("A", "10", 10)), "", risk{20, 5, "A", []string{reduce}}, "Risk Score: 20/100. Leverage: 5.00x"},
		"exactly 2":          {portfolio("5", position("A", "-10", 11)), "", risk{30, 2, "A", none}, "Risk Score: 30/100. Leverage: 2.00x"},
		"decimals add up":    {portfolio("100", position("A", "9.5", 1), position("B", "10.5", 1)), "", risk{0, 0.2, "B", none}, "Risk Score: 0/100. Leverage: 0.20x"},
		"careful":            {portfolio("10", position("A", "15", 1)), `,"riskTolerance":"conservative"`, risk{0, 1.5, "A", []string{careful}}, "Risk Score: 0/100. Leverage: 1.50x"},
		"nothing held":       {portfolio("10"), "", risk{0, 0, "None", none}, "Risk Score: 0/100. Leverage: 0.00x"},
		"nothing there":      {`{}`, "", risk{0, 0, "None", none}, "Risk Score: 0/100. Leverage: 0.00x"},
		"gaps":               {`{"assetPositions":[{},{"position":{"coin":"A"}}]}`, "", risk{0, 0, "None", none}, "Risk Score: 0/100. Leverage: 0.00x"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			res, err := toolyardtest.Call(t, tool, `{"portfolio":`+test.portfolio+test.more+`}`, &toolyardtest.Options{Mode: toolyard.Read})
			if err != nil || res.IsError {
				t.Fatal(err)
			}
			var got answer
			raw, err := json.Marshal(res)
			if err := errors.Join(err, json.Unmarshal(raw, &got)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(answer{[]text{{"text", test.text}}, test.want}, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	for _, args := range []string{`{"portfolio":{"marginSummary":{"accountValue":"a lot"}}}`, `{"portfolio":{},"riskTolerance":"none"}`} {
		if _, err := toolyardtest.Call(t, tool, args, nil); toolyard.AsError(err).Code != toolyard.Invalid {
			t.Errorf("%s: %v", args, err)
		}
	}
}
