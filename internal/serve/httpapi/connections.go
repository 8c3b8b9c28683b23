package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/toolyard/toolyard"
)

// Connections are the connections of callers to servers that are called as a person.
type Connections interface {
	// Connections returns the servers that a caller can connect to, by ID.
	Connections(ctx context.Context, caller toolyard.Caller) ([]Connection, error)
	// Connect returns the address of the page on which the caller connects to a server. It is empty
	// if the server is unknown.
	Connect(caller toolyard.Caller, server string) (address string, err error)
	// Disconnect deletes the connection of a caller, if it exists, and revokes its tokens.
	Disconnect(ctx context.Context, caller toolyard.Caller, server string) error
}

// Connection is the connection of a caller to a server.
type Connection struct {
	Server string    `json:"server" doc:"ID of the server."`
	State  string    `json:"state" enum:"active,stale,none" doc:"stale means that the caller has to sign in again."`
	Issuer string    `json:"issuer,omitempty" doc:"The authorization server; absent for a key that the caller has entered."`
	Scopes []string  `json:"scopes,omitempty" doc:"Granted rights."`
	Since  time.Time `json:"since,omitzero" doc:"When the caller connected."`
}

type connectionsPage struct {
	Connections []Connection `json:"connections"`
}

type connectPage struct {
	URL string `json:"url" doc:"Address of the page on which the caller connects. It is for this caller only, valid for ten minutes and one sign-in."`
}

// connectionHandler serves the connections of the caller.
type connectionHandler struct {
	connections Connections // nil for none
}

func (h *connectionHandler) check(c toolyard.Caller) error {
	switch {
	case h.connections == nil:
		return notFound("This yard does not store connections.")
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
	if list == nil {
		list = []Connection{}
	}
	return respond(connectionsPage{list}, err)
}

func (h *connectionHandler) connect(r *request) (*reply, error) {
	if err := h.check(r.caller); err != nil {
		return nil, err
	}
	address, err := h.connections.Connect(r.caller, r.PathValue("server"))
	if err == nil && address == "" {
		err = notFound("There is no server %q that is called as a person.", shown(r.PathValue("server")))
	}
	return respond(connectPage{address}, err)
}

func (h *connectionHandler) disconnect(r *request) (*reply, error) {
	if err := h.check(r.caller); err != nil {
		return nil, err
	}
	return &reply{}, h.connections.Disconnect(r.Context(), r.caller, r.PathValue("server"))
}

func (h *connectionHandler) routes() []route {
	return []route{
		{method: "GET", path: "/connections", id: "listConnections", summary: "List the servers that are called as the caller, and the caller's connections to them.", access: caller, gives: answer[connectionsPage]("Connections"), refusals: []int{404}, serve: h.list},
		{
			method: "POST", path: "/connections/{server}", id: "connect", summary: "Get the address of the page on which the caller connects to a server.",
			access: caller, action: "connection.start", gives: answer[connectPage]("ConnectPage"), refusals: []int{404, 429}, serve: h.connect,
		},
		{
			method: "DELETE", path: "/connections/{server}", id: "disconnect", summary: "Delete the caller's connection to a server, if it exists, and revoke its tokens.",
			access: caller, action: "connection.remove", status: http.StatusNoContent, refusals: []int{404, 429}, serve: h.disconnect,
		},
	}
}
