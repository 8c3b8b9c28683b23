// Package pgtest runs real PostgreSQL servers for tests: one that the tests of a process
// share, and others that a test may stop, kill, fail over and fill up. Only tests import it.
package pgtest
