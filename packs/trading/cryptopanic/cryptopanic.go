// Package cryptopanic is a client for version 2 of CryptoPanic's news API. The token is part of
// every URL, so errors and logs never contain a URL, and links to further pages are never followed.
package cryptopanic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/market"
)

const publicURL = "https://cryptopanic.com"

// Limits for requests and responses.
const (
	maxAnswer    = 4 << 20
	maxPages     = 5
	maxPosts     = 500 // per page
	maxSymbols   = 20  // per post
	maxTitle     = 300 // in characters
	maxName      = 60
	maxLink      = 500
	cacheTTL     = 5 * time.Minute // the free plan allows about 100 requests a day
	maxCached    = 64
	pauseOnLimit = 5 * time.Minute
	maxAge       = 5 * time.Minute // maximum age of the end of a query about the present
	answerWithin = 10 * time.Second
)

// Options configure a client.
type Options struct {
	URL   string // defaults to the public URL
	Plan  string // part of the URL; defaults to "developer"
	Token string
	HTTP  *http.Client //nolint:forbidigo // required; the client that the yard lends to packs
	Now   func() time.Time
}

// Client provides headlines. All callers share its cache. It is safe for concurrent use.
type Client struct {
	endpoint *url.URL
	token    string
	http     *http.Client //nolint:forbidigo // as above
	now      func() time.Time

	turn    chan struct{}      // guards the fields below; buffered with capacity one
	cache   map[string]*recent // keyed by symbols
	resting time.Time          // no request is sent before this time
}

// recent contains the newest posts about some symbols.
type recent struct {
	posts    []market.Post // newest first
	at       time.Time
	pages    int
	complete bool // whether there are no older posts
}

var (
	_      market.News = (*Client)(nil)
	planRE             = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,30}$`)
)

// New returns a client. It does not send a request.
func New(o Options) (*Client, error) {
	plan := cmp.Or(o.Plan, "developer")
	base, err := url.Parse(cmp.Or(o.URL, publicURL))
	switch {
	case err != nil || base.Host == "":
		return nil, errors.New("cryptopanic: url must be an http or https URL")
	case o.HTTP == nil:
		return nil, errors.New("cryptopanic: an HTTP client is required")
	case o.Token == "":
		return nil, errors.New("cryptopanic: token is required")
	case !planRE.MatchString(plan):
		return nil, errors.New("cryptopanic: plan must be a name such as developer, growth or enterprise")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Client{
		endpoint: base.JoinPath("api", plan, "v2", "posts", "/"), token: o.Token, http: o.HTTP, now: o.Now,
		turn: make(chan struct{}, 1), cache: map[string]*recent{},
	}, nil
}

// Posts implements [market.News]. The service offers only its newest posts, so there is no data for
// an earlier period. Posts in a past period have no votes, because votes are counted until today.
func (c *Client) Posts(ctx context.Context, q market.NewsQuery) ([]market.Post, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	symbols := slices.Sorted(slices.Values(q.Symbols))
	r, err := c.fetch(ctx, strings.ToUpper(strings.Join(slices.Compact(symbols), ",")), q.From)
	if err != nil {
		return nil, err
	}
	if n := len(r.posts); n > 0 && !r.complete && r.posts[n-1].PublishedAt.After(q.To) {
		return nil, toolyard.Errorf(toolyard.NoData, "CryptoPanic has no news from before %s.", r.posts[n-1].PublishedAt.Format(time.RFC3339))
	}
	past := c.now().Sub(q.To) > maxAge
	var out []market.Post
	for _, p := range r.posts {
		if past {
			p.Votes = nil
		}
		if len(out) < q.Limit && !p.PublishedAt.Before(q.From) && !p.PublishedAt.After(q.To) {
			p.Symbols = slices.Clone(p.Symbols)
			out = append(out, p)
		}
	}
	return out, nil
}

// fetch returns posts back to the given time, or as many as the service offers.
func (c *Client) fetch(ctx context.Context, symbols string, from time.Time) (*recent, error) {
	r := c.cache[symbols]
	if r == nil || c.now().Sub(r.at) >= cacheTTL {
		r = &recent{at: c.now()}
	}
	for !r.complete && r.pages < maxPages && (len(r.posts) == 0 || !r.posts[len(r.posts)-1].PublishedAt.Before(from)) {
		if wait := c.resting.Sub(c.now()); wait > 0 {
			return nil, limited(wait, nil)
		}
		page, err := c.request(ctx, symbols, r.pages+1)
		if err != nil {
			return nil, err
		}
		r.add(page)
	}
	if len(c.cache) >= maxCached {
		clear(c.cache)
	}
	c.cache[symbols] = r
	return r, nil
}

// add appends a page. Posts that are published in the meantime push others to the next page, so
// posts may appear twice.
func (r *recent) add(page *pageWire) {
	for _, p := range page.Results {
		post := p.post()
		if !slices.ContainsFunc(r.posts, func(o market.Post) bool { return o.ID == post.ID }) {
			r.posts = append(r.posts, post)
		}
	}
	slices.SortStableFunc(r.posts, func(a, b market.Post) int {
		return cmp.Or(b.PublishedAt.Compare(a.PublishedAt), cmp.Compare(a.ID, b.ID))
	})
	r.pages++
	r.complete = page.Next == nil || len(page.Results) == 0
}

type pageWire struct {
	Next    *string    `json:"next"`
	Results []postWire `json:"results"`
}

type postWire struct {
	ID          int64     `json:"id"`
	Title       string    `json:"title"`
	PublishedAt time.Time `json:"published_at"`
	Kind        string    `json:"kind"`
	Source      *struct {
		Title  string `json:"title"`
		Domain string `json:"domain"`
	} `json:"source"`
	OriginalURL string `json:"original_url"`
	URL         string `json:"url"`
	Instruments []struct {
		Code string `json:"code"`
	} `json:"instruments"`
	Votes *struct {
		Negative  int `json:"negative"`
		Positive  int `json:"positive"`
		Important int `json:"important"`
	} `json:"votes"`
}

func (p *postWire) post() market.Post {
	out := market.Post{
		ID: strconv.FormatInt(p.ID, 10), PublishedAt: p.PublishedAt.UTC(), Title: plain(p.Title, maxTitle),
		URL: cmp.Or(link(p.OriginalURL), link(p.URL)), Kind: plain(p.Kind, maxName),
	}
	if p.Source != nil {
		out.Source = plain(cmp.Or(p.Source.Domain, p.Source.Title), maxName)
	}
	for _, i := range p.Instruments[:min(len(p.Instruments), maxSymbols)] {
		out.Symbols = append(out.Symbols, plain(i.Code, maxName))
	}
	if v := p.Votes; v != nil {
		out.Votes = &market.Votes{Positive: max(v.Positive, 0), Negative: max(v.Negative, 0), Important: max(v.Important, 0)}
	}
	return out
}

// plain makes untrusted text safe to show: one line of visible characters with a limited length.
func plain(s string, limit int) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsGraphic(r) || unicode.Is(unicode.Cf, r): // control characters, direction marks and zero-width characters
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "�"))), " ")
	if runes := []rune(s); len(runes) > limit {
		s = string(runes[:limit-1]) + "…"
	}
	return s
}

// link returns s if it is a web address, and "" otherwise.
func link(s string) string {
	u, err := url.Parse(s)
	if err != nil || len(s) > maxLink || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return u.String()
}

func unavailable(why string, cause error) error {
	return &toolyard.Error{Code: toolyard.Unavailable, Message: "CryptoPanic is not available: " + why + ".", Err: cause}
}

func limited(wait time.Duration, cause error) error {
	return &toolyard.Error{Code: toolyard.RateLimited, RetryAfter: wait, Err: cause, Message: "The CryptoPanic request quota is exhausted. Try again later."}
}

// request fetches one page. The first page is 1.
func (c *Client) request(ctx context.Context, symbols string, page int) (*pageWire, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	u := *c.endpoint
	query := url.Values{"auth_token": {c.token}, "public": {"true"}}
	if symbols != "" {
		query.Set("currencies", symbols)
	}
	if page > 1 {
		query.Set("page", strconv.Itoa(page))
	}
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, unavailable("the server's URL is invalid", nil)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "toolyard")
	res, err := c.http.Do(req)
	if err != nil {
		return nil, unavailable("it is unreachable", withoutURL(err))
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, c.refused(res.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, unavailable("its response was cut off", withoutURL(err))
	case len(data) > maxAnswer:
		return nil, unavailable("its response is too large", nil)
	}
	return parsePage(data)
}

// withoutURL removes the URL, which contains the token, from a net/http error.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

func (c *Client) refused(status int) error {
	cause := fmt.Errorf("status %d", status)
	switch status {
	case http.StatusUnauthorized:
		return unavailable("it rejected the token; check cryptopanic.token and plan", cause)
	case http.StatusForbidden, http.StatusTooManyRequests: // the service uses both if the quota is exhausted
		c.resting = c.now().Add(pauseOnLimit)
		return limited(pauseOnLimit, cause)
	}
	return unavailable(fmt.Sprintf("the server responded with status %d", status), cause)
}

func parsePage(data []byte) (*pageWire, error) {
	var page pageWire
	if err := json.Unmarshal(data, &page); err != nil {
		return nil, unavailable("its response has an unexpected format", errors.New("invalid posts JSON")) // the parse error could quote a link that contains the token
	}
	if len(page.Results) > maxPosts {
		return nil, unavailable("its response has an unexpected format", fmt.Errorf("%d posts", len(page.Results)))
	}
	return &page, nil
}
