// Package hostile provides misbehaving MCP servers for testing clients. Each one is a small server
// that is correct except for one fault, which its behaviour describes. The seed varies sizes,
// delays, the protocol version and the point in the conversation.
//
// A server offers at least two tools. The tool echo returns its argument text and always works.
// Faults in calls occur in calls to all other tools, of which bad always exists.
//
//	b, _ := hostile.Find("answer-twice")
//	server := httptest.NewServer(hostile.Handler(b, seed)) // the client connects to server.URL + "/mcp"
//
// Over stdio, a server is a process: let the test binary start a copy of itself that calls
// [ServeStdio]. A test that runs all [Behaviours] should check deadlines, memory, leaked processes
// and the effect on other servers, not only that the client survives.
package hostile

import (
	"net/http"
	"slices"
)

// Poison is the text of responses that a client must not accept. No client's result may contain it.
const Poison = "poison"

// Transport is an MCP transport.
type Transport string

// The possible transports.
const (
	Stdio Transport = "stdio"
	HTTP  Transport = "http" // streamable HTTP
	SSE   Transport = "sse"  // HTTP+SSE from version 2024-11-05
)

// Behaviour is one kind of misbehaviour.
type Behaviour struct {
	Name       string
	About      string
	Transports []Transport // transports on which it can occur

	// Unanswered means that a call to bad gets no valid response within a second: a client that
	// returns a result was deceived.
	Unanswered bool
	// Heavy means that the server sends megabytes, or uses much CPU time.
	Heavy bool
	// Escapes means that the server leaves behind processes that a client cannot find without help
	// from the operating system. They end on their own within half a minute.
	Escapes bool

	// Lure is a URL, and LureFile a file, that the server tries to make its client access. The test
	// sets both and checks that the client accesses neither.
	Lure, LureFile string
	// Long selects full sizes, which are otherwise scaled down.
	Long bool

	at      []string     // points at which the fault may occur; the seed selects one
	era     era          // era in which the fault can occur
	strike  func(*turn)  // replaces the valid response
	respond func(*turn)  // replaces the valid HTTP response
	pour    func(*turn)  // sends unsolicited messages
	start   func(*child) // runs when a process starts
}

// era is a generation of the protocol.
type era int

const (
	either era = iota // selected by the seed
	legacy            // 2025-11-25 and older
	modern            // 2026-07-28
)

// Points in the conversation at which faults occur, in addition to the protocol's methods.
const (
	atGet    = "GET"    // the client opens a stream
	atDelete = "DELETE" // the client ends its session
	atOwn    = "own"    // the server acts on its own
)

var (
	atCall = []string{"tools/call"}
	atList = []string{"tools/list"}
	atInit = []string{"initialize"}
	// anywhere starts with tools/call, so that the first seed selects it.
	anywhere = []string{"tools/call", "tools/list", "initialize"}
)

// Honest is a server that does not misbehave, for comparison.
var Honest = Behaviour{Name: "honest", About: "behaves", Transports: []Transport{Stdio, HTTP, SSE}, at: []string{atOwn}}

// Behaviours are all kinds of misbehaviour.
var Behaviours = collect(
	callBehaviours, resultBehaviours, askBehaviours, framingBehaviours, textBehaviours, schemaBehaviours, listBehaviours,
	openingBehaviours, modernBehaviours, statusBehaviours, redirectBehaviours, connectionBehaviours, sessionBehaviours,
	streamBehaviours, endpointBehaviours, processBehaviours,
)

// collect concatenates groups of behaviours and sets the defaults: all transports, and the point
// tools/call.
func collect(groups ...[]Behaviour) []Behaviour {
	all := slices.Concat(groups...)
	for i := range all {
		if all[i].Transports == nil {
			all[i].Transports = Honest.Transports
		}
		if all[i].at == nil {
			all[i].at = atCall
		}
	}
	return all
}

// Find returns a behaviour by name.
func Find(name string) (Behaviour, bool) {
	i := slices.IndexFunc(Behaviours, func(b Behaviour) bool { return b.Name == name })
	if i < 0 {
		return Honest, name == Honest.Name
	}
	return Behaviours[i], true
}

// Point returns the point in the conversation at which a server with this seed misbehaves: the
// method of a message, GET or DELETE for a request that has no message, or own if the server acts
// on its own. A server that misbehaves at tools/call is correct up to that point.
func (b Behaviour) Point(seed uint64) string {
	return b.at[seed%uint64(len(b.at))]
}

// modern reports whether a server with this seed supports 2026-07-28.
func (b Behaviour) modern(seed uint64) bool {
	if b.era == either {
		return seed/uint64(len(b.at))%2 == 1
	}
	return b.era == modern
}

// Handler returns an HTTP handler for the server: streamable HTTP at /mcp, and HTTP+SSE at /sse and
// /messages.
func Handler(b Behaviour, seed uint64) http.Handler {
	s := newServer(b, seed)
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", s.streamable)
	mux.HandleFunc("GET /sse", s.events)
	mux.HandleFunc("POST /messages", s.messages)
	return mux
}
