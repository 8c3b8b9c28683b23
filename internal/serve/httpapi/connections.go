package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/toolyard/toolyard"
)

// Connections manages callers' connections to servers that are called on behalf of a person.
type Connections interface {
	// Connections returns the servers that a caller can connect to, sorted by ID.
	Connections(ctx context.Context, caller toolyard.Caller) ([]Connection, error)
	// ServerConnections returns the callers connected to a server, newest first, and whether there
	// are more.
	ServerConnections(ctx context.Context, server string) (list []ServerConnection, more bool, err error)
	// Link returns the URL of the page on which the caller connects to a server.
	Link(caller toolyard.Caller, server string) (address string, err error)
	// Review returns the terms that the caller is asked to agree to. ticket is a link's ticket, or
	// empty.
	Review(ctx context.Context, caller toolyard.Caller, server, ticket string) (*ConnectionReview, error)
	// BeginSignIn returns the URL at which the caller signs in, and a cookie for [Connections.Complete].
	BeginSignIn(ctx context.Context, caller toolyard.Caller, server, ticket string) (address, cookie string, err error)
	// EnterKey stores the caller's key for a server.
	EnterKey(ctx context.Context, caller toolyard.Caller, server, ticket, key string) error
	// Complete completes a sign-in with the authorization server's response.
	Complete(ctx context.Context, caller toolyard.Caller, cookies []string, response string) (server string, err error)
	// Disconnect deletes a caller's connection if it exists, and revokes its tokens.
	Disconnect(ctx context.Context, caller toolyard.Caller, server string) error
}

// Connection is a caller's connection to a server.
type Connection struct {
	Server string    `json:"server" doc:"ID of the server."`
	State  string    `json:"state" enum:"active,stale,none" doc:"stale means that the caller must sign in again."`
	Key    bool      `json:"key" doc:"Whether the caller enters a key instead of signing in."`
	Issuer string    `json:"issuer,omitempty" doc:"The authorization server; absent for a key that the caller has entered."`
	Scopes []string  `json:"scopes,omitempty" doc:"Granted permissions."`
	Since  time.Time `json:"since,omitzero" doc:"When the caller connected."`
	// Expires is zero if the lifetime is unknown.
	Expires time.Time `json:"expires,omitzero" doc:"When the access token expires."`
	Renewed bool      `json:"renewed,omitempty" doc:"Whether the access token is renewed before it expires."`
}

type connectionsPage struct {
	Connections []Connection `json:"connections"`
}

// ServerConnection is a caller's connection to a server as shown to operators.
type ServerConnection struct {
	Caller  string    `json:"caller" doc:"The caller whose calls use the connection."`
	Account string    `json:"account,omitempty" doc:"Account of the API key; absent for a person who signs in with an issuer."`
	State   string    `json:"state" enum:"active,stale" doc:"stale means that the caller must sign in again."`
	Issuer  string    `json:"issuer,omitempty" doc:"The authorization server; absent for a key that the caller has entered."`
	Scopes  []string  `json:"scopes,omitempty" doc:"Granted permissions."`
	Since   time.Time `json:"since" doc:"When the caller connected."`
}

type serverConnectionsPage struct {
	Connections []ServerConnection `json:"connections"`
	More        bool               `json:"more" doc:"Whether there are more connections than listed."`
}

type connectPage struct {
	URL string `json:"url" doc:"URL of the page where the caller connects. It is valid only for this caller, for ten minutes and one sign-in."`
}

// ConnectionReview describes a connection that the caller is asked to agree to.
type ConnectionReview struct {
	Server string   `json:"server" doc:"ID of the server."`
	Caller string   `json:"caller" doc:"The caller whose calls will use the connection."`
	Key    bool     `json:"key" doc:"Whether the caller enters a key instead of signing in."`
	Host   string   `json:"host,omitempty" doc:"Host at which the person signs in."`
	Scopes []string `json:"scopes,omitempty" doc:"Requested permissions."`
}

// ticketBody contains the ticket from the link that the caller opened.
type ticketBody struct {
	Ticket string `json:"ticket,omitempty" maxLength:"8192" doc:"The ticket of a link, after #ticket=. If omitted, the caller connects with the permissions that the server requires by default."`
}

type connectionKeyBody struct {
	Ticket string `json:"ticket,omitempty" maxLength:"8192" doc:"The ticket of a link, after #ticket=."`
	Key    string `json:"key" minLength:"1" maxLength:"8192" doc:"The caller's key for the server."`
}

type begunConnection struct {
	Address string `json:"address" doc:"URL at which the person signs in. Open it in the same browser, which also has the cookie from this response."`
}

// authorizationResponse is an authorization server's response as received by the browser.
type authorizationResponse struct {
	Response string `json:"response" minLength:"1" maxLength:"8192" doc:"The query string with which the authorization server redirected the browser to /oauth/callback."`
}

type connectedServer struct {
	Server string `json:"server" doc:"ID of the server."`
}

// connectCookie binds a sign-in at an authorization server to the browser that started it.
const connectCookie = "toolyard-connect"

// connectionHandler serves the caller's connections.
type connectionHandler struct {
	connections Connections // may be nil
}

func (h *connectionHandler) check(c toolyard.Caller) error {
	switch {
	case h.connections == nil:
		return notFound("Connections are not configured.")
	case !c.Authenticated():
		return errUnauthenticated
	}
	return nil
}

func (h *connectionHandler) list(r *request) (*reply, error) {
	if err := h.check(r.caller); err != nil {
		return nil, err
	}
	list, err := h.connections.Connections(r.Context(), r.caller)
	return respond(connectionsPage{orEmpty(list)}, err)
}

func (h *connectionHandler) listServer(r *request) (*reply, error) {
	if err := h.check(r.caller); err != nil {
		return nil, err
	}
	list, more, err := h.connections.ServerConnections(r.Context(), r.PathValue("server"))
	return respond(serverConnectionsPage{orEmpty(list), more}, err)
}

func (h *connectionHandler) link(r *request) (*reply, error) {
	if err := h.check(r.caller); err != nil {
		return nil, err
	}
	address, err := h.connections.Link(r.caller, r.PathValue("server"))
	return respond(connectPage{address}, err)
}

func (h *connectionHandler) review(r *request) (*reply, error) {
	if err := h.check(r.caller); err != nil {
		return nil, err
	}
	body, err := read[ticketBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	return respond(h.connections.Review(r.Context(), r.caller, r.PathValue("server"), body.Ticket))
}

func (h *connectionHandler) signIn(r *request) (*reply, error) {
	if err := h.check(r.caller); err != nil {
		return nil, err
	}
	body, err := read[ticketBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	address, value, err := h.connections.BeginSignIn(r.Context(), r.caller, r.PathValue("server"), body.Ticket)
	if err != nil {
		return nil, err
	}
	setCookie(r, connectCookie, value, flowTime)
	return &reply{body: begunConnection{address}}, nil
}

func (h *connectionHandler) enterKey(r *request) (*reply, error) {
	if err := h.check(r.caller); err != nil {
		return nil, err
	}
	body, err := read[connectionKeyBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	return &reply{}, h.connections.EnterKey(r.Context(), r.caller, r.PathValue("server"), body.Ticket, body.Key)
}

// complete completes a sign-in, which must have been started in this browser. Only this server's
// pages can send the cookie.
func (h *connectionHandler) complete(r *request) (*reply, error) {
	if err := h.check(r.caller); err != nil {
		return nil, err
	}
	body, err := read[authorizationResponse](r, smallBody)
	if err != nil {
		return nil, err
	}
	var values []string
	for _, c := range r.CookiesNamed(connectCookie) {
		if len(values) < maxCookies && sameOrigin(r.Request) {
			values = append(values, c.Value)
		}
	}
	server, err := h.connections.Complete(r.Context(), r.caller, values, body.Response)
	setCookie(r, connectCookie, "", -time.Second)
	return &reply{body: connectedServer{server}, subject: shown(server)}, err
}

func (h *connectionHandler) disconnect(r *request) (*reply, error) {
	if err := h.check(r.caller); err != nil {
		return nil, err
	}
	return &reply{}, h.connections.Disconnect(r.Context(), r.caller, r.PathValue("server"))
}

func (h *connectionHandler) routes() []route {
	return []route{
		{method: "GET", path: "/connections", id: "listConnections", summary: "List the servers that are called on behalf of the caller, and the caller's connections to them.", access: caller, gives: answer[connectionsPage]("Connections"), refusals: []int{404}, serve: h.list},
		{
			method: "GET", path: "/connections/{server}/people", id: "listServerConnections", summary: "List the callers who are connected to a server, newest first.",
			access: viewer, gives: answer[serverConnectionsPage]("ServerConnections"), refusals: []int{404}, serve: h.listServer,
		},
		{
			method: "POST", path: "/connections/{server}", id: "connect", summary: "Get the URL of the page where the caller connects to a server.",
			access: caller, action: "connection.start", gives: answer[connectPage]("ConnectPage"), refusals: []int{404, 429}, serve: h.link,
		},
		{
			method: "POST", path: "/connections/{server}/review", id: "reviewConnection", summary: "Describe a connection to a server before the caller connects.",
			access: caller, takes: body[ticketBody]("ConnectionTicket"), gives: answer[ConnectionReview]("ConnectionReview"), refusals: []int{400, 403, 404, 503}, long: true, serve: h.review,
		},
		{
			method: "POST", path: "/connections/{server}/signin", id: "signInToServer", summary: "Start the caller's sign-in with a server's authorization server.",
			access: caller, action: "connection.signin", takes: body[ticketBody]("ConnectionTicket"), gives: answer[begunConnection]("BegunConnection"), refusals: []int{400, 403, 404, 429, 503}, long: true, serve: h.signIn,
		},
		{
			method: "PUT", path: "/connections/{server}/key", id: "enterKey", summary: "Store the caller's key for a server.",
			access: caller, action: "connection.key", takes: body[connectionKeyBody]("ConnectionKey"), status: http.StatusNoContent, refusals: []int{400, 403, 404, 429, 503}, serve: h.enterKey,
		},
		{
			method: "POST", path: "/oauth/response", id: "completeConnection", summary: "Complete the caller's sign-in with the response from the authorization server.",
			access: caller, action: "connection.complete", takes: body[authorizationResponse]("AuthorizationResponse"), gives: answer[connectedServer]("ConnectedServer"), refusals: []int{400, 403, 404, 429, 503}, long: true, serve: h.complete,
		},
		{
			method: "DELETE", path: "/connections/{server}", id: "disconnect", summary: "Delete the caller's connection to a server, if it exists, and revoke its tokens.",
			access: caller, action: "connection.remove", status: http.StatusNoContent, refusals: []int{404, 429}, serve: h.disconnect,
		},
	}
}
