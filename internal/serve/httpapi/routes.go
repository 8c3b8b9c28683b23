package httpapi

import (
	"net/http"
	"slices"

	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

// route is one thing that can be asked for: what it is, whom it is for, and who answers. The
// OpenAPI document is made of the same table.
type route struct {
	method, path string
	id, summary  string
	access       access
	action       string            // what is recorded of who asks for it; empty for nothing
	query        []string          // the parameters of the query string, each of queryParams or of params
	params       map[string]object // those that mean something of their own here
	takes, gives *shape            // the body and the answer; nil for none
	keyed        bool              // takes the header Idempotency-Key
	status       int               // of the answer; 200 when zero
	refusals     []int             // statuses beside those that every route has
	long         bool              // it takes as long as a tool does, or somebody watches; all others end in time
	serve        func(*request) (*reply, error)
}

// Rule says whom a route is for.
type Rule struct {
	Method, Path string
	Access       string // open, caller, viewer or operator
	Action       string // what is recorded of who asks for it; empty for nothing
}

// Rules are those of all routes.
func Rules() (rules []Rule) {
	for _, r := range newV1(Options{}).routes() {
		rules = append(rules, Rule{r.method, prefix + r.path, r.access.String(), r.action})
	}
	return rules
}

// pages are the parameters of answers that go on.
var pages = []string{"before", "limit"}

func (a *v1) routes() []route {
	ofYard := slices.Concat(a.routesOfYard(), a.routesOfServers(), a.routesOfGates())
	for i := range ofYard {
		ofYard[i].serve = a.withYard(ofYard[i].serve)
	}
	return slices.Concat(a.routesOfPeople(), a.routesOfCalls(), a.routesOfMoney(), ofYard)
}

// withYard answers only where there is a yard to tell of.
func (a *v1) withYard(serve func(*request) (*reply, error)) func(*request) (*reply, error) {
	return func(r *request) (*reply, error) {
		if a.Yard == nil {
			return nil, errNoYard
		}
		return serve(r)
	}
}

func (a *v1) routesOfPeople() []route {
	return []route{
		{
			method: "POST", path: "/signin", id: "signIn", summary: "Sign a browser in with an API key, for some hours. Its requests then carry the cookie and the page secret of the answer.",
			access: open, takes: body[signInBody]("SignIn"), gives: answer[signInAnswer]("SignedIn"), refusals: []int{400, 401, 413, 503}, serve: a.signIn,
		},
		{
			method: "DELETE", path: "/signin", id: "signOut", summary: "Sign a browser out.",
			access: open, status: http.StatusNoContent, serve: a.signOut,
		},
		{method: "GET", path: "/me", id: "getMe", summary: "Who asks, and where.", access: caller, gives: answer[Me]("Me"), serve: a.getMe},
		{
			method: "GET", path: "/traffic", id: "getTraffic", summary: "Calls in each of the last minutes.",
			access: viewer, query: []string{"minutes"}, gives: answer[trafficPage]("Traffic"), refusals: []int{400, 404}, serve: a.getTraffic,
		},
		{
			method: "GET", path: "/changes", id: "listChanges", summary: "What people changed through the API, the newest first.",
			access: viewer, query: slices.Concat([]string{"caller", "action", "subject"}, pages), gives: answer[changesPage]("Changes"), refusals: []int{400}, serve: a.getChanges,
		},
		{
			method: "GET", path: "/keys", id: "listKeys", summary: "API keys without their secrets, the newest first.",
			access: viewer, query: slices.Concat([]string{"q", "account", "caller", "state"}, pages), params: keyParams, gives: answer[keysPage]("Keys"), refusals: []int{400, 404}, serve: a.getKeys,
		},
		{
			method: "POST", path: "/keys", id: "createKey", summary: "Make an API key. Its token is in the answer and nowhere else.",
			access: operator, action: "key.make", takes: body[keyBody]("CreateKey"), gives: answer[madeKey]("CreatedKey"), status: http.StatusCreated, refusals: []int{400, 404, 409, 413}, serve: a.makeKey,
		},
		{
			method: "DELETE", path: "/keys/{prefix}", id: "revokeKey", summary: "Make an API key useless from now on.",
			access: operator, action: "key.revoke", status: http.StatusNoContent, refusals: []int{404}, serve: a.revokeKey,
		},
		{
			method: "GET", path: "/openapi.json", id: "getOpenAPI", summary: "This document.",
			access: open, gives: anything("Document"), serve: getOpenAPI,
		},
	}
}

func (a *v1) routesOfYard() []route {
	return []route{
		{
			method: "GET", path: "/overview", id: "getOverview", summary: "What is healthy, what happens, and what needs a person.",
			access: viewer, gives: answer[overview]("Overview"), refusals: []int{404}, serve: a.getOverview,
		},
		{
			method: "GET", path: "/problems", id: "listProblems", summary: "What a person should mend.",
			access: viewer, gives: answer[problemsPage]("Problems"), refusals: []int{404}, serve: a.getProblems,
		},
		{
			method: "GET", path: "/limits", id: "listLimits", summary: "The limits that are enforced, and how much of them is used now.",
			access: viewer, gives: answer[limitsPage]("Limits"), refusals: []int{404}, serve: a.getLimits,
		},
		{
			method: "GET", path: "/tools", id: "searchTools", summary: "The catalog: all tools, or those that fit, the best first.",
			access: viewer, query: []string{"q", "source", "category", "mode", "price", "latency", "gate", "problem", "limit", "offset"},
			gives: answer[toolsPage]("Tools"), refusals: []int{400, 404}, serve: a.getTools,
		},
		{
			method: "GET", path: "/tools/{source}/{name}", id: "getTool", summary: "A tool: what it is, who can see it and why. The source is a server, or - for local tools.",
			access: viewer, gives: answer[toolDetail]("Tool"), refusals: []int{404}, serve: a.getTool,
		},
	}
}

func (a *v1) routesOfCalls() []route {
	return []route{
		{
			method: "POST", path: "/tools/execute", id: "executeTool", summary: "Call a tool at a gate for execution. A tool that failed is an answer too: its result says isError, and nothing is charged. So is one that asks something: see inputRequired.",
			access: caller, takes: body[callBody]("CallRequest"), gives: executedShape, keyed: true, refusals: []int{400, 402, 404, 409, 413, 429}, long: true, serve: a.execute,
		},
		{
			method: "POST", path: "/calls", id: "callTool", summary: "Call a tool at any gate. A tool that failed is an answer too: its result says isError. So is one that asks something: see inputRequired.",
			access: caller, takes: body[callBody]("CallRequest"), gives: executedShape, keyed: true, refusals: []int{400, 402, 404, 409, 413, 429}, long: true, serve: a.makeCall,
		},
		{
			method: "POST", path: "/calls/batch", id: "callTools", summary: "Call tools side by side; the results are in the order of the calls.",
			access: caller, takes: body[batchBody]("CallBatch"), gives: batchedShape, refusals: []int{400, 413}, long: true, serve: a.makeCalls,
		},
		{
			method: "GET", path: "/calls", id: "listCalls", summary: "Calls on the record, the newest first: those of the caller's account; of any account with the scope viewer.",
			access: caller, query: slices.Concat(callParams, pages), gives: answer[callsPage]("Calls"), refusals: []int{400, 404}, serve: a.getCalls,
		},
		{
			method: "GET", path: "/calls/{id}", id: "getCall", summary: "A call, the steps of its path, and the calls that its tool made.",
			access: caller, gives: answer[callDetail]("Call"), refusals: []int{404}, serve: a.getCall,
		},
		{
			method: "GET", path: "/calls/live", id: "watchCalls", summary: "Calls as they happen, as server-sent events: begin, call, and lost for those that were too fast. It begins with the last ones.",
			access: caller, query: []string{"account", "caller", "server", "tool", "gate", "failed"}, gives: streamShape, refusals: []int{400, 404}, long: true, serve: a.watchCalls,
		},
		{
			method: "GET", path: "/latencies", id: "listLatencies", summary: "How long the newest 20,000 calls took, of the last day if it is not said since when.",
			access: caller, query: []string{"account", "server", "tool", "since", "until"}, gives: answer[latenciesPage]("Latencies"), refusals: []int{400, 404}, serve: a.getLatencies,
		},
	}
}

func (a *v1) routesOfServers() []route {
	return []route{
		{
			method: "GET", path: "/servers", id: "listServers", summary: "The MCP servers of the configuration.",
			access: viewer, gives: answer[serversPage]("Servers"), refusals: []int{404}, serve: a.getServers,
		},
		{
			method: "GET", path: "/servers/{id}", id: "getServer", summary: "An MCP server: its state, what happened to it, what it wrote, what was approved.",
			access: viewer, gives: answer[ServerDetail]("Server"), refusals: []int{404}, serve: a.getServer,
		},
		{
			method: "GET", path: "/servers/{id}/pending", id: "listPending", summary: "Definitions of a server that are not as they were approved.",
			access: viewer, gives: answer[pendingPage]("Pending"), refusals: []int{404}, serve: a.getPending,
		},
		{
			method: "POST", path: "/servers/{id}/approve", id: "approveDefinitions", summary: "Approve definitions as they were looked at.",
			access: operator, action: "server.approve", takes: body[picksBody]("DefinitionRefs"), gives: answer[approved]("Approved"), refusals: []int{400, 404, 409, 413}, serve: a.approve,
		},
		{
			method: "POST", path: "/servers/{id}/reject", id: "rejectDefinitions", summary: "Reject definitions as they were looked at: they stay withheld, and nobody is asked again.",
			access: operator, action: "server.reject", takes: body[picksBody]("DefinitionRefs"), gives: answer[rejected]("Rejected"), refusals: []int{400, 404, 409, 413}, serve: a.reject,
		},
		{
			method: "POST", path: "/servers/{id}/retry", id: "retryServer", summary: "Connect to a server that is down now, and not after its pause.",
			access: operator, action: "server.retry", gives: answer[ServerItem]("ServerItem"), refusals: []int{404}, serve: a.retry,
		},
	}
}

func (a *v1) routesOfGates() []route {
	return []route{
		{
			method: "GET", path: "/toolsets", id: "listToolsets", summary: "The named selections of tools.",
			access: viewer, gives: answer[toolsetsPage]("Toolsets"), refusals: []int{404}, serve: a.getToolsets,
		},
		{
			method: "GET", path: "/toolsets/{name}", id: "getToolset", summary: "A toolset.",
			access: viewer, gives: answer[toolsetItem]("Toolset"), refusals: []int{404}, serve: a.getToolset,
		},
		{
			method: "PUT", path: "/toolsets/{name}", id: "putToolset", summary: "Make or change a toolset.",
			access: operator, action: "toolset.put", takes: body[toolsetBody]("PutToolset"), gives: answer[toolsetItem]("Toolset"), refusals: []int{400, 404, 409, 413}, serve: a.putToolset,
		},
		{
			method: "DELETE", path: "/toolsets/{name}", id: "removeToolset", summary: "Take back what was changed of a toolset: what the file says counts again.",
			access: operator, action: "toolset.remove", query: []string{"version"}, status: http.StatusNoContent, refusals: []int{400, 404, 409}, serve: a.deleteToolset,
		},
		{
			method: "POST", path: "/toolsets/{name}/preview", id: "previewToolset", summary: "What the gates would show with a toolset, without changing it.",
			access: viewer, takes: body[gates.Toolset]("ToolSelection"), gives: answer[preview]("Preview"), refusals: []int{400, 404, 413}, serve: a.previewToolset,
		},
		{
			method: "GET", path: "/toolsets/{name}/export", id: "exportToolset", summary: "The tools of a toolset as functions of a model's API.",
			access: viewer, query: []string{"format", "gate"}, gives: anything("Functions"), refusals: []int{400, 404}, serve: a.exportToolset,
		},
		{
			method: "GET", path: "/gates", id: "listGates", summary: "The ways in.",
			access: viewer, gives: answer[gatesPage]("Gates"), refusals: []int{404}, serve: a.getGates,
		},
		{
			method: "GET", path: "/gates/{name}", id: "getGate", summary: "A gate and what it shows.",
			access: viewer, gives: answer[gateDetail]("Gate"), refusals: []int{404}, serve: a.getGate,
		},
		{
			method: "PUT", path: "/gates/{name}", id: "putGate", summary: "Make or change a gate.",
			access: operator, action: "gate.put", takes: body[gateBody]("PutGate"), gives: answer[gateItem]("GateItem"), refusals: []int{400, 404, 409, 413}, serve: a.putGate,
		},
		{
			method: "DELETE", path: "/gates/{name}", id: "removeGate", summary: "Take back what was changed of a gate: what the file says counts again.",
			access: operator, action: "gate.remove", query: []string{"version"}, status: http.StatusNoContent, refusals: []int{400, 404, 409}, serve: a.deleteGate,
		},
		{
			method: "GET", path: "/gates/{name}/export", id: "exportGate", summary: "The tools of a gate as functions of a model's API.",
			access: viewer, query: []string{"format"}, gives: anything("Functions"), refusals: []int{400, 404}, serve: a.exportGate,
		},
		{
			method: "GET", path: "/edits", id: "listEdits", summary: "The versions of what was changed of toolsets and gates, the newest first.",
			access: viewer, gives: answer[editsPage]("Edits"), refusals: []int{404}, serve: a.getEdits,
		},
		{
			method: "GET", path: "/edits/{version}", id: "getEdit", summary: "A version of what was changed.",
			access: viewer, gives: answer[editDetail]("Edit"), refusals: []int{404}, serve: a.getEdit,
		},
		{
			method: "POST", path: "/edits/{version}/restore", id: "restoreEdit", summary: "Make toolsets and gates what they were in an earlier version.",
			access: operator, action: "edits.restore", takes: body[versioned]("Version"), gives: answer[versioned]("Version"), refusals: []int{400, 404, 409, 413}, serve: a.restore,
		},
	}
}

func (a *v1) routesOfMoney() []route {
	purse := answer[ledger.Balance]("Balance")
	return []route{
		{
			method: "POST", path: "/sessions", id: "openSession", summary: "Open a session: a budget for calls, taken from the caller's account.",
			access: caller, action: "session.open", takes: body[sessionBody]("OpenSession"), gives: purse, keyed: true, status: http.StatusCreated, refusals: []int{400, 402, 404, 409, 413, 429}, serve: a.openSession,
		},
		{
			method: "GET", path: "/sessions", id: "listSessions", summary: "Sessions, those that end last first: those of the caller's account; of any account with the scope viewer.",
			access: caller, query: slices.Concat([]string{"account", "state"}, pages), gives: answer[sessionsPage]("Sessions"), refusals: []int{400, 404}, serve: a.getSessions,
		},
		{
			method: "GET", path: "/sessions/{id}", id: "getSession", summary: "A session as it is now: of the caller's account; any with the scope viewer.",
			access: caller, gives: purse, refusals: []int{404}, serve: a.getSession,
		},
		{
			method: "POST", path: "/sessions/{id}/close", id: "closeSession", summary: "Close a session; what is left goes back to the account.",
			access: caller, action: "session.close", gives: purse, refusals: []int{404, 429}, serve: a.closeSession,
		},
		{method: "GET", path: "/account", id: "getAccount", summary: "The caller's account as it is now.", access: caller, gives: purse, refusals: []int{404}, serve: a.getAccount},
		{
			method: "GET", path: "/accounts", id: "listAccounts", summary: "Accounts, by id.",
			access: viewer, query: slices.Concat([]string{"q"}, pages), params: accountParams, gives: answer[accountsPage]("Accounts"), refusals: []int{400, 404}, serve: a.getAccounts,
		},
		{
			method: "POST", path: "/accounts/{id}/fund", id: "fundAccount", summary: "Put money into an account, or take it out.",
			access: operator, action: "account.fund", takes: body[fundBody]("Fund"), gives: purse, refusals: []int{400, 402, 404, 413}, serve: a.fund,
		},
		{
			method: "GET", path: "/costs", id: "listCosts", summary: "What calls have cost, of the last 30 days if it is not said since when.",
			access: caller, query: []string{"account", "by", "since", "until", "top", "rankBy"}, gives: answer[costsPage]("Costs"), refusals: []int{400, 404}, serve: a.getCosts,
		},
		{method: "GET", path: "/links", id: "listLinks", summary: "What the caller has linked, for tools that ask for it.", access: caller, gives: answer[linksPage]("Links"), refusals: []int{404}, serve: a.getLinks},
		{method: "GET", path: "/links/{kind}", id: "getLink", summary: "What the caller has linked as one kind.", access: caller, gives: answer[link]("Link"), refusals: []int{404}, serve: a.getLink},
		{
			method: "PUT", path: "/links/{kind}", id: "setLink", summary: "Link an account elsewhere.",
			access: caller, action: "link.set", takes: body[linkBody]("SetLink"), gives: answer[link]("Link"), refusals: []int{400, 404, 413, 429}, serve: a.putLink,
		},
		{
			method: "DELETE", path: "/links/{kind}", id: "removeLink", summary: "Remove a link; it need not be there.",
			access: caller, action: "link.remove", status: http.StatusNoContent, refusals: []int{404, 429}, serve: a.deleteLink,
		},
	}
}
