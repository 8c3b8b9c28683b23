package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/trust/outbound"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// healthCommand checks a running yard. It is meant for container images that have no shell.
type healthCommand struct {
	*app
	url      string
	timeout  time.Duration
	insecure bool
}

func newHealthCommand(a *app) *cobra.Command {
	c := &healthCommand{app: a}
	cmd := &cobra.Command{
		Use: "health", Short: "Check whether a running instance is ready, for health checks", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return fail(c.run(cmd.Context())) },
	}
	cmd.Flags().StringVar(&c.url, "url", "http://"+config.Default().Listen, "URL of the instance; https is tried if the server requires it")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 4*time.Second, "how long to wait for the response")
	cmd.Flags().BoolVar(&c.insecure, "insecure", false, "skip TLS certificate verification (always skipped for loopback addresses)")
	return cmd
}

// anyNetwork allows all addresses, because an instance's name in a cluster resolves to a private
// address.
var anyNetwork = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

func (c *healthCommand) run(ctx context.Context) error {
	base, err := url.Parse(c.url)
	if err != nil {
		return fmt.Errorf("--url %s: %w", c.url, err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	res, body, err := probe(ctx, base, "readyz", c.insecure) //nolint:bodyclose // probe closes it
	if err != nil {
		return err
	}
	text := untrusted.Printable(strings.TrimSpace(body))
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is not ready: %s: %s", c.url, res.Status, text)
	}
	fmt.Fprintln(c.out, text)
	return nil
}

// wantsHTTPS is the response of a server that requires TLS to a plain HTTP request.
const wantsHTTPS = "Client sent an HTTP request to an HTTPS server."

// probe sends a health check to the instance at an address. If insecure is set, or at a loopback
// address, for which certificates are rarely valid, it does not verify the TLS certificate: the
// request carries no secrets.
func probe(ctx context.Context, base *url.URL, path string, insecure bool) (res *http.Response, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath(path).String(), http.NoBody)
	if err != nil {
		return nil, "", err
	}
	network := outbound.Network{Private: anyNetwork, Unverified: insecure || config.IsLoopback(base.Hostname())}
	client := outbound.NewHTTPClient([]string{base.Hostname()}, network, outbound.Limits{Body: 64 << 10})
	defer client.CloseIdleConnections()
	res, err = client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if base.Scheme == "http" && res.StatusCode == http.StatusBadRequest && strings.TrimSpace(string(data)) == wantsHTTPS {
		secure := *base
		secure.Scheme = "https"
		return probe(ctx, &secure, path, insecure)
	}
	return res, string(data), err
}
