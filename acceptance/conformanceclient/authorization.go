package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/oauthclient"
	"github.com/toolyard/toolyard/internal/trust/serverauth"
	"github.com/toolyard/toolyard/upstream"
)

// clientDocument is the client ID that the suite expects from clients with a metadata document.
const clientDocument = "https://conformance-test.local/client-metadata.json"

const (
	maxSignIns  = 5 // sign-ins by the user
	maxFailures = 6 // failed connections to a server although the user is signed in
)

// user is a person who signs in at authorization servers, which redirect immediately.
type user struct {
	caller    toolyard.Caller
	signIns   int
	failures  int
	person    *serverauth.Person
	connector *serverauth.Connector
}

// authorize sets the scenario's authorizer. The user is nil if the scenario requires no sign-in.
func authorize(ctx context.Context, o *upstream.Options) (*user, error) {
	scenario, ok := strings.CutPrefix(os.Getenv("MCP_CONFORMANCE_SCENARIO"), "auth/")
	if !ok {
		return nil, nil
	}
	var given struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Key    string `json:"private_key_pem"`
		Issuer string `json:"issuer"`

		ProviderClient string `json:"idp_client_id"`
		Provider       string `json:"idp_issuer"`
		IDToken        string `json:"idp_id_token"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return nil, err
		}
	}
	server := serverauth.Server{ID: o.ID, URL: o.URL, Issuer: given.Issuer}
	if given.ID != "" {
		server.Client = func() (*oauthclient.Credentials, error) {
			return &oauthclient.Credentials{ID: given.ID, Secret: given.Secret, Key: given.Key}, nil
		}
	}
	if strings.HasPrefix(scenario, "client-credentials") {
		o.Authorizer = serverauth.NewProgram(server, func(string) {}, time.Now)
		return nil, nil
	}
	if given.IDToken != "" { // the person has signed in at the company's identity provider
		o.Authorizer, o.PerCaller = serverauth.NewAssertion(serverauth.DelegationOptions{
			Issuer: serverauth.Issuer{Name: "the identity provider", URL: given.Provider, Client: func() (*oauthclient.Credentials, error) {
				return &oauthclient.Credentials{ID: given.ProviderClient}, nil
			}},
			Subjects: func(context.Context, *toolyard.Call) (oauthclient.Subject, error) {
				return oauthclient.IDToken(given.IDToken), nil
			},
			Hide: func(string) {}, Now: time.Now,
		}, server), true
		return nil, nil
	}
	memory, err := store.Open(ctx, "memory")
	if err != nil {
		return nil, err
	}
	options := serverauth.Options{
		Store: memory, Keys: func() (serverauth.Keys, error) { return serverauth.Keys{[]byte(strings.Repeat("k", 32))}, nil },
		URL: "http://127.0.0.1:3999", Document: clientDocument, Name: "conformance", Hide: func(string) {}, Now: time.Now, Log: o.Log,
	}
	u := &user{caller: toolyard.Caller{ID: "user", Account: "user"}, person: serverauth.NewPerson(options, server, "")}
	u.connector = &serverauth.Connector{Options: options, Person: func(string) *serverauth.Person { return u.person }}
	o.Authorizer, o.PerCaller = u.person, true
	return u, nil
}

// reconnect signs in if the yard has no usable connection.
func (u *user) reconnect(ctx context.Context) error {
	owner, _ := serverauth.OwnerOf(u.caller)
	c, err := u.connector.Store.FirstConnection(ctx, "suite")
	if err != nil {
		return err
	}
	if c != nil && c.Owner == owner {
		if u.failures++; u.failures > maxFailures {
			return errors.New("the server refuses the token")
		}
		return nil
	}
	return u.connect(ctx, "")
}

// follow signs in with the link in an error, like a person whose client shows it, and reports
// whether there is a link.
func (u *user) follow(ctx context.Context, failure error) (bool, error) {
	e := toolyard.AsError(failure)
	_, ticket, ok := strings.Cut(e.Message, "#ticket=")
	if e.Code != serverauth.SignInRequired || !ok {
		return false, nil
	}
	return true, u.connect(ctx, ticket)
}

// connect signs in. The ticket comes from a link, or is empty.
func (u *user) connect(ctx context.Context, ticket string) error {
	if u.signIns++; u.signIns > maxSignIns {
		return errors.New("too many sign-ins")
	}
	address, cookie, err := u.person.BeginSignIn(ctx, u.caller, ticket)
	if err != nil {
		return errors.Join(err, errors.Unwrap(err))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	back, err := res.Location()
	if err != nil {
		return fmt.Errorf("the authorization server responds with %s: %w", res.Status, err)
	}
	_, err = u.connector.Complete(ctx, u.caller, []string{cookie}, back.RawQuery)
	return errors.Join(err, errors.Unwrap(err))
}

// answer signs in if a result asks for it, and reports whether it did.
func (u *user) answer(ctx context.Context, c *toolyard.Call, raw json.RawMessage) (bool, error) {
	var asked struct {
		RequestState  string
		InputRequests map[string]struct {
			Params struct{ Mode, URL string }
		}
	}
	if err := json.Unmarshal(raw, &asked); err != nil {
		return false, err
	}
	answers := make(map[string]any)
	for name, request := range asked.InputRequests {
		if request.Params.Mode != "url" {
			return false, nil
		}
		link, err := url.Parse(request.Params.URL)
		if err != nil {
			return false, err
		}
		if err := u.connect(ctx, strings.TrimPrefix(link.Fragment, "ticket=")); err != nil {
			return false, err
		}
		answers[name] = map[string]string{"action": "accept"}
	}
	var err error
	c.RequestState = asked.RequestState
	c.InputResponses, err = json.Marshal(answers)
	return true, err
}
