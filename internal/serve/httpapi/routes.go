package httpapi

import (
	"slices"
)

// route is one API operation. Requests are dispatched and the OpenAPI document is generated from
// it.
type route struct {
	method, path string
	id, summary  string
	access       access
	action       string            // name of the audited change; empty if the route changes nothing
	query        []string          // query parameters: keys of queryParams or params
	params       map[string]object // schemas of parameters that differ from queryParams
	takes, gives *shape            // request and response body; may be nil
	keyed        bool              // accepts the Idempotency-Key header
	status       int               // status of a successful response; 200 if zero
	refusals     []int             // error statuses in addition to those of every route
	long         bool              // not limited by requestTime, because the route runs a tool or streams
	serve        func(*request) (*reply, error)
}

// Rule is a route's access rule.
type Rule struct {
	Method, Path string
	Access       string // open, caller, viewer, approver or operator
	Action       string // name of the audited change; empty if the route changes nothing
}

// Rules lists the access rules of all routes.
func Rules() (rules []Rule) {
	_, routes := newServer(Options{})
	for _, r := range routes {
		rules = append(rules, Rule{r.method, prefix + r.path, r.access.String(), r.action})
	}
	return rules
}

// pages are the parameters for paged lists.
var pages = []string{"before", "limit"}

// newRoutes creates all handlers and returns their routes.
func newRoutes(opts Options, auth *authenticator) []route {
	var records *recordReader
	if opts.Calls != nil {
		records = &recordReader{opts.Calls, make(chan struct{}, maxQueries)}
	}
	signIn := &signInHandler{auth, opts.Yard, opts.Now}
	edits, catalog := &editor{opts.Yard}, &catalog{yard: opts.Yard}
	calls := &callHandler{opts.Execute, opts.Gates, nil, opts.MaxBody, opts.Log}
	sessions := &sessionHandler{ledger: opts.Ledger, balances: opts.Balances, owners: &sessionOwners{}}
	calls.sessions = sessions
	return slices.Concat(
		documentRoutes(),
		signIn.routes(),
		newPersonSignIn(signIn, opts).routes(),
		calls.routes(),
		newQueryHandler(calls, opts).routes(),
		(&recordHandler{records, opts.Live, opts.Now}).routes(),
		(&liveHandler{live: opts.Live, auth: auth, streams: &streams{}}).routes(),
		sessions.routes(),
		(&accountHandler{opts.Ledger, opts.Balances}).routes(),
		(&linkHandler{opts.Links.Store, opts.Links.Check}).routes(),
		(&connectionHandler{opts.Connections}).routes(),
		(&keyHandler{opts.Keys, opts.Now}).routes(),
		(&personHandler{opts.People, opts.Now}).routes(),
		(&issuerHandler{opts.People.Issuers}).routes(),
		(&changeHandler{opts.Changes, make(chan struct{}, maxExports), opts.Now}).routes(),
		requireYard(opts.Yard,
			(&overviewHandler{opts.Yard, records, opts.Now}).routes(),
			(&serverHandler{opts.Yard, records, opts.Now}).routes(),
			(&toolHandler{opts.Yard, catalog, records, opts.Now}).routes(),
			(&toolsetHandler{opts.Yard, edits, catalog}).routes(),
			(&gateHandler{opts.Yard, edits, catalog}).routes(),
			(&priceHandler{opts.Yard, edits}).routes(),
			(&editHandler{edits}).routes(),
			(&packHandler{opts.Yard}).routes(),
			(&approvalHandler{opts.Yard}).routes(),
		),
	)
}

// requireYard makes routes respond with NOT_FOUND if the API has no yard.
func requireYard(yard Yard, groups ...[]route) []route {
	routes := slices.Concat(groups...)
	for i := range routes {
		serve := routes[i].serve
		routes[i].serve = func(r *request) (*reply, error) {
			if yard == nil {
				return nil, errNoYard
			}
			return serve(r)
		}
	}
	return routes
}
