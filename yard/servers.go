package yard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/sources/pin"
	"github.com/toolyard/toolyard/internal/trust/oauthclient"
	"github.com/toolyard/toolyard/internal/trust/secret"
	"github.com/toolyard/toolyard/internal/trust/serverauth"
	"github.com/toolyard/toolyard/upstream"
)

// LockFile returns the path of the file next to a configuration file that holds the approved
// tool definitions: toolyard.lock for toolyard.yaml.
func LockFile(config string) string {
	return strings.TrimSuffix(config, filepath.Ext(config)) + ".lock"
}

// serverConfig is the part of a configuration that an upstream server is built from.
type serverConfig struct {
	config.Server
	private  []config.Network
	secrets  map[string]config.SecretRef
	stores   map[string]config.SecretStore
	identity string
	url      string             // URL of this yard, for links
	issuer   string             // the URL of the issuer that exchanges tokens
	console  *config.AuthClient // the console's client at the issuer; may be nil
}

// addServers builds the upstream servers. Servers whose configuration has not changed keep running.
func (b *assembler) addServers(a *assembly, old *assembly) error {
	vault, err := b.openVault(a)
	if err != nil {
		return err
	}
	a.people, a.signIns = make(map[string]*serverauth.Person), b.signIns(a, vault)
	a.upstreams, a.builtFrom = make(map[string]*upstream.Server, len(a.Servers)), make(map[string]serverConfig, len(a.Servers))
	for id, s := range a.Servers {
		sc := serverConfig{Server: s, private: a.PrivateNetworks}
		sc.Rate, sc.Spend, sc.ExecuteUSD, sc.Terms = nil, nil, nil, nil // read from the settings, so a change does not require a restart of the server
		if usesSecrets(&s) {
			sc.secrets, sc.stores, sc.identity = a.Secrets, a.SecretStores, a.AgeIdentity
		}
		if s.Auth.PerPerson() {
			sc.url = b.connections.address(a.URL)
		}
		if s.Auth.Delegates() {
			sc.issuer, sc.console = a.Issuers[s.Auth.At].Issuer, consoleClient(a.Issuers[s.Auth.At].Console)
		}
		a.builtFrom[id] = sc
		if old != nil && old.upstreams[id] != nil && reflect.DeepEqual(old.builtFrom[id], sc) {
			a.upstreams[id] = old.upstreams[id]
			if p := old.people[id]; p != nil {
				a.people[id] = p
			}
			continue
		}
		o := b.serverOptions(id, sc, vault)
		if p, ok := o.Authorizer.(*serverauth.Person); ok {
			a.people[id] = p
		}
		server, err := upstream.New(o)
		if err != nil {
			return err
		}
		a.upstreams[id] = server
	}
	return nil
}

// beside resolves a path in the configuration, which is relative to the configuration file.
func (b *assembler) beside(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(b.opts.ConfigFile), path)
}

func (b *assembler) serverOptions(id string, c serverConfig, vault *secret.Vault) upstream.Options {
	o := upstream.Options{
		ID: id, Transport: upstream.Transport(c.Transport), URL: c.URL, Dir: b.beside(c.Dir), Connections: c.Limits.Concurrency,
		Env:     func() ([]string, error) { return environment(c.Env, vault) },
		Headers: func() (http.Header, error) { return headers(&c.Server, vault) },
		Exposure: upstream.Exposure{
			Tools: c.Tools, Resources: c.Resources, Effects: c.Effects, Trust: c.Trust == "annotations", Pins: pins{b.pins}, Pinning: upstream.Pinning(c.Pin),
		},
		Limits:     upstream.Limits{Timeout: time.Duration(c.Limits.Timeout), Timeouts: make(map[string]time.Duration)},
		ClientInfo: upstream.ClientInfo{Name: "toolyard", Version: b.opts.Process.Version, Self: b.replica},
		Redact:     vault.Redact, Log: b.log,
	}
	if b.opts.Command.RequireApproval && o.Pinning != upstream.PinOff {
		o.Pinning = upstream.PinApprove
	}
	if c.Command != "" {
		program := c.Command
		if strings.ContainsRune(program, '/') { // otherwise the program is looked up in PATH
			if abs, err := filepath.Abs(b.beside(program)); err == nil {
				program = abs
			}
		}
		o.Command = append([]string{program}, c.Args...)
	}
	if c.Dir == "" && c.Command != "" {
		o.Dir = filepath.Dir(b.opts.ConfigFile)
	}
	o.Private = config.Prefixes(c.private)
	o.Authorizer, o.PerCaller = b.authorizer(id, &c, vault), c.Auth.PerPerson() || c.issuer != ""
	for tool, timeout := range c.Timeouts {
		o.Timeouts[tool] = time.Duration(timeout)
	}
	if c.Limits.Args != nil {
		o.MaxArgs = int(*c.Limits.Args)
	}
	if c.Limits.Result != nil {
		o.MaxResult = int(*c.Limits.Result)
	}
	return o
}

// authorizer returns the authorizer for a server that requires OAuth, or nil for other servers.
func (b *assembler) authorizer(id string, c *serverConfig, vault *secret.Vault) upstream.Authorizer {
	switch {
	case c.Auth == nil || c.Auth.Type == config.AuthBearer:
		return nil
	case c.Auth.Type == config.AuthClientCredentials:
		return serverauth.NewProgram(protectedServer(id, c, vault), vault.HideToken, b.opts.Process.Now)
	case c.Auth.Type == config.AuthExchange:
		return serverauth.NewExchange(b.delegation(id, c, c.Auth.Client, vault), protectedServer(id, c, vault), c.Auth.Audience)
	case c.Auth.Type == config.AuthAssertion:
		return serverauth.NewAssertion(b.delegation(id, c, cmp.Or(c.Auth.AtClient, c.console), vault), protectedServer(id, c, vault))
	}
	header := ""
	if c.Auth.Type == config.AuthHeader {
		header = cmp.Or(c.Auth.Header, "Authorization")
	}
	return serverauth.NewPerson(b.connections.options(c.url), protectedServer(id, c, vault), header)
}

// delegation returns the options for a server that is called with exchanged tokens: the client
// exchanges the callers' tokens for them.
func (b *assembler) delegation(id string, c *serverConfig, client *config.AuthClient, vault *secret.Vault) serverauth.DelegationOptions {
	o := serverauth.DelegationOptions{
		Issuer:   exchangingIssuer(c.Auth.At, c.issuer, client, vault),
		Subjects: serverauth.RequestTokens(id, c.Auth.At, b.access.callerOfToken), Hide: vault.HideToken, Now: b.opts.Process.Now,
	}
	if c.Auth.UsesSignIns() {
		o.Subjects = func(ctx context.Context, call *toolyard.Call) (none oauthclient.Subject, err error) {
			if s := b.connections.signIns(c.Auth.At); s != nil {
				return s.Subject(ctx, id, call)
			}
			return none, toolyard.Errorf(toolyard.Unavailable, "Server %s is no longer configured.", id)
		}
	}
	return o
}

func exchangingIssuer(name, address string, client *config.AuthClient, vault *secret.Vault) serverauth.Issuer {
	return serverauth.Issuer{Name: name, URL: address, Client: func() (*oauthclient.Credentials, error) { return clientCredentials(client, vault) }}
}

// signIns returns the sign-in stores that servers need, by issuer.
func (b *assembler) signIns(a *assembly, vault *secret.Vault) map[string]*serverauth.SignIns {
	stores := make(map[string]*serverauth.SignIns)
	for _, s := range a.Servers {
		if !s.Auth.UsesSignIns() || stores[s.Auth.At] != nil {
			continue
		}
		issuer := a.Issuers[s.Auth.At]
		o := b.connections.options(b.connections.address(a.URL))
		o.OnConnect = func(string) { b.connections.refreshSignedIn(s.Auth.At) }
		stores[s.Auth.At] = serverauth.NewSignIns(o, exchangingIssuer(s.Auth.At, issuer.Issuer, consoleClient(issuer.Console), vault), config.Prefixes(a.PrivateNetworks))
	}
	return stores
}

// consoleClient returns the client that the console uses at an issuer, or nil.
func consoleClient(c *config.ConsoleClient) *config.AuthClient {
	if c == nil {
		return nil
	}
	return &config.AuthClient{ID: c.Client, SecretRef: c.SecretRef}
}

func protectedServer(id string, c *serverConfig, vault *secret.Vault) serverauth.Server {
	s := serverauth.Server{ID: id, URL: c.URL, Issuer: c.Auth.Issuer, Scopes: c.Auth.Scopes, Private: config.Prefixes(c.private)}
	if own := c.Auth.Client; own != nil {
		s.Client = func() (*oauthclient.Credentials, error) { return clientCredentials(own, vault) }
	}
	return s
}

// clientCredentials resolves a registered client's secrets.
func clientCredentials(c *config.AuthClient, vault *secret.Vault) (*oauthclient.Credentials, error) {
	own := &oauthclient.Credentials{ID: c.ID}
	for ref, into := range map[string]*string{c.SecretRef: &own.Secret, c.KeyRef: &own.Key} {
		if ref == "" {
			continue
		}
		value, err := vault.Resolve(ref)
		if err != nil {
			return nil, fmt.Errorf("auth: %w", err)
		}
		*into = value.Reveal()
	}
	return own, nil
}

// pins adapts the approved definitions to [upstream.Pins].
type pins struct{ book *pin.Book }

// Pinned implements [upstream.Pins].
func (p pins) Pinned(server string) map[string]json.RawMessage {
	e, _ := p.book.Entry(server)
	return e.Tools
}

// Pin implements [upstream.Pins].
func (p pins) Pin(server string, change func(map[string]json.RawMessage) map[string]json.RawMessage) error {
	return p.book.Update(server, func(e *pin.Entry) { e.Tools = change(e.Tools) })
}

// Rejections implements [upstream.Pins].
func (p pins) Rejections(server string) map[string]string {
	e, _ := p.book.Entry(server)
	return e.Rejected
}

// SetRejections implements [upstream.Pins].
func (p pins) SetRejections(server string, change func(map[string]string) map[string]string) error {
	return p.book.Update(server, func(e *pin.Entry) { e.Rejected = change(e.Rejected) })
}

// Protocol implements [upstream.Pins].
func (p pins) Protocol(server string) string {
	e, _ := p.book.Entry(server)
	return e.Protocol
}

// SetProtocol implements [upstream.Pins].
func (p pins) SetProtocol(server, version string) error {
	return p.book.Update(server, func(e *pin.Entry) { e.Protocol = version })
}
