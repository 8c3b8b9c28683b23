// Package tracecontext defines the W3C trace context of a request.
package tracecontext

// Trace is a trace context as sent by the client.
type Trace struct{ Parent, State, Baggage string }
