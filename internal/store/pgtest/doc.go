// Package pgtest runs real PostgreSQL servers for tests: one that is shared by all tests in a
// process, and separate ones that a test can stop, kill, fail over and fill up. Only tests import
// it.
package pgtest
