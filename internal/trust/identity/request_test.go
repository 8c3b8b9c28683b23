package identity

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/toolyard/toolyard"
)

func TestToken(t *testing.T) {
	_, token := mint(t)
	for _, c := range []struct {
		name    string
		headers []string
		query   string
		present bool
		good    bool
	}{
		{name: "none", good: true},
		{name: "bearer", headers: []string{"Bearer " + token}, present: true, good: true},
		{name: "lower case", headers: []string{"bearer " + token}, present: true, good: true},
		{name: "upper case", headers: []string{"BEARER " + token}, present: true, good: true},
		{name: "another query", headers: []string{"Bearer " + token}, query: "sessionid=a&property_id=2", present: true, good: true},
		{name: "a prefix in the query", headers: []string{"Bearer " + token}, query: "q=ty_mgqz6agh6u", present: true, good: true},
		{name: "empty", headers: []string{""}, present: true},
		{name: "two", headers: []string{"Bearer " + token, "Bearer " + token}, present: true},
		{name: "no token", headers: []string{"Bearer"}, present: true},
		{name: "an empty token", headers: []string{"Bearer "}, present: true},
		{name: "basic", headers: []string{"Basic dXNlcjpwYXNz"}, present: true},
		{name: "only a token", headers: []string{token}, present: true},
		{name: "two spaces", headers: []string{"Bearer  " + token}, present: true},
		{name: "a tab", headers: []string{"Bearer\t" + token}, present: true},
		{name: "a list", headers: []string{"Bearer " + token + ", Bearer " + token}, present: true},
		{name: "a line", headers: []string{"Bearer " + token + "\r\nX: y"}, present: true},
		{name: "a zero", headers: []string{"Bearer " + token + "\x00"}, present: true},
		{name: "not UTF-8", headers: []string{"Bearer \xff" + token}, present: true},
		{name: "long", headers: []string{"Bearer " + strings.Repeat("x", maxToken)}, present: true},
		{name: "in the query", query: "access_token=" + token},
		{name: "in the query, under any name", query: "a=1&key=" + token},
		{name: "in the query, as a name", query: token},
		{name: "in the query, hidden", query: "key=%20t%79_" + token[3:]},
		{name: "in the query, in upper case", query: "ACCESS_TOKEN=x"},
		{name: "in the query too", headers: []string{"Bearer " + token}, query: "access_token=" + token},
		{name: "a query that two readers read differently", query: "a=1;access_token=x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &http.Request{Header: http.Header{}, URL: &url.URL{Path: "/mcp", RawQuery: c.query}}
			if c.headers != nil {
				r.Header["Authorization"] = c.headers
			}
			got, present, err := Token(r)
			if present != c.present || (err == nil) != c.good || (got == token) != (c.good && c.present) {
				t.Errorf("present %v, %v", present, err)
			}
			if err != nil && (toolyard.AsError(err).Code != toolyard.Unauthenticated || strings.Contains(err.Error(), token)) {
				t.Error(err)
			}
		})
	}
}

func FuzzRequest(f *testing.F) {
	f.Add("Bearer ty_abc", "a=b")
	f.Add("", "access_token=x&y=%zz")
	f.Fuzz(func(t *testing.T, header, query string) {
		r := &http.Request{Header: http.Header{"Authorization": {header}}, URL: &url.URL{RawQuery: query}}
		token, _, err := Token(r)
		if err != nil && token != "" || err == nil && (token == "" || strings.ContainsAny(token, " \t\r\n,\x00")) {
			t.Errorf("%q: %q, %v", header, token, err)
		}
	})
}
