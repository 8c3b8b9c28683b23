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
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	startTime = time.Minute // maximum time to start, including recovery
	stopTime  = time.Minute // maximum time to stop
	toolTime  = 2 * time.Minute
)

// Cluster is a PostgreSQL server and its data. It listens only on loopback and trusts all
// connections. Its methods must not be called concurrently.
type Cluster struct {
	base     *url.URL // URL of the postgres database
	bin      string   // folder with the programs; empty for an external server
	dir      string
	owned    bool // the folder is removed when the server is closed
	host     string
	port     string
	settings []string
	disk     io.Closer // disk mounted at the folder; may be nil

	template struct { // see Copy
		once sync.Once
		name string
		err  error
	}

	keeper *program // shell that runs the server; nil if it is not running
	say    io.WriteCloser
}

// Start creates a cluster in a folder and starts it. If dir is empty, a temporary folder is used
// and removed when the cluster is closed. If the test runs as root, the user postgres must be able
// to access the folder. Settings are lines for postgresql.conf, such as "fsync=off". By default,
// commits are durable.
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
	host, port, err := freeAddress()
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir, host: host, port: port, settings: settings}
	if c.base, err = url.Parse("postgres://postgres@" + net.JoinHostPort(host, port) + "/postgres?sslmode=disable"); err != nil {
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

// URL returns the URL of the postgres database.
func (c *Cluster) URL() string { return c.base.String() }

// Address returns the cluster's host and port.
func (c *Cluster) Address() string { return c.base.Host }

// keep runs a server until a signal name is written to its standard input, or until the input ends,
// which happens when the test process ends for any reason. It then removes the folder if one is
// given.
const keep = `folder=$1; shift
"$@" & server=$!
if read -r signal; then folder=; else signal=QUIT; fi
kill -"$signal" "$server"; wait "$server"
[ -z "$folder" ] || rm -rf "$folder"`

// Start restarts a stopped or killed server at the same address and waits until it responds.
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
		// Processes of a killed server may still hold its memory. They exit on their own.
		if err := c.end("QUIT"); err != nil {
			return err
		}
	}
}

// launch starts the server but does not wait for it.
func (c *Cluster) launch() error {
	folder := ""
	if c.owned {
		folder = c.dir
	}
	args := []string{"-c", keep, "sh", folder, filepath.Join(c.bin, "postgres"), "-D", c.data()}
	for _, s := range slices.Concat([]string{"port=" + c.port, "listen_addresses=" + c.host, "unix_socket_directories=", "max_connections=200", "wal_level=replica"}, c.settings) {
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

// await waits until the server responds.
func (c *Cluster) await(limit time.Duration) error {
	var err error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = c.Exec("select 1"); err == nil {
			return nil
		}
	}
	return fmt.Errorf("pgtest: the server is not responding: %w", err)
}

// Exec runs a statement in the postgres database.
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

// is runs a query that returns a boolean.
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

// stops maps shutdown modes to signals.
var stops = map[string]string{"fast": "INT", "immediate": "QUIT"}

// Stop stops the server. Mode fast closes connections and writes all data; mode immediate is like a
// crash.
func (c *Cluster) Stop(mode string) error {
	signal, ok := stops[mode]
	if !ok {
		return fmt.Errorf("pgtest: unknown shutdown mode %q: use fast or immediate", mode)
	}
	return c.end(signal)
}

// Kill kills the server with SIGKILL and waits until its connection processes have noticed. Until
// then, they can still commit.
func (c *Cluster) Kill() error {
	if err := c.end("KILL"); err != nil {
		return err
	}
	for deadline := time.Now().Add(stopTime); c.hasProcesses(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.New("pgtest: processes of the killed server are still running")
		}
	}
	return nil
}

// hasProcesses reports whether a process is running in the data folder. It needs /proc.
func (c *Cluster) hasProcesses() bool {
	folders, err := filepath.Glob("/proc/[0-9]*/cwd")
	return err == nil && slices.ContainsFunc(folders, func(name string) bool {
		folder, err := os.Readlink(name)
		return err == nil && folder == c.data()
	})
}

// Restart stops the server and starts it again with the same data.
func (c *Cluster) Restart() error {
	if err := c.Stop("fast"); err != nil {
		return err
	}
	return c.Start()
}

// end sends a signal to the server and waits for it to exit.
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
		_ = c.keeper.Wait() // returns the exit status of a signaled server
	}
	c.keeper = nil
	return err
}

// Close stops the server and removes its folder, if Start created it.
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

// log returns the end of the server's log.
func (c *Cluster) log() string {
	data, err := os.ReadFile(filepath.Join(c.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-4<<10):])
}

// tool runs a PostgreSQL program.
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

// freeAddress returns an unused address. If possible, it uses a loopback host that no other process
// listens on or connects from, so that the address stays unused until the server listens, and while
// the server is stopped.
func freeAddress() (host, port string, err error) {
	pid := os.Getpid()
	own := fmt.Sprintf("127.%d.%d.%d", 1+pid>>16%250, pid>>8%256, 1+pid%250) // not available on every system
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", own+":0")
	if err != nil {
		l, err = new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	}
	if err != nil {
		return "", "", err
	}
	defer func() { _ = l.Close() }()
	return net.SplitHostPort(l.Addr().String())
}
