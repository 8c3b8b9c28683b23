package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	startTime = time.Minute // a server may take to start, also after a crash
	stopTime  = time.Minute // and to stop
	toolTime  = 2 * time.Minute
)

// Cluster is a PostgreSQL server with its data. It listens on the loopback interface only,
// where it trusts everybody. Its methods are for one goroutine at a time.
type Cluster struct {
	base     *url.URL // of the database postgres
	bin      string   // where the programs are; empty for a server that is not ours
	dir      string
	owned    bool // the folder goes with the server
	port     string
	settings []string
	disk     io.Closer // what the folder is mounted on, nil for nothing

	keeper *program // the shell around the server; nil if it does not run
	say    io.WriteCloser
}

// Start makes a cluster in a folder and starts it. Without a folder it makes one, which goes
// with the cluster; a folder that is given must be within reach of the user postgres if the
// test runs as root. Settings are those of postgresql.conf, such as "fsync=off"; unless they
// say otherwise, what is committed is safe on the disk.
func Start(dir string, settings ...string) (*Cluster, error) {
	c, err := newCluster(dir, settings)
	if err != nil {
		return nil, err
	}
	if err := c.initialize(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// newCluster prepares a folder for a cluster.
func newCluster(dir string, settings []string) (*Cluster, error) {
	bin, err := findPrograms()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir, port: port, settings: settings}
	if c.base, err = url.Parse("postgres://postgres@" + net.JoinHostPort("127.0.0.1", port) + "/postgres?sslmode=disable"); err != nil {
		return nil, err
	}
	if dir == "" {
		if c.dir, err = os.MkdirTemp("", "toolyard-postgres-"); err != nil {
			return nil, err
		}
		c.owned = true
	}
	return c, giveAway(c.dir)
}

func (c *Cluster) initialize() error {
	err := c.tool("initdb", "-D", c.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--wal-segsize=4", "--no-sync", "--no-instructions")
	if err != nil {
		return err
	}
	return c.Start()
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// URL is where the database postgres of the cluster is.
func (c *Cluster) URL() string { return c.base.String() }

// Address is where the cluster listens: a host and a port.
func (c *Cluster) Address() string { return c.base.Host }

// keep runs a server until a signal is named on its standard input, or until that ends, which
// it does when the test does, in whatever way. Then the folder goes, if there is one to go.
const keep = `folder=$1; shift
"$@" & server=$!
if read -r signal; then folder=; else signal=QUIT; fi
kill -"$signal" "$server"; wait "$server"
[ -z "$folder" ] || rm -rf "$folder"`

// Start starts the server again after it was stopped or killed, at the same address, and
// waits until it answers.
func (c *Cluster) Start() error {
	if c.bin == "" {
		return errNotOurs
	}
	if c.keeper != nil {
		return nil
	}
	deadline := time.Now().Add(startTime)
	for {
		if err := c.launch(); err != nil {
			return err
		}
		err := c.await(min(10*time.Second, time.Until(deadline)))
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w\n%s", err, c.log())
		}
		// What a killed server leaves behind may still hold its memory. It ends by itself.
		if err := c.end("QUIT"); err != nil {
			return err
		}
	}
}

// launch starts the server and does not wait for it.
func (c *Cluster) launch() error {
	folder := ""
	if c.owned {
		folder = c.dir
	}
	args := []string{"-c", keep, "sh", folder, filepath.Join(c.bin, "postgres"), "-D", c.data()}
	for _, s := range slices.Concat([]string{"port=" + c.port, "listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200", "wal_level=replica"}, c.settings) {
		args = append(args, "-c", s)
	}
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	keeper := command(context.Background(), "/bin/sh", args...)
	keeper.Dir, keeper.Stdout, keeper.Stderr = c.dir, log, log
	if c.say, err = keeper.StdinPipe(); err != nil {
		return err
	}
	if err := keeper.Start(); err != nil {
		return err
	}
	c.keeper = keeper
	return nil
}

// await waits until the server answers.
func (c *Cluster) await(limit time.Duration) error {
	var err error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = c.Exec("select 1"); err == nil {
			return nil
		}
	}
	return fmt.Errorf("pgtest: the server does not respond: %w", err)
}

// Exec runs a statement in the database postgres.
func (c *Cluster) Exec(statement string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.URL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, statement, args...)
	return err
}

// is asks the database postgres a question of yes or no.
func (c *Cluster) is(question string) (yes bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.URL())
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close(ctx) }()
	return yes, conn.QueryRow(ctx, question).Scan(&yes)
}

// stops are the signals for the ways to stop.
var stops = map[string]string{"fast": "INT", "immediate": "QUIT"}

// Stop stops the server: "fast" ends its connections and writes all down, "immediate" is a
// crash that the server knows of.
func (c *Cluster) Stop(mode string) error {
	signal, ok := stops[mode]
	if !ok {
		return fmt.Errorf("pgtest: unknown shutdown mode %q: use fast or immediate", mode)
	}
	return c.end(signal)
}

// Kill kills the server with SIGKILL, so that it cannot do anything about it.
func (c *Cluster) Kill() error { return c.end("KILL") }

// Restart stops the server and starts it again.
func (c *Cluster) Restart() error {
	if err := c.Stop("fast"); err != nil {
		return err
	}
	return c.Start()
}

// end sends the server a signal and waits for its end.
func (c *Cluster) end(signal string) error {
	if c.bin == "" {
		return errNotOurs
	}
	if c.keeper == nil {
		return nil
	}
	_, err := fmt.Fprintln(c.say, signal)
	if err == nil {
		timer := time.AfterFunc(stopTime, func() { killGroup(c.keeper.Process.Pid) })
		defer timer.Stop()
		_ = c.keeper.Wait() // with the exit status of a server that a signal has ended
	}
	c.keeper = nil
	return err
}

// Close ends the server, and its folder if nobody gave it one.
func (c *Cluster) Close() error {
	if c.bin == "" {
		return nil
	}
	err := c.end("QUIT")
	if c.disk != nil {
		err = errors.Join(err, c.disk.Close())
	}
	if c.owned {
		err = errors.Join(err, os.RemoveAll(c.dir))
	}
	return err
}

// log is the end of what the server has logged.
func (c *Cluster) log() string {
	data, err := os.ReadFile(filepath.Join(c.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-4<<10):])
}

// tool runs a program of PostgreSQL to its end.
func (c *Cluster) tool(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), toolTime)
	defer cancel()
	cmd := command(ctx, filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgtest: %s: %w\n%s", name, err, out)
	}
	return nil
}

// freePort is a port that nobody listens on at this time.
func freePort() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
