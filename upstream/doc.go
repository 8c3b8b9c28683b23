// Package upstream makes another MCP server a source of tools, resources and prompts.
//
// A [Server] supports stdio, streamable HTTP and HTTP+SSE, and all supported versions of the
// protocol. It is supervised: when the server dies, its running calls fail immediately and it is
// restarted; while it is slow or down, its tools stay listed and no other source is delayed.
// Definitions are checked and pinned before they are offered. Results are passed through byte for
// byte.
//
// The parts of a Server:
//
//	supervisor     opens sessions, watches them and restarts them: supervisor.go, state.go, status.go
//	definitions    turns what the server lists into tools, resources and prompts: definitions.go, resources.go, pins.go
//	approvals      compares definitions with the pins and applies decisions: approvals.go, pending.go
//	conversations  runs calls and suspends those with an open question: call.go, suspend.go, result.go
//
// Below them, a session speaks one version of the protocol over a link (session.go, list.go), and a
// link carries messages (link.go, process.go, http.go, sse.go).
package upstream
