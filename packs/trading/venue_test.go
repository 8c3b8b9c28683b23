package trading

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/acceptance/fakemarkets"
	"github.com/toolyard/toolyard/yard"
)

const (
	owner    = "0x00000000000000000000000000000000000000a1"
	agentKey = "0x0123456789012345678901234567890123456789012345678901234567890123"
	agentOf  = "0x14791697260e4c9a71f18484c9f997b308e59325" // address of agentKey
)

// openAt opens the pack with a live account at a venue.
func openAt(t *testing.T, venue *fakemarkets.Hyperliquid, account string) *Source {
	t.Helper()
	settings := fmt.Sprintf(`{"bars":"bars","hyperliquid":{"url":%q,"testnet":true},"accounts":{"main":%s}}`, venue.URL, account)
	src, err := open(yard.PackSetup{
		Settings: []byte(settings), Dir: t.TempDir(), HTTP: http.DefaultClient, Journal: yard.MemoryJournal(), Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}, connect)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func TestLiveAccountsAreVerifiedAtStart(t *testing.T) {
	live := fmt.Sprintf(`{"broker":"hyperliquid","interval":"1m","address":%q,"agentKey":%q}`, owner, agentKey)
	for name, test := range map[string]struct {
		prepare func(*fakemarkets.Hyperliquid)
		account string
		want    string // text of the problem; empty if there is none
	}{
		"approved":      {func(f *fakemarkets.Hyperliquid) { f.Deposit(owner, "100"); f.Approve(owner, agentOf) }, live, ""},
		"not approved":  {func(f *fakemarkets.Hyperliquid) { f.Deposit(owner, "100") }, live, "is not approved"},
		"no account":    {func(*fakemarkets.Hyperliquid) {}, live, "has no account"},
		"agent address": {func(f *fakemarkets.Hyperliquid) { f.Deposit(owner, "100"); f.Approve(owner, agentOf) }, fmt.Sprintf(`{"broker":"hyperliquid","interval":"1m","address":%q}`, agentOf), "Set address to the account"},
		"down":          {func(f *fakemarkets.Hyperliquid) { f.Down(true) }, live, "not available"},
	} {
		t.Run(name, func(t *testing.T) {
			venue := fakemarkets.NewHyperliquid()
			defer venue.Close()
			test.prepare(venue)
			problems := verifyAll(t.Context(), openAt(t, venue, test.account).verifiers())
			if test.want == "" && len(problems) == 0 {
				return
			}
			if len(problems) != 1 || test.want == "" || !strings.Contains(problems[0].Message, test.want) || problems[0].Subject != "account main" {
				t.Errorf("%+v", problems)
			}
		})
	}
}

func TestProblemsOfAccountsArePublished(t *testing.T) {
	venue := fakemarkets.NewHyperliquid()
	defer venue.Close()
	src := openAt(t, venue, fmt.Sprintf(`{"broker":"hyperliquid","interval":"1m","address":%q}`, owner))
	ctx, cancel := context.WithCancel(t.Context())
	offers := make(chan toolyard.Offer, 10)
	done := make(chan error, 1)
	go func() { done <- src.Run(ctx, func(o toolyard.Offer) { offers <- o }) }()
	first, second := <-offers, <-offers
	cancel()
	if err := <-done; err != nil || len(first.Problems) != 0 || len(second.Problems) != 1 || len(second.Tools) != len(first.Tools) {
		t.Errorf("%v, %+v, %+v", err, first.Problems, second.Problems)
	}
}

// runBars runs a command with flags and arguments.
func runBars(t *testing.T, src *Source, name string, args ...string) (string, error) {
	t.Helper()
	for _, c := range barsCommands() {
		if c.Name != name {
			continue
		}
		f := flag.NewFlagSet(name, flag.ContinueOnError)
		c.Flags(f)
		if err := f.Parse(args); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err := c.Run(t.Context(), yard.PackCommandSetup{Args: f.Args(), Flags: f, Source: src, Stdout: &out})
		return out.String(), err
	}
	t.Fatalf("no command %s", name)
	return "", nil
}

func TestBarsCommands(t *testing.T) {
	venue := fakemarkets.NewHyperliquid()
	defer venue.Close()
	src := openAt(t, venue, `{"broker":"paper","interval":"1m"}`)
	for range 2 {
		if out, err := runBars(t, src, "bars fetch", "-interval", "1h", "-from", time.Now().Add(-48*time.Hour).Format(time.RFC3339), "BTC", "ETH"); err != nil || strings.Count(out, ": 4") != 2 {
			t.Errorf("%s, %v", out, err)
		}
	}
	csv, wire := filepath.Join(t.TempDir(), "a.csv"), filepath.Join(t.TempDir(), "b.json")
	candle := `[{"t":1684699200000,"T":1684702799999,"s":"kPEPE","i":"1h","o":"0.001601","c":"0.001604","h":"0.001616","l":"0.001601","v":"520665683.0","n":709}]`
	for file, text := range map[string]string{csv: "ts,open,high,low,close\n1684699200000,1,3,1,2\n", wire: candle} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"-symbol", "kPEPE", "-interval", "1h", wire}, "1 bars added"},
		{[]string{"-symbol", "kPEPE", "-interval", "1h", wire}, "1 unchanged"},
		{[]string{"-symbol", "kPEPE", "-interval", "1h", csv}, "use -replace"},
		{[]string{"-symbol", "kPEPE", "-interval", "1h", "-replace", csv}, "1 different"},
	} {
		if out, err := runBars(t, src, "bars import", step.args...); err != nil || !strings.Contains(out, step.want) {
			t.Errorf("%v: %s, %v", step.args, out, err)
		}
	}
	for name, args := range map[string][]string{
		"bars fetch": {"-interval", "2m", "BTC"}, "bars import": {"-interval", "1h", csv},
	} {
		if out, err := runBars(t, src, name, args...); err == nil {
			t.Errorf("%s %v: %s", name, args, out)
		}
	}
	if _, err := runBars(t, src, "bars fetch", "NOPE"); err == nil {
		t.Error("an unknown symbol is accepted")
	}
}
