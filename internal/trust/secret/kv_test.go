package secret_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/trust/secret"
)

// fakeVault implements the parts of a Vault or OpenBao server that are used: the key/value engine
// at secret/ (version 2) and old/ (version 1), and logins with AppRole and Kubernetes.
type fakeVault struct {
	mu        sync.Mutex
	values    map[string]map[string]any // by namespace and path
	tokens    map[string]bool
	sealed    bool
	status    int    // status to respond with; zero for normal responses
	redirect  string // address to redirect to
	lifetime  int    // lifetime of logins in seconds
	logins    int
	reads     int
	noRequest int // number of requests that lack the X-Vault-Request header
}

func newFakeVault(t *testing.T) (*fakeVault, *httptest.Server) {
	f := &fakeVault{tokens: map[string]bool{"root-canary": true}, values: map[string]map[string]any{}, lifetime: 3600}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return f, s
}

func (f *fakeVault) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// fail writes an error in the server's format.
func fail(w http.ResponseWriter, status int, messages ...string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": append([]string{}, messages...)})
}

func (f *fakeVault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Header.Get("X-Vault-Request") != "true" {
		f.noRequest++
	}
	switch {
	case f.redirect != "":
		http.Redirect(w, r, f.redirect+r.URL.Path, http.StatusTemporaryRedirect)
	case f.sealed:
		fail(w, http.StatusServiceUnavailable, "Vault is sealed")
	case f.status != 0:
		fail(w, f.status, "1 error occurred:\n\t* canary\n\n")
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/login"):
		f.login(w, r)
	case !f.tokens[r.Header.Get("X-Vault-Token")]:
		fail(w, http.StatusForbidden, "permission denied")
	default:
		f.read(w, r)
	}
}

func (f *fakeVault) login(w http.ResponseWriter, r *http.Request) {
	var request map[string]string
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &request)
	valid := r.URL.Path == "/v1/auth/approle/login" && request["role_id"] == "toolyard" && request["secret_id"] == "env-canary" ||
		r.URL.Path == "/v1/auth/k8s/prod/login" && request["role"] == "toolyard" && request["jwt"] == "env-canary"
	if !valid {
		fail(w, http.StatusBadRequest, "invalid role or secret ID")
		return
	}
	f.logins++
	token := fmt.Sprintf("login-canary-%d", f.logins)
	f.tokens[token] = true
	_ = json.NewEncoder(w).Encode(map[string]any{
		"request_id": "7f1c", "lease_id": "", "renewable": false, "lease_duration": 0, "data": nil, "warnings": nil,
		"auth": map[string]any{"client_token": token, "accessor": "a", "policies": []string{"default"}, "lease_duration": f.lifetime, "renewable": true},
	})
}

func (f *fakeVault) read(w http.ResponseWriter, r *http.Request) {
	f.reads++
	path, versioned := strings.CutPrefix(r.URL.Path, "/v1/secret/data/")
	if !versioned {
		path = strings.TrimPrefix(r.URL.Path, "/v1/old/")
	}
	fields, ok := f.values[r.Header.Get("X-Vault-Namespace")+"|"+path]
	metadata := map[string]any{"created_time": "2026-03-22T02:24:06.945319214Z", "custom_metadata": nil, "deletion_time": "", "destroyed": false, "version": 2}
	reply := map[string]any{"request_id": "7f1c", "lease_id": "", "renewable": false, "lease_duration": 0, "wrap_info": nil, "warnings": nil, "auth": nil}
	switch {
	case !ok:
		fail(w, http.StatusNotFound)
		return
	case versioned && fields == nil: // a deleted version
		metadata["deletion_time"] = "2026-03-22T02:36:43.986212308Z"
		w.WriteHeader(http.StatusNotFound)
		reply["data"] = map[string]any{"data": nil, "metadata": metadata}
	case versioned:
		reply["data"] = map[string]any{"data": fields, "metadata": metadata}
	default:
		reply["data"], reply["lease_duration"] = fields, 2764800
	}
	_ = json.NewEncoder(w).Encode(reply)
}

func vaultStore(url string) secret.Store {
	return secret.Store{URL: url, Mount: "secret", Version: 2, Login: secret.Login{Method: "token", Secret: "file:token"}, TTL: time.Minute, Stale: time.Minute}
}

// vaultOf returns a vault with one store. The environment variable TOKEN contains env-canary, and
// the file token contains a valid token.
func vaultOf(t *testing.T, s secret.Store) *place {
	p := newPlace(t, nil)
	p.write("token", "root-canary\n", 0o600)
	p.Vault = secret.NewVault(secret.Options{
		Stores: map[string]secret.Store{"vault": s}, Dir: p.dir,
		Getenv: func(name string) (string, bool) { v, ok := p.env[name]; return v, ok },
	})
	return p
}

func TestVaultServer(t *testing.T) {
	f, server := newFakeVault(t)
	f.values["|app/db"] = map[string]any{"password": "db-canary", "port": 5432, "nested": map[string]any{"a": "b"}, "none": nil}
	f.values["team-a|app/db"] = map[string]any{"password": "team-canary"}
	f.values["|with space/ä#1"] = map[string]any{"x": "escaped-canary"}
	for name, test := range map[string]struct {
		ref, want string
		change    func(*secret.Store)
	}{
		"a string":         {ref: "app/db#password", want: "db-canary"},
		"a number":         {ref: "app/db#port", want: "5432"},
		"an object":        {ref: "app/db#nested", want: `{"a":"b"}`},
		"an escaped path":  {ref: "with space/ä#1#x", want: "escaped-canary"},
		"a namespace":      {ref: "app/db#password", want: "team-canary", change: func(s *secret.Store) { s.Namespace = "team-a" }},
		"version 1":        {ref: "app/db#password", want: "db-canary", change: func(s *secret.Store) { s.Mount, s.Version = "old", 1 }},
		"a trailing slash": {ref: "app/db#password", want: "db-canary", change: func(s *secret.Store) { s.URL += "/" }},
		"AppRole": {ref: "app/db#password", want: "db-canary", change: func(s *secret.Store) {
			s.Login = secret.Login{Method: "approle", Mount: "approle", Role: "toolyard", Secret: "env:TOKEN"}
		}},
		"Kubernetes": {ref: "app/db#password", want: "db-canary", change: func(s *secret.Store) {
			s.Login = secret.Login{Method: "kubernetes", Mount: "k8s/prod", Role: "toolyard", Secret: "env:TOKEN"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := vaultStore(server.URL)
			if test.change != nil {
				test.change(&s)
			}
			v := vaultOf(t, s)
			if got, err := v.Resolve("vault:" + test.ref); err != nil || got.Reveal() != test.want {
				t.Errorf("%q, %v, want %q", got.Reveal(), err, test.want)
			}
			if text := v.Redact(test.want + "."); len(test.want) >= 6 && text != "[redacted]." {
				t.Errorf("not redacted: %s", text)
			}
		})
	}
	f.set(func() {
		if f.noRequest > 0 {
			t.Errorf("%d requests without X-Vault-Request", f.noRequest)
		}
	})
}

func TestVaultServerFails(t *testing.T) {
	f, server := newFakeVault(t)
	other, elsewhere := newFakeVault(t)
	f.values["|app/db"] = map[string]any{"password": "db-canary"}
	f.values["|app/deleted"] = nil
	status := func(code int) func(*secret.Store) {
		return func(*secret.Store) { f.status = code }
	}
	for name, test := range map[string]struct {
		ref, want string
		change    func(*secret.Store)
	}{
		"a path that does not exist": {ref: "app/none#x", want: "status 404: the secret does not exist"},
		"a deleted version":          {ref: "app/deleted#x", want: "current version is deleted"},
		"another field":              {ref: "app/db#user", want: "the secret does not contain this field"},
		"no field":                   {ref: "app/db", want: "expected PATH#FIELD"},
		"a path upward":              {ref: "../../sys/raw#x", want: "the path must not"},
		"a leading slash":            {ref: "/app/db#x", want: "the path must not"},
		"another namespace":          {ref: "app/db#password", want: "status 404", change: func(s *secret.Store) { s.Namespace = "team-b" }},
		"the wrong engine version":   {ref: "app/db#password", want: "check the path, mount and kv", change: func(s *secret.Store) { s.Mount = "old" }},
		"permission denied":          {ref: "app/db#password", want: "status 403 Forbidden; check that the token is valid", change: func(s *secret.Store) { s.Login.Secret = "env:TOKEN" }},
		"a missing token":            {ref: "app/db#password", want: "auth: file:none: no such file", change: func(s *secret.Store) { s.Login.Secret = "file:none" }},
		"a failed login": {ref: "app/db#password", want: "login with approle: status 400", change: func(s *secret.Store) {
			s.Login = secret.Login{Method: "approle", Mount: "approle", Role: "other", Secret: "env:TOKEN"}
		}},
		"too many requests":    {ref: "app/db#password", want: "status 429 Too Many Requests; the server is limiting requests", change: status(429)},
		"a server error":       {ref: "app/db#password", want: "status 500", change: status(500)},
		"a standby":            {ref: "app/db#password", want: "status 473", change: status(473)},
		"a sealed server":      {ref: "app/db#password", want: "status 503 Service Unavailable; the server is sealed", change: func(*secret.Store) { f.sealed = true }},
		"a redirect":           {ref: "app/db#password", want: "is not the same server", change: func(*secret.Store) { f.redirect = elsewhere.URL }},
		"nobody is listening":  {ref: "app/db#password", want: "cannot reach the server", change: func(s *secret.Store) { s.URL = "http://127.0.0.1:1" }},
		"a metadata service":   {ref: "app/db#password", want: "is not a public address", change: func(s *secret.Store) { s.URL = "http://169.254.169.254" }},
		"a store as bootstrap": {ref: "app/db#password", want: "a secret used by a secret store must be env:NAME", change: func(s *secret.Store) { s.Login.Secret = "vault:x#y" }},
	} {
		t.Run(name, func(t *testing.T) {
			f.set(func() { f.status, f.sealed, f.redirect = 0, false, "" })
			s := vaultStore(server.URL)
			f.set(func() {
				if test.change != nil {
					test.change(&s)
				}
			})
			got, err := vaultOf(t, s).Resolve("vault:" + test.ref)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "canary") || got.Reveal() != "" {
				t.Errorf("%q, %v, want %s", got.Reveal(), err, test.want)
			}
		})
	}
	other.set(func() {
		if other.reads+other.noRequest > 0 {
			t.Error("a redirect to another host was followed")
		}
	})
}

// Unexpected responses are refused.
func TestVaultServerSendsNonsense(t *testing.T) {
	for name, body := range map[string]string{
		"HTML":           "<html>canary</html>",
		"no data":        `{}`,
		"a string":       `{"data": "canary"}`,
		"data is a list": `{"data": {"data": ["canary"]}}`,
		"duplicate keys": `{"data": {"data": {"x": "canary", "x": "other"}}}`,
		"too large":      `{"data": {"data": {"x": "` + strings.Repeat("canary", 1<<18) + `"}}}`,
		"too deep":       strings.Repeat(`{"data":`, 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
			defer s.Close()
			got, err := vaultOf(t, vaultStore(s.URL)).Resolve("vault:app/db#x")
			if err == nil || strings.Contains(err.Error(), "canary") || got.Reveal() != "" {
				t.Errorf("%q, %v", got.Reveal(), err)
			}
		})
	}
}

func TestLoginIsReusedAndRenewed(t *testing.T) {
	f, server := newFakeVault(t)
	for _, name := range []string{"a", "b", "c"} {
		f.values["|"+name] = map[string]any{"x": name + "-canary"}
	}
	s := vaultStore(server.URL)
	s.Login = secret.Login{Method: "approle", Mount: "approle", Role: "toolyard", Secret: "env:TOKEN"}
	v := vaultOf(t, s)
	read := func(name string, logins int) {
		t.Helper()
		if got, err := v.Resolve("vault:" + name + "#x"); err != nil || got.Reveal() != name+"-canary" {
			t.Errorf("%s: %q, %v", name, got.Reveal(), err)
		}
		f.set(func() {
			if f.logins != logins {
				t.Errorf("%d logins, want %d", f.logins, logins)
			}
		})
	}
	read("a", 1)
	read("b", 1)
	f.set(func() { clear(f.tokens) }) // revokes all tokens
	read("c", 2)
	if got := v.Redact("login-canary-1 login-canary-2"); got != "[redacted] [redacted]" {
		t.Errorf("tokens of logins are not redacted: %s", got)
	}
}

func TestALoginWithoutLifetimeIsUsedOnce(t *testing.T) {
	f, server := newFakeVault(t)
	f.lifetime = 0
	f.values["|a"], f.values["|b"] = map[string]any{"x": "1"}, map[string]any{"x": "2"}
	s := vaultStore(server.URL)
	s.Login = secret.Login{Method: "approle", Mount: "approle", Role: "toolyard", Secret: "env:TOKEN"}
	v := vaultOf(t, s)
	for _, name := range []string{"a", "b"} {
		if _, err := v.Resolve("vault:" + name + "#x"); err != nil {
			t.Fatal(err)
		}
	}
	f.set(func() {
		if f.logins != 2 {
			t.Errorf("%d logins, want 2", f.logins)
		}
	})
}

// A reload keeps the cached values of unchanged stores, and the secrets to redact.
func TestVaultsThatFollowEachOther(t *testing.T) {
	f, server := newFakeVault(t)
	f.values["|a"] = map[string]any{"x": "first-canary"}
	p := newPlace(t, nil)
	p.write("token", "root-canary", 0o600)
	next := func(previous *secret.Vault, change func(*secret.Store)) *secret.Vault {
		s := vaultStore(server.URL)
		change(&s)
		return secret.NewVault(secret.Options{Stores: map[string]secret.Store{"vault": s}, Dir: p.dir, Previous: previous})
	}
	reads := func(v *secret.Vault, want int) {
		t.Helper()
		if _, err := v.Resolve("vault:a#x"); err != nil {
			t.Fatal(err)
		}
		f.set(func() {
			if f.reads != want {
				t.Errorf("%d reads, want %d", f.reads, want)
			}
		})
	}
	first := next(nil, func(*secret.Store) {})
	reads(first, 1)
	second := next(first, func(*secret.Store) {})
	reads(second, 1)
	third := next(second, func(s *secret.Store) { s.TTL = time.Hour })
	f.set(func() { f.values["|a"] = map[string]any{"x": "second-canary"} })
	reads(third, 2)
	for _, v := range []*secret.Vault{first, second, third} { // servers may still use an earlier vault
		if got := v.Redact("first-canary second-canary"); got != "[redacted] [redacted]" {
			t.Error(got)
		}
	}
}

func TestCheckReadsNothing(t *testing.T) {
	v := secret.NewVault(secret.Options{
		Stores: map[string]secret.Store{"vault": vaultStore("http://127.0.0.1:1"), "op": {Command: []string{filepath.Join("no", "program")}}},
		Named:  map[string]string{"db": "vault:app/db#password", "bad": "vault:app/db"},
	})
	for ref, want := range map[string]string{
		"db": "", "vault:a/b#c": "", "op:x": "", "env:X": "", "file:x": "",
		"bad": "vault:app/db: expected PATH#FIELD", "op:-x": "starts with -", "vaul:a#b": "use env:NAME, file:path, age:path#key or, for a secret store, op:…, vault:…", "dbb": `did you mean "db"?`,
	} {
		if err := v.Check(ref); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", ref, err, want)
		}
	}
}
