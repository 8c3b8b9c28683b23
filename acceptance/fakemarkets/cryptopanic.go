package fakemarkets

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CryptoPanic is version 2 of the news API, on the plan developer.
type CryptoPanic struct {
	*Server
	token string
	posts []CryptoPanicPost // newest first; guarded by Server's lock
}

// CryptoPanicPost is a news item.
type CryptoPanicPost struct {
	ID                            int
	Title, Link                   string
	Published                     time.Time
	Symbols                       []string
	Positive, Negative, Important int
}

const newsPage = 20

// NewCryptoPanic starts a news API that accepts one token and 100 requests a day.
func NewCryptoPanic(token string) *CryptoPanic {
	c := &CryptoPanic{token: token}
	c.Server = start(100, 24*time.Hour, c.answer)
	return c
}

// Set sets the posts.
func (c *CryptoPanic) Set(list ...CryptoPanicPost) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.posts = slices.SortedFunc(slices.Values(list), func(a, b CryptoPanicPost) int { return b.Published.Compare(a.Published) })
}

func (c *CryptoPanic) answer(r *http.Request, _ []byte) reply {
	if r.Method != http.MethodGet || r.URL.Path != "/api/developer/v2/posts/" {
		return reply{0, http.StatusNotFound, "Not Found"}
	}
	q := r.URL.Query()
	if q.Get("auth_token") != c.token {
		return reply{0, http.StatusUnauthorized, map[string]string{"status": "Incomplete", "info": "Token not found"}}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var wanted []string
	if list := q.Get("currencies"); list != "" {
		wanted = strings.Split(list, ",")
	}
	var found []CryptoPanicPost
	for _, p := range c.posts {
		if wanted == nil || slices.ContainsFunc(p.Symbols, func(s string) bool { return slices.Contains(wanted, s) }) {
			found = append(found, p)
		}
	}
	page, _ := strconv.Atoi(q.Get("page"))
	page = max(page, 1)
	from := min((page-1)*newsPage, len(found))
	to := min(from+newsPage, len(found))
	body := map[string]any{"next": nil, "previous": nil, "results": c.results(found[from:to])}
	if to < len(found) { // the link contains the token
		next := url.Values{"auth_token": {c.token}, "page": {strconv.Itoa(page + 1)}, "currencies": {q.Get("currencies")}}
		body["next"] = c.URL + r.URL.Path + "?" + next.Encode()
	}
	return reply{1, http.StatusOK, body}
}

func (c *CryptoPanic) results(list []CryptoPanicPost) []any {
	out := []any{}
	for _, p := range list {
		instruments := []any{}
		for _, s := range p.Symbols {
			instruments = append(instruments, map[string]string{"code": s, "title": s, "slug": strings.ToLower(s)})
		}
		out = append(out, map[string]any{
			"id": p.ID, "slug": fmt.Sprintf("post-%d", p.ID), "title": p.Title, "description": "", "kind": "news",
			"published_at": p.Published.UTC().Format(time.RFC3339), "created_at": p.Published.UTC().Format(time.RFC3339),
			"source":       map[string]string{"title": "Example News", "region": "en", "domain": "news.example", "type": "feed"},
			"original_url": p.Link, "url": fmt.Sprintf("%s/news/%d", c.URL, p.ID), "instruments": instruments,
			"votes": map[string]int{
				"negative": p.Negative, "positive": p.Positive, "important": p.Important, "liked": 0, "disliked": 0, "lol": 0, "toxic": 0, "saved": 0, "comments": 0,
			},
			"panic_score": 72, "panic_score_1h": 85,
		})
	}
	return out
}
