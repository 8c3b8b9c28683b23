//go:build dex

package providers

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/dexidp/dex/server"
	"github.com/dexidp/dex/server/signer"
	"github.com/dexidp/dex/server/tokens"
	"github.com/dexidp/dex/storage"
	"github.com/dexidp/dex/storage/memory"
	"github.com/dexidp/dex/web"
	"github.com/prometheus/client_golang/prometheus"
)

// dexCaller is the only person that the mock connector has. Dex encodes the IDs of the person and
// the connector in it.
const dexCaller = "corp:Cg0wLTM4NS0yODA4OS0wEgRtb2Nr"

// startDex starts Dex, which signs people in without showing a page. rotate replaces the key and
// keeps the old one for verification, as Dex does after some hours.
func startDex(t *testing.T, address string) (issuer string, rotate func()) {
	t.Helper()
	ctx, log := t.Context(), slog.New(slog.DiscardHandler)
	var dex *server.Server
	http := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { dex.ServeHTTP(w, r) }))
	t.Cleanup(http.Close)
	issuer = http.URL + "/dex"
	store := memory.New(log)
	for _, c := range []storage.Client{
		{ID: programClient, Public: true, RedirectURIs: []string{programRedirect}},
		{ID: consoleClient, Secret: consoleSecret, RedirectURIs: []string{consoleRedirect(address)}},
	} {
		if err := store.CreateClient(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.CreateConnector(ctx, storage.Connector{ID: "mock", Type: "mockCallback", Name: "Mock"}); err != nil {
		t.Fatal(err)
	}
	local := signer.LocalConfig{KeysRotationPeriod: "6h"}
	keys, err := local.Open(ctx, store, time.Hour, time.Now, log)
	if err != nil {
		t.Fatal(err)
	}
	refresh := tokens.NewRefreshStrategy(false, 0, 0, 0, time.Now)
	dex, err = server.NewServer(ctx, server.Config{
		Issuer: issuer, Storage: store, SkipApprovalScreen: true, IDTokensValidFor: time.Hour, RefreshTokenPolicy: refresh,
		Web: server.WebConfig{WebFS: web.FS()}, Logger: log, Signer: keys, PrometheusRegistry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return issuer, func() {
		expire := func(old storage.Keys) (storage.Keys, error) {
			old.NextRotation = time.Now().Add(-time.Second)
			return old, nil
		}
		if err := store.UpdateKeys(context.WithoutCancel(ctx), expire); err != nil {
			t.Fatal(err)
		}
		keys.Start(ctx) // immediately replaces keys that have expired
	}
}

// Dex signs access tokens like ID tokens, so they must be refused if tokens are verified by
// signature. People can sign in to the console, even after the keys have changed.
func TestDexTokensAreNotMarkedAsAccessTokens(t *testing.T) {
	address := freeAddress(t)
	issuer, rotate := startDex(t, address)
	y := startYard(t, address, issuer, `
audiences: [`+programClient+`]
tokenType: any
access: [{groups: [authors], gates: [chat], role: viewer}]
`)
	y.signsIn(dexCaller, "viewer")
	tokens := y.tokens("openid groups")
	y.refused("access token", tokens.access)
	y.refused("ID token", tokens.id)
	rotate()
	y.signsIn(dexCaller, "viewer")
}

// With introspection, callers can use Dex's access tokens at a gate.
func TestDexIntrospection(t *testing.T) {
	address := freeAddress(t)
	issuer, rotate := startDex(t, address)
	y := startYard(t, address, issuer, `
audiences: [`+programClient+`]
introspect: {client: `+consoleClient+`, secretRef: env:CONSOLE_SECRET}
access: [{groups: [authors], gates: [chat]}]
`)
	y.signsIn(dexCaller, "caller")
	y.enters(y.tokens("openid groups").access, dexCaller)
	rotate()
	y.enters(y.tokens("openid groups").access, dexCaller)
	y.refused("a token that Dex has not issued", "opaque")
	if status, _ := y.call(y.tokens("openid").access); status != http.StatusForbidden {
		t.Error("a token without groups:", status)
	}
}
