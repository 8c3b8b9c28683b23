// Package pgtest runs real PostgreSQL servers for tests: one that all tests of a process share, and
// separate ones that a test can stop, kill, fail over and fill up. Only tests import it.
package pgtest
