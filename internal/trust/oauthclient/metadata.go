package oauthclient

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/trust/outbound"
)

// Resource is a protected service.
type Resource struct {
	ID     string   `json:"id"` // resource identifier, exactly as published
	Scopes []string `json:"scopes,omitempty"`
}

// Server is an authorization server.
type Server struct {
	Issuer           string   `json:"issuer"`
	AuthorizationURL string   `json:"authorizationUrl,omitempty"`
	TokenURL         string   `json:"tokenUrl"`
	RegistrationURL  string   `json:"registrationUrl,omitempty"`
	RevocationURL    string   `json:"revocationUrl,omitempty"`
	AuthMethods      []string `json:"authMethods,omitempty"` // client authentication methods at the token endpoint
	Scopes           []string `json:"scopes,omitempty"`
	S256             bool     `json:"s256,omitempty"`        // supports PKCE with S256
	SendsIssuer      bool     `json:"sendsIssuer,omitempty"` // sends iss in authorization responses
	ClientDocuments  bool     `json:"clientDocuments,omitempty"`
	Profiles         []string `json:"profiles,omitempty"` // profiles of authorization grants
}

const resourcePath = "/.well-known/oauth-protected-resource"

// ErrNoMetadata is returned for a service that does not declare its authorization server.
var ErrNoMetadata = errors.New("the server does not declare an authorization server; set auth.issuer")

// Discover finds the authorization server for a service that has sent a challenge. If an operator
// has configured the issuer, the service must accept it.
func (c *Client) Discover(ctx context.Context, service, issuer string, challenge Challenge) (*Resource, *Server, error) {
	resource, issuers, err := c.discoverResource(ctx, service, challenge)
	if err != nil {
		return nil, nil, fmt.Errorf("server metadata: %w", err)
	}
	switch {
	case resource == nil && issuer == "":
		return c.discoverLegacy(ctx, service)
	case resource == nil:
		resource = &Resource{ID: service}
	case issuer == "":
		issuer = issuers[0]
	case !slices.Contains(issuers, issuer):
		return nil, nil, fmt.Errorf("the server does not accept tokens from the configured issuer; it accepts only %q", issuers)
	}
	server, err := c.DiscoverServer(ctx, issuer)
	return resource, server, err
}

// discoverResource reads a service's metadata (RFC 9728). It returns nil if there is none.
func (c *Client) discoverResource(ctx context.Context, service string, challenge Challenge) (*Resource, []string, error) {
	u, err := url.Parse(service)
	if err != nil || u.Host == "" {
		return nil, nil, errors.New("the server's URL is invalid")
	}
	origin := u.Scheme + "://" + u.Host
	addresses := []string{challenge.ResourceMetadata}
	if challenge.ResourceMetadata == "" {
		addresses = slices.Compact([]string{origin + resourcePath + strings.TrimSuffix(u.EscapedPath(), "/"), origin + resourcePath})
	}
	for _, address := range addresses {
		document, err := c.get(ctx, address)
		if err != nil {
			return nil, nil, err
		}
		if document == nil {
			continue
		}
		expected := []string{service}
		if address == origin+resourcePath {
			expected = append(expected, origin, origin+"/")
		}
		return readResource(document, expected)
	}
	if challenge.ResourceMetadata != "" {
		return nil, nil, fmt.Errorf("%s does not exist", hostOf(challenge.ResourceMetadata)+pathOf(challenge.ResourceMetadata))
	}
	return nil, nil, nil
}

func pathOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.EscapedPath()
}

// readResource parses a service's metadata. The identifier must be one of the expected ones;
// otherwise, tokens for another service could be sent to this one.
func readResource(document object, expected []string) (*Resource, []string, error) {
	id, err := document.text("resource")
	if err != nil {
		return nil, nil, err
	}
	if !slices.Contains(expected, id) {
		return nil, nil, fmt.Errorf("resource is %.200q, not %q", id, expected[0])
	}
	issuers, err := document.list("authorization_servers")
	if err != nil {
		return nil, nil, err
	}
	if len(issuers) == 0 {
		return nil, nil, errors.New("authorization_servers is empty")
	}
	for _, issuer := range issuers {
		if checkIssuer(issuer) != nil {
			return nil, nil, fmt.Errorf("authorization_servers: %w", checkIssuer(issuer))
		}
	}
	scopes, err := document.list("scopes_supported")
	return &Resource{ID: id, Scopes: validScopes(scopes)}, issuers, err
}

func checkIssuer(issuer string) error {
	if !outbound.IsSecureURL(issuer) || strings.Contains(issuer, "?") {
		return fmt.Errorf("%.200q must be an https URL with no query", issuer)
	}
	return nil
}

// validScopes removes scopes that cannot be requested.
func validScopes(scopes []string) []string {
	return slices.DeleteFunc(scopes, func(s string) bool { return strings.ContainsFunc(s, notInScope) })
}

// DiscoverServer reads an authorization server's metadata (RFC 8414 or OpenID Connect Discovery).
func (c *Client) DiscoverServer(ctx context.Context, issuer string) (*Server, error) {
	if err := checkIssuer(issuer); err != nil {
		return nil, fmt.Errorf("issuer: %w", err)
	}
	server, err := c.discoverServer(ctx, issuer)
	if err == nil && server == nil {
		err = errors.New("no metadata was found at the well-known URLs")
	}
	if err != nil {
		return nil, fmt.Errorf("metadata for authorization server %s: %w", hostOf(issuer), err)
	}
	return server, nil
}

// discoverServer is like DiscoverServer, but returns nil if there is no metadata.
func (c *Client) discoverServer(ctx context.Context, issuer string) (*Server, error) {
	for _, address := range metadataAddresses(issuer) {
		document, err := c.get(ctx, address)
		if err != nil {
			return nil, err
		}
		if document != nil {
			return readServer(document, issuer)
		}
	}
	return nil, nil
}

// metadataAddresses returns the URLs at which an issuer may publish its metadata, in the order
// specified by MCP.
func metadataAddresses(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	addresses := []string{origin + "/.well-known/oauth-authorization-server" + path, origin + "/.well-known/openid-configuration" + path}
	if path != "" {
		addresses = append(addresses, origin+path+"/.well-known/openid-configuration")
	}
	return addresses
}

// readServer parses an authorization server's metadata.
func readServer(document object, issuer string) (*Server, error) {
	s := &Server{
		SendsIssuer:     document.flag("authorization_response_iss_parameter_supported"),
		ClientDocuments: document.flag("client_id_metadata_document_supported"),
	}
	var err error
	if s.Issuer, err = document.text("issuer"); err != nil {
		return nil, err
	}
	if s.Issuer != issuer {
		return nil, fmt.Errorf("issuer is %.200q, not %q", s.Issuer, issuer)
	}
	for name, into := range map[string]*string{
		"authorization_endpoint": &s.AuthorizationURL, "token_endpoint": &s.TokenURL,
		"registration_endpoint": &s.RegistrationURL, "revocation_endpoint": &s.RevocationURL,
	} {
		if *into, err = document.address(name); err != nil {
			return nil, err
		}
	}
	if s.TokenURL == "" {
		return nil, errors.New("token_endpoint is missing")
	}
	var challenges []string
	for name, into := range map[string]*[]string{
		"token_endpoint_auth_methods_supported": &s.AuthMethods, "scopes_supported": &s.Scopes,
		"code_challenge_methods_supported": &challenges, "authorization_grant_profiles_supported": &s.Profiles,
	} {
		if *into, err = document.list(name); err != nil {
			return nil, err
		}
	}
	s.S256 = slices.Contains(challenges, "S256")
	return s, nil
}

// discoverLegacy returns the authorization server of a service that has no metadata, as defined by
// MCP 2025-03-26: the service's own origin, with metadata or standard paths.
func (c *Client) discoverLegacy(ctx context.Context, service string) (*Resource, *Server, error) {
	u, err := url.Parse(service)
	if err != nil || !outbound.IsSecureURL(service) {
		return nil, nil, ErrNoMetadata
	}
	origin := u.Scheme + "://" + u.Host
	server, err := c.discoverServer(ctx, origin)
	if err != nil {
		return nil, nil, fmt.Errorf("metadata for authorization server %s: %w", u.Host, err)
	}
	if server == nil {
		server = &Server{Issuer: origin, AuthorizationURL: origin + "/authorize", TokenURL: origin + "/token", RegistrationURL: origin + "/register", S256: true}
	}
	return &Resource{ID: service}, server, nil
}
