// Package store stores what replicas share and what must outlive them: limits, money, idempotency
// keys, recorded calls and their sums, API keys, links, documents and their versions, and the audit
// log. It uses PostgreSQL, or SQLite for one node. Both behave alike, because package ledger makes
// all decisions on rows that an engine has locked.
//
// A replica sends a batch of requests, which is one transaction. Limits and money are leased: what
// a replica has leased is subtracted before it is used, and returns when the lease ends, even if
// the replica stopped.
package store
