package cryptopanic

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/acceptance/fakemarkets"
	"github.com/toolyard/toolyard/internal/base/leaktest"
	"github.com/toolyard/toolyard/packs/trading/market"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const token = "s3cret-token"

var now = time.Date(2026, 3, 21, 12, 0, 0, 0, time.UTC)

func open(t *testing.T) (*fakemarkets.CryptoPanic, *Client) {
	t.Helper()
	f := fakemarkets.NewCryptoPanic(token)
	t.Cleanup(f.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := New(Options{URL: f.URL, Token: token, HTTP: &http.Client{Transport: transport}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	var posts []fakemarkets.CryptoPanicPost
	for i := range 200 { // one post every 10 minutes
		posts = append(posts, fakemarkets.CryptoPanicPost{
			ID: i, Title: fmt.Sprintf("Post %d", i), Link: "https://news.example/a", Published: now.Add(-time.Duration(i) * 10 * time.Minute),
			Symbols: []string{[]string{"BTC", "ETH"}[i%2]}, Positive: 3, Negative: 1,
		})
	}
	f.Set(posts...)
	return f, c
}

func query(from, to time.Time, symbols ...string) market.NewsQuery {
	return market.NewsQuery{Symbols: symbols, From: from, To: to, Limit: 100}
}

func TestPostsOfAPeriod(t *testing.T) {
	f, c := open(t)
	posts, err := c.Posts(t.Context(), query(now.Add(-10*time.Hour), now.Add(-time.Hour), "BTC"))
	if err != nil || len(posts) != 28 {
		t.Fatalf("%d posts, %v", len(posts), err)
	}
	p := posts[0]
	if p.PublishedAt.After(now.Add(-time.Hour)) || p.Symbols[0] != "BTC" || p.Source != "news.example" || p.Votes != nil || p.URL == "" {
		t.Errorf("%+v", p)
	}
	if present, err := c.Posts(t.Context(), query(now.Add(-time.Hour), now, "BTC")); err != nil || present[0].Votes == nil || present[0].Votes.Positive != 3 {
		t.Errorf("%+v, %v", present, err)
	}
	requests := len(f.Requests())
	for range 5 { // served from the cache
		if _, err := c.Posts(t.Context(), query(now.Add(-5*time.Hour), now, "BTC")); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.Requests()); n != requests || n != 2 {
		t.Errorf("%d requests, %d before", n, requests)
	}
}

func TestHistoryIsLimited(t *testing.T) {
	f, c := open(t)
	old := now.Add(-30 * time.Hour)
	if _, err := c.Posts(t.Context(), query(old.Add(-time.Hour), old)); toolyard.AsError(err).Code != toolyard.NoData {
		t.Errorf("got %v", err)
	}
	if n := len(f.Requests()); n != maxPages {
		t.Errorf("%d requests", n)
	}
}

func TestTheTokenIsNeverShown(t *testing.T) {
	for name, fail := range map[string]func(*fakemarkets.CryptoPanic){
		"down": func(f *fakemarkets.CryptoPanic) { f.Down(true) }, "cut": func(f *fakemarkets.CryptoPanic) { f.Cut(true) },
		"500": func(f *fakemarkets.CryptoPanic) { f.Status(500) }, "401": func(f *fakemarkets.CryptoPanic) { f.Status(401) },
		"429": func(f *fakemarkets.CryptoPanic) { f.Status(429) }, "403": func(f *fakemarkets.CryptoPanic) { f.Status(403) },
		"garbage": func(f *fakemarkets.CryptoPanic) { f.Garbage(`{"next":"?auth_token=` + token + `","results":7}`) },
	} {
		t.Run(name, func(t *testing.T) {
			f, c := open(t)
			fail(f)
			_, err := c.Posts(t.Context(), query(now.Add(-time.Hour), now))
			if err == nil {
				t.Fatal("no error")
			}
			for e := err; e != nil; e = errors.Unwrap(e) {
				if strings.Contains(e.Error(), token) {
					t.Errorf("the token is in %q", e)
				}
			}
			limited := name == "429" || name == "403"
			if e := toolyard.AsError(err); limited != (e.Code == toolyard.RateLimited && e.RetryAfter > 0) {
				t.Errorf("%+v", e)
			}
			if limited {
				_, _ = c.Posts(t.Context(), query(now.Add(-time.Hour), now))
				if n := len(f.Requests()); n != 1 {
					t.Errorf("%d requests although the quota is used up", n)
				}
			}
		})
	}
}

func TestTextsOfStrangersAreBounded(t *testing.T) {
	f, c := open(t)
	f.Set(fakemarkets.CryptoPanicPost{
		ID: 1, Published: now, Title: "Bit\u202ecoin\n\n crashes\x00\u200b " + strings.Repeat("x", 1000), Link: "javascript:alert(1)", Symbols: []string{"BTC"},
	})
	posts, err := c.Posts(t.Context(), query(now.Add(-time.Hour), now))
	if err != nil || len(posts) != 1 {
		t.Fatal(posts, err)
	}
	if p := posts[0]; !strings.HasPrefix(p.Title, "Bitcoin crashes xxx") || len([]rune(p.Title)) > maxTitle || strings.Contains(p.URL, "javascript") {
		t.Errorf("%+v", p)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"token": {HTTP: http.DefaultClient}, "http": {Token: token}, "plan": {Token: token, HTTP: http.DefaultClient, Plan: "../x"},
		"url": {Token: token, HTTP: http.DefaultClient, URL: "nonsense"},
	} {
		if _, err := New(o); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParsePage(f *testing.F) {
	f.Add([]byte(`{"next":null,"results":[{"id":1,"title":"a","published_at":"2026-03-21T10:30:00Z","kind":"news","source":{"title":"x"},"original_url":"https://a.example","instruments":[{"code":"BTC"}],"votes":{"negative":3,"positive":15}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		page, err := parsePage(data)
		if err != nil {
			return
		}
		var r recent
		r.add(page)
		for _, p := range r.posts {
			if len([]rune(p.Title)) > maxTitle || len(p.Symbols) > maxSymbols {
				t.Errorf("%+v", p)
			}
		}
	})
}
