package identity

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// mint creates a key for alice and returns it with its token.
func mint(t testing.TB, scopes ...string) (Key, string) {
	t.Helper()
	key, token, err := New("test", "alice", "acme", scopes, 0, noon)
	if err != nil {
		t.Fatal(err)
	}
	return key, token
}

func TestATokenIsReadBack(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		key, token := mint(t)
		prefix, hash, err := parse(token)
		if err != nil || prefix != key.Prefix || hash != key.Hash || len(token) != tokenLen {
			t.Fatalf("%d bytes: %v", len(token), err)
		}
		if strings.Contains(key.Prefix+key.Name+string(key.Hash[:]), token[secretAt:checkAt]) || seen[key.Prefix] {
			t.Fatal("the key contains its secret or is duplicated")
		}
		seen[key.Prefix] = true
	}
}

// Every changed character and every truncation is distinguished from an unknown key.
func TestTyposAreFound(t *testing.T) {
	_, token := mint(t)
	for i := range len(token) {
		for _, c := range []byte("aZ0_-7.\x00\xff") {
			changed := token[:i] + string(c) + token[i+1:]
			if _, _, err := parse(changed); err == nil && changed != token {
				t.Errorf("%d: %q is taken", i, c)
			}
		}
		if _, _, err := parse(token[:i]); err == nil {
			t.Errorf("the first %d characters are taken", i)
		}
		if i+1 < len(token) && token[i] != token[i+1] {
			swapped := token[:i] + string([]byte{token[i+1], token[i]}) + token[i+2:]
			if _, _, err := parse(swapped); err == nil {
				t.Errorf("%d: a swap is taken", i)
			}
		}
	}
}

func TestNewRefuses(t *testing.T) {
	long := strings.Repeat("x", 129)
	for _, c := range []struct {
		name, caller, account string
		scopes                []string
		ttl                   time.Duration
		want                  string
	}{
		{"", "alice", "", nil, 0, "key name"},
		{long, "alice", "", nil, 0, "key name"},
		{"a\nb", "alice", "", nil, 0, "key name"},
		{"a\x1b[31m", "alice", "", nil, 0, "key name"},
		{"\xff", "alice", "", nil, 0, "key name"},
		{"ci", "", "", nil, 0, "not a valid caller"},
		{"ci", long, "", nil, 0, "not a valid caller"},
		{"ci", "аlice", "", nil, 0, "not a valid caller"}, // a Cyrillic letter
		{"ci", "al ice", "", nil, 0, "not a valid caller"},
		{"ci", "anonymous", "", nil, 0, "is reserved"},
		{"ci", "local", "", nil, 0, "is reserved"},
		{"ci", "alice", "-", nil, 0, "not a valid caller or account name"},
		{"ci", "alice", "", []string{"writes"}, 0, "use gate:NAME"},
		{"ci", "alice", "", []string{"gate:"}, 0, "use gate:NAME"},
		{"ci", "alice", "", []string{"gate:a b"}, 0, "use gate:NAME"},
		{"ci", "alice", "", []string{""}, 0, "use gate:NAME"},
		{"ci", "alice", "", nil, -time.Second, "cannot be negative"},
	} {
		if _, token, err := New(c.name, c.caller, c.account, c.scopes, c.ttl, noon); err == nil || token != "" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestNew(t *testing.T) {
	key, _, err := New("ci", "alice", "", []string{"write", "gate:chat", "write"}, time.Hour, noon)
	want := Key{
		Prefix: key.Prefix, Hash: key.Hash, Name: "ci", Caller: "alice", Account: "alice",
		Scopes: []string{"gate:chat", "write"}, Created: noon, Expires: noon.Add(time.Hour),
	}
	if diff := cmp.Diff(want, key); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestState(t *testing.T) {
	key, _, err := New("ci", "alice", "", nil, time.Hour, noon)
	if err != nil {
		t.Fatal(err)
	}
	revoked := key
	revoked.Revoked = noon.Add(time.Hour * 24 * 365) // set by a clock that is ahead
	for _, c := range []struct {
		key  Key
		at   time.Duration
		want State
	}{
		{key, 0, Active},
		{key, time.Hour - 1, Active},
		{key, time.Hour, Expired},
		{key, 2 * time.Hour, Expired},
		{revoked, 0, Revoked},
		{Key{}, 1e18, Active},
	} {
		if got := c.key.State(noon.Add(c.at)); got != c.want {
			t.Errorf("after %v: %s, want %s", c.at, got, c.want)
		}
	}
}

func TestAllows(t *testing.T) {
	for _, c := range []struct {
		scopes string
		gate   string
		mode   toolyard.Mode
		needs  string // missing part
	}{
		{"", "chat", toolyard.Read, ""},
		{"", "trade", toolyard.Write, "write"},
		{"gate:chat", "chat", toolyard.Read, ""},
		{"gate:chat", "chat", toolyard.Write, "write"},
		{"gate:chat", "trade", toolyard.Read, "gate:trade"},
		{"gate:chat", "trade", toolyard.Write, "gate:trade write"},
		{"gate:chat write", "chat", toolyard.Write, ""},
		{"gate:chat gate:trade write", "trade", toolyard.Write, ""},
		{"gate:*", "chat", toolyard.Read, ""},
		{"gate:*", "chat", toolyard.Write, "write"},
		{"gate:* write", "chat", toolyard.Write, ""},
		{"write", "chat", toolyard.Write, ""},
		{"write", "chat", toolyard.Read, ""},
		{"operator", "chat", toolyard.Read, ""},
		{"viewer", "chat", toolyard.Write, "write"},
		{"gate:cha", "chat", toolyard.Read, "gate:chat"},
		{"gate:chat2", "chat", toolyard.Read, "gate:chat"},
		{"GATE:chat", "chat", toolyard.Read, ""}, // not a valid scope, so it names no gate
	} {
		err := Allows(toolyard.Caller{ID: "alice", Roles: strings.Fields(c.scopes)}, &gates.Gate{Name: c.gate, Mode: c.mode})
		if c.needs == "" {
			if err != nil {
				t.Errorf("%q at %s: %v", c.scopes, c.gate, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%q may enter %s to %s", c.scopes, c.gate, c.mode)
			continue
		}
		e := toolyard.AsError(err)
		if e.Code != toolyard.PermissionDenied || strings.Join(e.Missing, " ") != c.needs || !strings.Contains(e.Message, e.Missing[0]) {
			t.Errorf("%q at %s: %s %v %s", c.scopes, c.gate, e.Code, e.Missing, e.Message)
		}
	}
}

// Each scope except gate:NAME only adds permissions.
func TestScopesOnlyAdd(t *testing.T) {
	read, write := &gates.Gate{Name: "chat", Mode: toolyard.Read}, &gates.Gate{Name: "trade", Mode: toolyard.Write}
	may := func(scopes []string) (list [4]bool) {
		c := toolyard.Caller{ID: "alice", Roles: scopes}
		return [4]bool{Allows(c, read) == nil, Allows(c, write) == nil, Views(c), Operates(c)}
	}
	extra := []string{Write, Viewer, Operator, anyGate}
	for _, before := range [][]string{nil, {Write}, {Viewer}, {Operator}, {"gate:chat"}, {"gate:trade", Write}} {
		for _, scope := range extra {
			was, is := may(before), may(append(slices.Clone(before), scope))
			for i := range was {
				if was[i] && !is[i] {
					t.Errorf("%v with %s has fewer permissions: %v instead of %v", before, scope, is, was)
				}
			}
		}
	}
	if got := may(nil); got != [4]bool{true, false, false, false} {
		t.Errorf("without a scope: %v", got)
	}
	anonymous := toolyard.Caller{ID: ident.Anonymous}
	if err := Allows(anonymous, write); err != nil {
		t.Errorf("a gate that takes unauthenticated callers: %v", err)
	}
}

func TestAllIsShort(t *testing.T) {
	key, _, err := New("a", "alice", "", []string{"all", "viewer", "write"}, 0, time.Now())
	if err != nil || strings.Join(key.Scopes, " ") != "gate:* viewer write" {
		t.Errorf("%v %v", key.Scopes, err)
	}
}

func TestDescribe(t *testing.T) {
	for scopes, want := range map[string]string{
		"":                      "It can call tools at every gate, read-only: it cannot use gates with mode write (that requires --scope write).",
		"write":                 "It can call tools at every gate, reading and writing.",
		"gate:a gate:b write":   "It can call tools at gate a, b, reading and writing.",
		"gate:* operator write": "It can call tools at every gate, reading and writing. It can view and change everything in the console and the API.",
		"viewer":                "It can call tools at every gate, read-only: it cannot use gates with mode write (that requires --scope write). It can view everything in the console and the API, but not change anything.",
	} {
		if got := Describe(strings.Fields(scopes)); got != want {
			t.Errorf("%q: %s", scopes, got)
		}
	}
}

func FuzzToken(f *testing.F) {
	_, token := mint(f)
	f.Add(token)
	f.Add(token[:checkAt])
	f.Add("ty_")
	f.Add("")
	f.Fuzz(func(t *testing.T, token string) {
		prefix, hash, err := parse(token)
		if err != nil {
			if e := toolyard.AsError(err); e.Code != toolyard.Unauthenticated || len(token) > 8 && strings.Contains(e.Message, token) {
				t.Errorf("%q: %v", token, err)
			}
			return
		}
		again := mark + prefix + "_" + token[secretAt:checkAt]
		if again+checksum(again) != token || !CheckPrefix(prefix) || hash == [32]byte{} {
			t.Errorf("%q has another spelling", token)
		}
	})
}
