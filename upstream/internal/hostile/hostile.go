// Package hostile provides MCP servers that misbehave, to test clients. Each is a small, correct
// server except for one point, named by its behaviour; the seed varies sizes, delays, the protocol
// version and the place in the conversation.
//
// A server offers at least two tools. The tool echo returns its argument text and always works;
// faults in calls occur in calls of all other tools, of which bad always exists.
//
//	b, _ := hostile.Find("answer-twice")
//	server := httptest.NewServer(hostile.Handler(b, seed)) // the client connects to server.URL + "/mcp"
//
// Over stdio a server is a process: let the test binary start itself and call [ServeStdio] there.
// A test that runs all [Behaviours] should check deadlines, memory, leaked processes and the
// effect on other servers, not only that the client survives.
package hostile

import (
	"net/http"
	"slices"
)

// Poison is the text of answers that were never meant for the call that a client makes, or
// that must not be taken for one. No result of a client may hold it.
const Poison = "poison"

// Transport is a way to talk to a server.
type Transport string

// The transports.
const (
	Stdio Transport = "stdio"
	HTTP  Transport = "http" // streamable HTTP
	SSE   Transport = "sse"  // HTTP+SSE, as of 2024-11-05
)

// Behaviour is one way to misbehave.
type Behaviour struct {
	Name       string
	About      string
	Transports []Transport // those on which it can be seen

	// Unanswered says that a call of bad has no valid answer within a second: a client that
	// returns a result was deceived.
	Unanswered bool
	// Heavy says that the server sends megabytes, or works hard on what it sends.
	Heavy bool
	// Escapes says that the server leaves processes that a client without help of the system
	// cannot find again. They end by themselves within half a minute.
	Escapes bool

	// Lure is a URL to which the server tries to lead its client, and LureFile a file. Both
	// are set by the test, which watches that nobody comes.
	Lure, LureFile string
	// Long asks for the full size of what is otherwise scaled down.
	Long bool

	at      []string     // the points at which it strikes; the seed takes one
	era     era          // in which it can be seen
	strike  func(*turn)  // instead of the right answer
	respond func(*turn)  // instead of the right HTTP response
	pour    func(*turn)  // where the server speaks without being asked
	start   func(*child) // when a process starts
}

// era is a generation of the protocol.
type era int

const (
	either era = iota // the seed decides
	legacy            // 2025-11-25 and older
	modern            // 2026-07-28
)

// The points of a conversation at which servers strike, beside the methods of the protocol.
const (
	atGet    = "GET"    // the client opens a stream
	atDelete = "DELETE" // the client ends its session
	atOwn    = "own"    // the server speaks or acts of its own accord
)

var (
	atCall = []string{"tools/call"}
	atList = []string{"tools/list"}
	atInit = []string{"initialize"}
	// anywhere begins with the call, so that the first seed strikes there.
	anywhere = []string{"tools/call", "tools/list", "initialize"}
)

// Honest is a server that does not misbehave at all, for comparison.
var Honest = Behaviour{Name: "honest", About: "behaves", Transports: []Transport{Stdio, HTTP, SSE}, at: []string{atOwn}}

// Behaviours are all ways to misbehave.
var Behaviours = collect(
	callBehaviours, resultBehaviours, askBehaviours, framingBehaviours, textBehaviours, schemaBehaviours, listBehaviours,
	openingBehaviours, modernBehaviours, statusBehaviours, redirectBehaviours, connectionBehaviours, sessionBehaviours,
	streamBehaviours, endpointBehaviours, processBehaviours,
)

// collect puts groups of behaviours together. What a behaviour does not say is what most
// of them have: every transport, and the call.
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

// Find finds a behaviour by its name.
func Find(name string) (Behaviour, bool) {
	i := slices.IndexFunc(Behaviours, func(b Behaviour) bool { return b.Name == name })
	if i < 0 {
		return Honest, name == Honest.Name
	}
	return Behaviours[i], true
}

// Point is where in the conversation a server with this seed strikes: the method of a
// message, GET or DELETE for a request without one, or own for what the server does of its
// own accord. A server that strikes at tools/call is correct up to there.
func (b Behaviour) Point(seed uint64) string {
	return b.at[seed%uint64(len(b.at))]
}

// modern reports whether a server with this seed speaks 2026-07-28.
func (b Behaviour) modern(seed uint64) bool {
	if b.era == either {
		return seed/uint64(len(b.at))%2 == 1
	}
	return b.era == modern
}

// Handler is the server over HTTP: streamable HTTP at /mcp, HTTP+SSE at /sse and /messages.
func Handler(b Behaviour, seed uint64) http.Handler {
	s := newServer(b, seed)
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", s.streamable)
	mux.HandleFunc("GET /sse", s.events)
	mux.HandleFunc("POST /messages", s.messages)
	return mux
}
