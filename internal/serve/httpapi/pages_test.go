package httpapi_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// office is an API with many keys and accounts.
type office struct {
	http.Handler
	store    *store.Store
	keys     []identity.Key // newest first
	accounts []string
}

func newOffice(t *testing.T, n int) *office {
	t.Helper()
	s, _ := open(t, 0)
	o := options()
	o.Keys, o.Balances, o.Ledger = s, s, s
	f := &office{Handler: httpapi.V1(o), store: s}
	for i := range n {
		f.add(t, fmt.Sprintf("team%02d", i), fmt.Sprint("ci-", i%4), time.Date(2026, 11, 15, 12, i/5, 0, 0, time.UTC))
	}
	slices.SortFunc(f.keys, func(a, b identity.Key) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.Prefix, a.Prefix))
	})
	return f
}

// add creates an account and a key for it.
func (f *office) add(t *testing.T, account, name string, at time.Time) {
	t.Helper()
	key, _, err := identity.New(name, "caller/"+account, account, nil, 0, at)
	if err == nil {
		err = f.store.PutKey(t.Context(), key)
	}
	if err == nil {
		err = f.store.Fund(t.Context(), account, toolyard.USD, "r")
	}
	if err != nil {
		t.Fatal(err)
	}
	f.keys, f.accounts = append(f.keys, key), append(f.accounts, account)
}

// walk reads all pages and returns their items.
func (f *office) walk(t *rapid.T, list string, limit int, query url.Values) (ids []string) {
	query.Set("limit", fmt.Sprint(limit))
	query.Del("before")
	for {
		w := do(f, "root", "GET", "/api/v1/"+list+"?"+query.Encode(), "")
		var page struct {
			Keys     []identity.Entry
			Accounts []*ledger.Balance
			Next     string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		for _, k := range page.Keys {
			ids = append(ids, k.Prefix)
		}
		for _, p := range page.Accounts {
			ids = append(ids, p.ID)
		}
		if n := len(page.Keys) + len(page.Accounts); n > limit {
			t.Fatalf("%d on a page of %d", n, limit)
		}
		if page.Next == "" {
			return ids
		}
		query.Set("before", page.Next)
	}
}

func TestKeysAndAccountsArePaged(t *testing.T) {
	f := newOffice(t, 40)
	rapid.Check(t, func(t *rapid.T) {
		query, limit := url.Values{}, rapid.IntRange(1, 50).Draw(t, "limit")
		part := rapid.SampledFrom([]string{"", "team1", "TEAM1", "3", "nothing", "%"}).Draw(t, "q")
		if part != "" {
			query.Set("q", part)
		}
		var want []string
		for _, id := range f.accounts {
			if strings.HasPrefix(id, part) {
				want = append(want, id)
			}
		}
		if diff := gocmp.Diff(want, f.walk(t, "accounts", limit, query), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		account := rapid.SampledFrom([]string{"", "team07", "team"}).Draw(t, "account")
		caller := rapid.SampledFrom([]string{"", "caller/team07"}).Draw(t, "caller")
		for name, value := range map[string]string{"account": account, "caller": caller} {
			if value != "" {
				query.Set(name, value)
			}
		}
		want = nil
		for _, k := range f.keys {
			found := strings.Contains(strings.Join([]string{k.Prefix, k.Name, k.Caller, k.Account}, "\n"), strings.ToLower(part))
			if found && (account == "" || k.Account == account) && (caller == "" || k.Caller == caller) {
				want = append(want, k.Prefix)
			}
		}
		if diff := gocmp.Diff(want, f.walk(t, "keys", limit, query), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestDefaultPageSize(t *testing.T) {
	f := newOffice(t, 101)
	for _, list := range []string{"keys", "accounts"} {
		w := do(f, "root", "GET", "/api/v1/"+list, "")
		var page map[string]json.RawMessage
		var rows []json.RawMessage
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(page[list], &rows); err != nil || len(rows) != 100 || page["next"] == nil {
			t.Errorf("%s: %d rows, next %s", list, len(rows), page["next"])
		}
		if strings.Contains(w.Body.String(), "hash") {
			t.Errorf("%s: %s", list, w.Body)
		}
	}
	empty := newOffice(t, 0)
	for list, want := range map[string]string{"keys": `{"keys":[]}`, "accounts": `{"accounts":[]}`} {
		if w := do(empty, "root", "GET", "/api/v1/"+list, ""); strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%s", w.Body)
		}
	}
}

func TestInvalidPageParametersAreRejected(t *testing.T) {
	f := newOffice(t, 3)
	bare := httpapi.V1(httpapi.Options{Identify: identify})
	for name, c := range map[string]struct {
		h         http.Handler
		key, path string
		status    int
	}{
		"no keys here":            {bare, "root", "keys", 404},
		"no accounts here":        {bare, "root", "accounts", 404},
		"keys, no viewer":         {f, "alice", "keys", 403},
		"accounts, no viewer":     {f, "alice", "accounts", 403},
		"keys, own account":       {f, "alice", "keys?account=acme", 403},
		"keys, unknown":           {f, "root", "keys?revoked=true", 400},
		"keys, state odd":         {f, "root", "keys?state=open", 400},
		"keys, state":             {f, "root", "keys?state=revoked", 200},
		"accounts, unknown":       {f, "root", "accounts?account=acme", 400},
		"keys, q twice":           {f, "root", "keys?q=a&q=b", 400},
		"keys, long q":            {f, "root", "keys?q=" + strings.Repeat("x", 257), 400},
		"accounts, long q":        {f, "root", "accounts?q=" + strings.Repeat("x", 257), 400},
		"accounts, NUL":           {f, "root", "accounts?q=%00", 400},
		"keys, not UTF-8":         {f, "root", "keys?q=%ff", 400},
		"keys, limit 0":           {f, "root", "keys?limit=0", 400},
		"keys, limit 1001":        {f, "root", "keys?limit=1001", 400},
		"accounts, limit 1001":    {f, "root", "accounts?limit=1001", 400},
		"accounts, limit odd":     {f, "root", "accounts?limit=ten", 400},
		"keys, cursor odd":        {f, "root", "keys?before=abc", 400},
		"keys, cursor negative":   {f, "root", "keys?before=-1.abcdefghij", 400},
		"keys, cursor too late":   {f, "root", "keys?before=253402300800000001.abcdefghij", 400},
		"keys, other cursor":      {f, "root", "keys?before=0.team01", 400},
		"keys, cursor empty":      {f, "root", "keys?before=1.", 400},
		"accounts, cursor odd":    {f, "root", "accounts?before=team01", 400},
		"accounts, other cursor":  {f, "root", "accounts?before=1700000000000000.abcdefghij", 400},
		"accounts, cursor empty":  {f, "root", "accounts?before=0.", 400},
		"accounts, behind all":    {f, "root", "accounts?before=0.zzz", 200},
		"keys, before all":        {f, "root", "keys?before=0.abcdefghij", 200},
		"keys, longest q":         {f, "root", "keys?q=" + strings.Repeat("x", 256), 200},
		"accounts, longest page":  {f, "root", "accounts?limit=1000", 200},
		"keys, an empty question": {f, "root", "keys?q=&account=&caller=&before=&limit=", 200},
	} {
		if w := do(c.h, c.key, "GET", "/api/v1/"+c.path, ""); w.Code != c.status {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
