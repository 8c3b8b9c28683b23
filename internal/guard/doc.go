// Package guard stands between the platform and what strangers send. It holds the
// one strict JSON reader: bytes are read once, and what is ambiguous is refused
// rather than interpreted, so that no two readers can disagree about a message.
package guard
