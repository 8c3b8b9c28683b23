package yard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/trust/oauthtest"
)

// stopBefore makes a browser stop at a redirect to our callback, and returns the address.
func (b *visit) stopBefore(link string) (callback string) {
	b.t.Helper()
	b.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		if strings.Contains(req.URL.Path, "/oauth/callback") {
			callback = req.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}
	b.connect(link)
	b.CheckRedirect = nil
	if callback == "" {
		b.t.Fatal("the authorization server did not redirect to the callback")
	}
	return callback
}

func with(address, name, value string) string {
	u, _ := url.Parse(address)
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// A48, A49, A50, A57: a response of the authorization server counts only in the browser that began the
// sign-in, once, and from the expected server.
func TestForgedCallbacksConnectNobody(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	c.start()
	before := c.as.Counts()
	for name, attack := range map[string]func(b *visit, callback string) string{
		"another browser": func(_ *visit, callback string) string { b := newVisit(t); return b.read(b.Get(callback)) },
		"the cookie of another sign-in": func(_ *visit, callback string) string {
			b := newVisit(t)
			b.stopBefore(c.linkFor("bob"))
			return b.read(b.Get(callback))
		},
		"another state": func(b *visit, callback string) string { return b.read(b.Get(with(callback, "state", "x"))) },
		"another issuer": func(b *visit, callback string) string {
			return b.read(b.Get(with(callback, "iss", "https://evil.example")))
		},
		"an issuer with a slash": func(b *visit, callback string) string {
			return b.read(b.Get(with(callback, "iss", c.as.URL+"/")))
		},
		"two states": func(b *visit, callback string) string { return b.read(b.Get(callback + "&state=x")) },
		"a form":     func(b *visit, callback string) string { return b.read(b.PostForm(callback, nil)) },
		"HEAD":       func(b *visit, callback string) string { return b.read(b.Head(callback)) },
		"an image": func(b *visit, callback string) string {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, callback, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Sec-Fetch-Dest", "image")
			return b.read(b.Do(req))
		},
		"a prefetch": func(b *visit, callback string) string {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, callback, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Sec-Purpose", "prefetch")
			return b.read(b.Do(req))
		},
		"an error with a script": func(b *visit, callback string) string {
			return b.read(b.Get(with(with(callback, "error", "access_denied"), "error_description", "<script>alert(1)</script>")))
		},
	} {
		b := newVisit(t)
		if page := attack(b, b.stopBefore(c.linkFor("ann"))); strings.Contains(page, "<h1>Connected</h1>") || strings.Contains(page, "<script>") {
			t.Errorf("%s: %s", name, page)
		}
	}
	c.linkFor("ann") // is still not connected
	if after := c.as.Counts(); after.Refreshes != before.Refreshes {
		t.Errorf("%+v", after)
	}
	b := newVisit(t)
	callback := b.stopBefore(c.linkFor("ann"))
	if page := b.read(b.Get(callback)); !strings.Contains(page, "<h1>Connected</h1>") {
		t.Error(page)
	}
	if page := b.read(b.Get(callback)); !strings.Contains(page, "<h1>Start again</h1>") {
		t.Error("a callback counts twice:", page)
	}
}

// A56, A58: a link is for one sign-in at one server, and only its own page can begin it.
func TestForgedLinksBeginNoSignIn(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	c.start()
	link := c.linkFor("ann")
	address, ticket, _ := strings.Cut(link, "?ticket=")
	codes := c.as.Counts().Codes
	for name, forged := range map[string]string{
		"changed": address + "?ticket=" + ticket[:20] + "A" + ticket[21:] + "x", "cut": link[:len(link)-4], "none": address,
		"another server": strings.Replace(link, "/crm", "/other", 1),
	} {
		if page := newVisit(t).connect(forged); !strings.Contains(page, "<h1>Start again</h1>") {
			t.Errorf("%s: %s", name, page)
		}
	}
	post := func(header, value string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(url.Values{"ticket": {ticket}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set(header, value)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		if status := post(header, value); status != http.StatusForbidden {
			t.Errorf("a page of another site begins a sign-in: %s, status %d", header, status)
		}
	}
	if n := c.as.Counts().Codes; n != codes {
		t.Errorf("%d sign-ins were begun", n-codes)
	}
	c.signIn(link, "ann.smith")
	if page := newVisit(t).connect(link); !strings.Contains(page, "<h1>Start again</h1>") {
		t.Error("a link counts twice:", page)
	}
	c.expect("ann", "ann.smith")
}

// A59: pages reveal nothing to other sites, to caches and to frames.
func TestConnectPagesArePrivate(t *testing.T) {
	c := newConnectable(t, false, "{type: person}")
	res, err := http.Get(c.operatorLink())
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	for name, want := range map[string]string{"Referrer-Policy": "same-origin", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if csp := res.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") || !strings.Contains(csp, "default-src 'none'") {
		t.Error(csp)
	}
}

// A75: a person who connects with another account gets a new session at a legacy server.
func TestNewAccountEndsTheOldSession(t *testing.T) {
	c := newConnectable(t, true, "{type: person}")
	c.start()
	c.signIn(c.linkFor("ann"), "ann.private")
	c.expect("ann", "ann.private")
	// The operator connects again while still connected.
	c.as.Set(func(s *oauthtest.Server) { s.Person = "operator.new" })
	if page := newVisit(t).connect(c.operatorLink()); !strings.Contains(page, "<h1>Connected</h1>") {
		t.Fatal(page)
	}
	c.expect("local", "operator.new")
	c.expect("ann", "ann.private")
}
