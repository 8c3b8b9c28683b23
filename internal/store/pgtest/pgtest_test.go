package pgtest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestDatabasesAreApart(t *testing.T) {
	c := ForTest(t)
	one, two := c.Database(t), c.Database(t)
	if one == two || ForTest(t) != c {
		t.Fatal(one, two)
	}
	query(t, one, "create table t (n int)")
	query(t, two, "create table t (n int)")
}

func TestCommitsSurviveTheServer(t *testing.T) {
	c := StartForTest(t)
	query(t, c.URL(), "create table t (n int)")
	for name, end := range map[string]func() error{
		"fast":      func() error { return c.Stop("fast") },
		"immediate": func() error { return c.Stop("immediate") },
		"kill":      c.Kill,
	} {
		query(t, c.URL(), "insert into t values (1)")
		if err := end(); err != nil {
			t.Fatal(name, err)
		}
		if err := c.Exec("select 1"); err == nil {
			t.Fatal(name, "the server still answers")
		}
		if err := c.Start(); err != nil {
			t.Fatal(name, err)
		}
	}
	if err := c.Restart(); err != nil {
		t.Fatal(err)
	}
	if n := query(t, c.URL(), "select count(*) from t"); n != 3 {
		t.Errorf("%d rows", n)
	}
	if err := c.Stop("slow"); err == nil {
		t.Error("unknown mode")
	}
}

func TestFailoverLosesNothing(t *testing.T) {
	c := StartForTest(t)
	s, err := c.Standby("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	query(t, c.URL(), "create table t (n int)")
	query(t, c.URL(), "insert into t values (1)")
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Promote(); err != nil {
		t.Fatal(err)
	}
	both := strings.Replace(s.URL(), s.Address(), c.Address()+","+s.Address(), 1) + "&target_session_attrs=read-write"
	query(t, both, "insert into t values (1)")
	if n := query(t, both, "select count(*) from t"); n != 2 {
		t.Errorf("%d rows", n)
	}
}

func TestADiskFillsUp(t *testing.T) {
	c := SmallForTest(t, 96)
	query(t, c.URL(), "create table t (s text)")
	if err := c.FillDisk(); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 100 {
		if err = c.Exec("insert into t select repeat(md5(random()::text), 20) from generate_series(1, 10000)"); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("the disk has room")
	}
	if err := c.FreeDisk(); err != nil {
		t.Fatal(err)
	}
	query(t, c.URL(), "insert into t values ('')")
	if err := ForTest(t).FillDisk(); err == nil {
		t.Error("a disk that is not ours was filled")
	}
}

// TestNothingIsLeft starts itself as another process that exits without cleaning up.
func TestNothingIsLeft(t *testing.T) {
	if report := environment("PGTEST_LEAVE"); report != "" {
		c := StartForTest(t)
		if err := os.WriteFile(report, []byte(c.URL()+"\n"+c.dir), 0o600); err != nil {
			t.Fatal(err)
		}
		os.Exit(7)
	}
	ForTest(t) // skips the test if PostgreSQL is not installed
	report := t.TempDir() + "/report"
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNothingIsLeft$")
	cmd.Env = append(os.Environ(), "PGTEST_LEAVE="+report)
	_ = cmd.Run()
	data, err := os.ReadFile(report)
	if err != nil {
		t.Skip("no server was started: ", err)
	}
	url, dir, _ := strings.Cut(string(data), "\n")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		_, err := pgx.Connect(t.Context(), url)
		_, gone := os.Stat(dir)
		if err != nil && os.IsNotExist(gone) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the server or its folder is still there: ", err, gone)
		}
	}
}

// query runs a statement and returns its result if it is a number.
func query(t *testing.T, url, statement string) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, statement)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}
