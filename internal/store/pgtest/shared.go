package pgtest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
)

// shared is the cluster for all tests in this process. It ends with the process.
var shared = sync.OnceValues(func() (*Cluster, error) {
	address := environment("TOOLYARD_TEST_POSTGRES")
	if address == "" {
		return Start("")
	}
	base, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("pgtest: TOOLYARD_TEST_POSTGRES: %w", err)
	}
	return &Cluster{base: base}, nil
})

// ForTest returns the cluster shared by the tests in this process: the one in
// TOOLYARD_TEST_POSTGRES, or one that is started on first use. If PostgreSQL is not installed, the
// test is skipped, or fails if CI is set.
func ForTest(t testing.TB) *Cluster {
	t.Helper()
	c, err := shared()
	return need(t, c, err)
}

// StartForTest starts a separate cluster that ends with the test.
func StartForTest(t testing.TB, settings ...string) *Cluster {
	t.Helper()
	c, err := Start("", settings...)
	need(t, c, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func need(t testing.TB, c *Cluster, err error) *Cluster {
	t.Helper()
	if errors.Is(err, errNoPrograms) && environment("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Database creates a database for a test and returns its URL. It is dropped when the test ends.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	return c.create(t, "")
}

// Copy creates a copy of a database that prepare has prepared, and returns its URL. It is dropped
// when the test ends. All copies in a process use the same template: prepare is called once, and
// the template is kept until the cluster ends.
func (c *Cluster) Copy(t testing.TB, prepare func(url string) error) string {
	t.Helper()
	c.template.once.Do(func() {
		c.template.name = newName()
		if c.template.err = c.Exec("create database " + c.template.name); c.template.err == nil {
			c.template.err = prepare(c.database(c.template.name))
		}
	})
	if c.template.err != nil {
		t.Fatal(c.template.err)
	}
	return c.create(t, " template "+c.template.name)
}

func (c *Cluster) create(t testing.TB, options string) string {
	t.Helper()
	name := newName()
	if err := c.Exec("create database " + name + options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Exec("drop database if exists " + name + " with (force)") }) // the server may have stopped
	return c.database(name)
}

func newName() string { return "test_" + strings.ToLower(rand.Text()) }

// database returns the URL of a database.
func (c *Cluster) database(name string) string {
	u := *c.base
	u.Path = "/" + name
	return u.String()
}

func environment(name string) string {
	return os.Getenv(name) //nolint:forbidigo // tests have no other way to configure this
}
