// Package store keeps what replicas share and what must outlive them: permits, money,
// idempotency keys, the record of calls and its sums, API keys, links, documents and their
// versions, and what people changed. It speaks to PostgreSQL, or to SQLite for one node; both
// keep the same promises, because what is decided is decided once, in Go (books.go, pace.go),
// on rows that the engine has locked.
//
// The way of asking is the same for both: a replica sends a [Batch], which is one
// transaction. Limits and money are leased: what a replica has leased is taken from the
// limit before it is used, and comes back when the lease ends, also when the replica died.
package store
