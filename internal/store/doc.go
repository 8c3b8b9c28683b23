// Package store stores data that replicas share and data that must outlive them: limits, money,
// idempotency keys, recorded calls and their sums, API keys, links, documents and their versions,
// and the audit log. It uses PostgreSQL, or SQLite for a single node. Both behave the same, because
// package ledger makes all decisions on rows that an engine has locked.
//
// A replica sends a batch of requests, which becomes one transaction. Limits and money are leased:
// the leased amount is deducted before it is used, and the unused part is returned when the lease
// ends, even if the replica has stopped.
package store
