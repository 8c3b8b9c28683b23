package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/yard"
)

// httpFlags are the flags for serving over HTTP. They default to environment variables.
type httpFlags struct {
	http         bool
	listen, port string
}

// resolve applies the environment and validates the flags.
func (f *httpFlags) resolve(a *app) error {
	switch mode := a.getenv("MCP_MODE"); mode {
	case "http":
		f.http = true
	case "", "stdio":
		f.http = f.http || f.listen != "" || f.port != ""
	default:
		return fmt.Errorf("MCP_MODE is %q; it must be stdio or http", mode)
	}
	if f.port == "" && f.listen == "" {
		f.port = a.getenv("MCP_PORT")
	}
	if f.port == "" {
		return nil
	}
	if n, err := strconv.Atoi(f.port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("port %q is not a number from 0 to 65535", f.port)
	}
	f.listen = net.JoinHostPort("127.0.0.1", f.port)
	return nil
}

// runYard runs a yard's background work while serve runs.
func (a *app) runYard(ctx context.Context, y *yard.Yard, serve func(context.Context) error) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { y.Run(background) })
	wg.Go(func() {
		hangup := make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP)
		defer signal.Stop(hangup)
		if err := y.WatchConfig(background, hangup); err != nil {
			a.opts.Log.Warn("could not watch the configuration file; changes take effect only after a restart", "error", err)
		}
	})
	select {
	case <-y.Ready():
	case <-time.After(startTimeout): // a slow source must not delay the others
	case <-ctx.Done():
	}
	err := y.Check()
	if err == nil {
		err = serve(ctx)
	}
	stop()
	wg.Wait()
	return err
}

// serveHTTP serves a yard at the given or the configured address until ctx ends. It calls ready
// with the base URL once it is listening.
func (a *app) serveHTTP(ctx context.Context, y *yard.Yard, address string, ready func(baseURL string)) error {
	if address == "" {
		address = y.Listen()
	}
	if err := y.CheckAddress(address); err != nil {
		return fmt.Errorf("--listen %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return portInUse(address)
	}
	if err != nil {
		return err
	}
	return a.runYard(ctx, y, func(ctx context.Context) error {
		ready(y.Scheme() + "://" + l.Addr().String())
		return y.Serve(ctx, l)
	})
}

// portInUse returns an error that suggests a different port.
func portInUse(address string) error {
	host, port, _ := net.SplitHostPort(address) // cannot fail: CheckAddress has parsed it
	n, err := strconv.Atoi(port)
	switch {
	case err != nil:
		return fmt.Errorf("%s is in use; choose another with --listen", address)
	case !config.IsLoopback(host):
		return fmt.Errorf("port %d is in use; try --listen %s", n, net.JoinHostPort(host, strconv.Itoa(n%65535+1)))
	}
	return fmt.Errorf("port %d is in use; try --port %d", n, n%65535+1)
}
