// Package upstream makes another MCP server a source: its tools, resources and prompts
// join the yard, and nothing that it does can hurt the yard.
//
// A [Server] speaks stdio, streamable HTTP and HTTP+SSE, in both eras of the protocol. It
// is supervised: a server that dies fails its calls at once and is started again; one that
// is slow or down delays nobody, and its tools stay listed. What it defines is checked and
// pinned before anybody sees it. Results keep their bytes.
//
//	link      carries messages: link.go, process.go, http.go, sse.go
//	session   speaks the protocol of an era over a link: session.go, list.go
//	Server    keeps a session alive: server.go, state.go; turns definitions into tools:
//	          definition.go, pins.go, approve.go; and calls them: call.go, park.go, result.go
package upstream
