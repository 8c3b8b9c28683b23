package providers

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// zitadelCaller is the only person, who signs in without a page being shown.
const zitadelCaller = "corp:id2"

// zitadelStorage is the storage from the library's examples, extended with groups, JWT access
// tokens and replaceable keys.
type zitadelStorage struct {
	*storage.Storage

	mu  sync.Mutex
	key signingKey
	n   int
}

type signingKey struct {
	id  string
	key *rsa.PrivateKey
}

func (k signingKey) ID() string                                  { return k.id }
func (k signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k signingKey) Key() any                                    { return k.key }

type publicKey struct{ signingKey }

func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Key() any                           { return k.key.Public() }

// rotate replaces the key and removes the old one.
func (m *zitadelStorage) rotate(t *testing.T) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
	m.key = signingKey{fmt.Sprintf("key-%d", m.n), key}
}

func (m *zitadelStorage) SigningKey(context.Context) (op.SigningKey, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.key, nil
}

func (m *zitadelStorage) KeySet(context.Context) ([]op.Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return []op.Key{publicKey{m.key}}, nil
}

// client issues JWT access tokens, and has no login page.
type client struct{ op.Client }

func (client) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }
func (client) LoginURL(id string) string           { return "/login?id=" + id }

func (m *zitadelStorage) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := m.Storage.GetClientByClientID(ctx, id)
	return client{c}, err
}

func (m *zitadelStorage) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return map[string]any{"groups": []string{"staff"}}, nil
}

func (m *zitadelStorage) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, token op.IDTokenRequest, scopes []string) error {
	info.AppendClaims("groups", []string{"platform"})
	return m.Storage.SetUserinfoFromRequest(ctx, info, token, scopes)
}

// startZitadel starts the provider.
func startZitadel(t *testing.T, address string) (issuer string, m *zitadelStorage) {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	issuer = server.URL + "/" // this library's issuers end with a slash
	m = &zitadelStorage{Storage: storage.NewStorageWithClients(storage.NewUserStore(issuer), map[string]*storage.Client{
		programClient: storage.NativeClient(programClient, programRedirect),
		consoleClient: storage.WebClient(consoleClient, consoleSecret, consoleRedirect(address)),
	})}
	m.rotate(t)
	config := &op.Config{CryptoKey: [32]byte{1}, CodeMethodS256: true, AuthMethodPost: true, GrantTypeRefreshToken: true}
	provider, err := op.NewProvider(config, m, op.StaticIssuer(issuer), op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	callback := op.AuthCallbackURL(provider)
	mux.Handle("GET /login", op.NewIssuerInterceptor(provider.IssuerFromRequest).HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Query().Get("id")
		if err := m.CheckUsernamePassword("test-user2", "verysecure", id); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		http.Redirect(w, r, callback(r.Context(), id), http.StatusFound)
	}))
	mux.Handle("/", provider)
	return issuer, m
}

// People sign in to the console, and callers use JWT access tokens at a gate, even after the
// provider has replaced its keys. The provider's other tokens are refused.
func TestZitadel(t *testing.T) {
	address := freeAddress(t)
	issuer, m := startZitadel(t, address)
	y := startYard(t, address, issuer, `
audiences: [`+programClient+`]
tokenType: any
access: [{groups: [staff], gates: [chat]}, {groups: [platform], role: operator}]
`)
	y.signsIn(zitadelCaller, "operator")
	tokens, unused := y.tokens("openid profile"), y.tokens("openid profile")
	y.enters(tokens.access, zitadelCaller)
	y.refused("ID token", tokens.id)
	y.refused("changed token", tokens.access[:len(tokens.access)-8]+"AAAAAAAA")
	m.rotate(t)
	y.enters(y.tokens("openid profile").access, zitadelCaller)
	y.refused("token of the old key", unused.access)
	y.signsIn(zitadelCaller, "operator")
}
